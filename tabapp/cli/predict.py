"""The command `predict`, and what commands that read a table for a bundle share. What they need is imported inside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabapp.cli.completion import bundles, tables
from tabapp.cli.options import MAX_MEMORY_HELP, device_option, read_bytes, trust_option
from tabapp.cli.output import TableWriter, check_output
from tabapp.errors import DataError, UsageError
from tabapp.headless.narration import echo, echo_json, say
from tabapp.run import prediction as messages

if TYPE_CHECKING:
    import polars as pl

    from tabapp.bundle.load import LoadedBundle
    from tabapp.data.read import Reading, ReadOptions
    from tabapp.data.schema import Schema

PREVIEW_ROWS = 100


def data_options(function: Any) -> Any:
    """Add the options of commands that read DATA for a bundle."""
    options = (
        click.option(
            "--missing-columns",
            type=click.Choice(["error", "fill"]),
            default="error",
            show_default=True,
            help="Reject feature columns that are missing or of another kind, or fill them with missing values.",
        ),
        click.option("--delimiter", metavar="TEXT", help="Column separator."),
        click.option("--encoding", metavar="NAME", help="Text encoding."),
        click.option("--decimal", metavar="CHAR", help="Decimal separator."),
        click.option("--max-memory", callback=read_bytes, metavar="SIZE", help=MAX_MEMORY_HELP),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=bundles)
@click.argument("data", shell_complete=tables)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Output file: .csv, .parquet, .arrow or .jsonl; an existing file is replaced. Without this option, or with -, CSV is "
    "written to stdout.",
)
@click.option("--keep", is_flag=True, help="Keep the columns of DATA before the predictions.")
@click.option(
    "--check",
    is_flag=True,
    help="Check DATA against the training schema without predicting; exits with 3 if it would be rejected.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON lines on stdout: findings, progress and the first predictions."
)
@click.option("--safe-csv", is_flag=True, help="Put ' before texts that a spreadsheet program would run as formulas.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")
@device_option
@trust_option
@data_options
def predict(
    bundle: Path,
    data: str,
    output: str | None,
    keep: bool,
    check: bool,
    as_json: bool,
    safe_csv: bool,
    quiet: bool,
    device: str,
    trust: Path | None,
    missing_columns: str,
    delimiter: str | None,
    encoding: str | None,
    decimal: str | None,
    max_memory: int | None,
) -> int:
    """Predict every row of DATA with BUNDLE, in the original order. Large files are read in parts."""

    def read(schema: Schema) -> Reading:
        return read_data(data, delimiter, encoding, decimal, max_memory, schema)

    if check:
        return _check(bundle, trust, read, as_json=as_json, fill=missing_columns == "fill")
    target = None if output in (None, "-") else Path(output)
    check_output(target, "Predictions", safe_csv=safe_csv)
    if as_json and target is None:
        raise UsageError("--json prints events on stdout, so the predictions need a file. Choose one with -o.")
    emit = _emit if as_json else _discard
    options = read_options(delimiter, encoding, decimal, max_memory)
    fill = missing_columns == "fill"
    with TableWriter(target, safe_csv=safe_csv) as writer:
        if is_read_in_parts(data, options):
            result = _predict_parts(
                bundle, trust, data, options, writer, fill=fill, keep=keep, emit=emit, device=device
            )
        else:
            result = _predict_whole(bundle, trust, data, read, writer, fill=fill, keep=keep, emit=emit, device=device)
        emit(messages.StageStarted(stage="writing"))
        writer.finish()
    if as_json:
        emit(
            messages.Predicted(
                output=str(target),
                rows=result.n_rows,
                columns=result.preview.columns,
                # As text, because JSON has no NaN.
                preview=result.preview.rows(),
                notes=result.notes,
            )
        )
    elif not quiet:
        for note in result.notes:
            say(note)
        if target is not None:
            echo(f"tabapp: {result.n_rows:,} predictions of {result.target} in {target}.", err=True)
    return 0


@dataclass(frozen=True)
class _Result:
    """Number of predicted rows, the first predictions as text, notes for the user, and the name of the target."""

    n_rows: int
    preview: pl.DataFrame
    notes: list[str]
    target: str


def _predict_whole(
    bundle: Path,
    trust: Path | None,
    data: str,
    read: Callable[[Schema], Reading],
    writer: TableWriter,
    *,
    fill: bool,
    keep: bool,
    emit: Callable[[messages.AnyPredictionMessage], None],
    device: str,
) -> _Result:
    import polars as pl

    loaded, reading = load_and_read(bundle, trust, read, emit, device=device)
    emit(messages.StageStarted(stage="predicting"))
    try:
        prediction = loaded.predictor.predict_frame(
            reading.frame,
            fill_missing_columns=fill,
            progress=lambda share: emit(messages.Progressed(share=round(share, 4))),
        )
    except DataError as error:
        raise DataError(f"{data}: {error}") from None
    predictions = loaded.predictor.to_frame(prediction)
    notes = [*(warning.message for warning in reading.warnings), *prediction.notes]
    writer.add(_beside(reading.frame, predictions, notes) if keep else predictions)
    preview = predictions.head(PREVIEW_ROWS).cast(pl.String)
    return _Result(predictions.height, preview, notes, loaded.predictor.schema.target)


def is_read_in_parts(data: str, options: ReadOptions) -> bool:
    """Whether a command reads DATA in parts."""
    if data == "-":
        return False
    from tabapp.cli.options import check_file
    from tabapp.data.stream import is_large

    check_file(data)
    return is_large(Path(data), options)


def _predict_parts(
    bundle: Path,
    trust: Path | None,
    data: str,
    options: ReadOptions,
    writer: TableWriter,
    *,
    fill: bool,
    keep: bool,
    emit: Callable[[messages.AnyPredictionMessage], None],
    device: str,
) -> _Result:
    """Predict a large file part by part."""
    import polars as pl

    from tabapp.bundle.box import load_boxed
    from tabapp.bundle.stream import predict_parts

    emit(messages.StageStarted(stage="loading the models"))
    predictor = load_boxed(bundle, trust=trust, device=device).predictor
    emit(messages.StageStarted(stage="predicting"))
    notes: list[str] = []
    previews: list[pl.DataFrame] = []

    def combine(rows: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
        if not previews:
            previews.append(predictions.head(PREVIEW_ROWS).cast(pl.String))
        return _beside(rows, predictions, notes) if keep else predictions

    try:
        n_rows, more = predict_parts(
            predictor,
            Path(data),
            options,
            writer,
            fill_missing_columns=fill,
            combine=combine,
            progress=lambda share: emit(messages.Progressed(share=round(share, 4))),
        )
    except DataError as error:
        text = str(error)
        raise DataError(text if text.startswith(data) else f"{data}: {text}") from None
    return _Result(n_rows, previews[0], [*more, *dict.fromkeys(notes)], predictor.schema.target)


def load_and_read(
    bundle: Path,
    trust: Path | None,
    read: Callable[[Schema], Reading],
    emit: Callable[[messages.AnyPredictionMessage], None] = lambda message: None,
    *,
    device: str = "cpu",
) -> tuple[LoadedBundle, Reading]:
    """Verify a bundle, and read a table while another process loads the models of the bundle."""
    from tabapp.bundle.box import Box

    emit(messages.StageStarted(stage="verifying the bundle"))
    with Box(bundle, trust=trust, device=device) as box:
        emit(messages.StageStarted(stage="reading the file"))
        reading = read(box.contents.schema)
        emit(messages.StageStarted(stage="loading the models"))
        return box.load(), reading


def _emit(message: messages.AnyPredictionMessage) -> None:
    """Print one message as a line of JSON."""
    echo_json(messages.PREDICTION.encode(message))


def _discard(message: messages.AnyPredictionMessage) -> None:
    """Print nothing, without `--json`."""


def _check(bundle: Path, trust: Path | None, read: Callable[[Schema], Reading], *, as_json: bool, fill: bool) -> int:
    """Compare a table with the training schema; loads no model."""
    from tabapp.bundle.contents import open_bundle
    from tabapp.data.match import match_columns

    schema = open_bundle(bundle, trust=trust).schema
    reading = read(schema)
    matches = match_columns(reading.frame, schema)
    refused = any(match.refused for match in matches) and not fill
    notes = [warning.message for warning in reading.warnings]
    if as_json:
        findings = [
            messages.Finding(finding=match.finding, column=match.column, refused=match.refused, message=match.message)
            for match in matches
        ]
        _emit(
            messages.Checked(
                rows=reading.frame.height, refused=refused, findings=findings, notes=notes, target=schema.target
            )
        )
    else:
        for note in notes:
            say(note)
        for match in matches:
            echo(f"{'refused' if match.refused else match.finding}: {match.column!r} {match.message}")
        verdict = "would be rejected; --missing-columns fill predicts it anyway" if refused else "can be predicted"
        echo(f"{reading.frame.height:,} rows: the file {verdict}.")
    return DataError.exit_code if refused else 0


def read_options(
    delimiter: str | None, encoding: str | None, decimal: str | None, max_memory: int | None
) -> ReadOptions:
    """The options of a command for reading DATA."""
    from tabapp.data.read import ReadOptions

    return ReadOptions(delimiter=delimiter, encoding=encoding, decimal=decimal, max_memory=max_memory)


def read_data(
    data: str,
    delimiter: str | None,
    encoding: str | None,
    decimal: str | None,
    max_memory: int | None,
    schema: Schema,
) -> Reading:
    """Read the file of a command, or stdin for `-`, for a bundle with this schema."""
    import shutil
    import sys
    import tempfile

    from tabapp.cli.options import check_file
    from tabapp.data.read import read_table

    options = read_options(delimiter, encoding, decimal, max_memory)
    if data != "-":
        check_file(data)
        return read_table(Path(data), options, allow_no_rows=True, columns=schema.columns)
    with tempfile.NamedTemporaryFile(prefix="tabapp-stdin-", suffix=".csv") as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
        return read_table(Path(spool.name), options, allow_no_rows=True, columns=schema.columns)


def _beside(data: pl.DataFrame, predictions: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """The input columns, then the predictions; an input column whose name a prediction needs is renamed."""
    import polars as pl

    taken = {name for name in data.columns if name in predictions.columns}
    names = set(data.columns) | set(predictions.columns)
    renamed: dict[str, str] = {}
    for name in sorted(taken):
        new = f"{name}_input"
        while new in names:
            new += "_"
        names.add(new)
        renamed[name] = new
        notes.append(f"The column {name!r} of the input is called {new!r} in the output")
    return pl.concat([data.rename(renamed), predictions], how="horizontal")
