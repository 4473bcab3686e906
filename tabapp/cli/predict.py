"""The command `predict`. What it needs is imported inside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tabapp.cli.completion import bundles, tables
from tabapp.cli.options import device_option, trust_option
from tabapp.cli.output import TableWriter, check_output
from tabapp.cli.reading import Reader, fill_option, load_and_read, reading_options
from tabapp.errors import DataError, UsageError
from tabapp.headless.narration import echo, echo_json, say
from tabapp.run import prediction as messages

if TYPE_CHECKING:
    import polars as pl


PREVIEW_ROWS = 100


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
@fill_option
@reading_options
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
    fill: bool,
    reader: Reader,
) -> int:
    """Predict every row of DATA with BUNDLE, in the original order. Large files are read in parts."""
    if check:
        return _check(bundle, trust, data, reader, as_json=as_json, fill=fill)
    target = None if output in (None, "-") else Path(output)
    check_output(target, "Predictions", safe_csv=safe_csv)
    if as_json and target is None:
        raise UsageError("--json prints events on stdout, so the predictions need a file. Choose one with -o.")
    emit = _emit if as_json else _discard
    with TableWriter(target, safe_csv=safe_csv) as writer:
        predict_file = _predict_parts if reader.reads_in_parts(data) else _predict_whole
        result = predict_file(bundle, trust, data, reader, writer, fill=fill, keep=keep, emit=emit, device=device)
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
    reader: Reader,
    writer: TableWriter,
    *,
    fill: bool,
    keep: bool,
    emit: Callable[[messages.AnyPredictionMessage], None],
    device: str,
) -> _Result:
    import polars as pl

    loaded, reading = load_and_read(bundle, trust, data, reader, emit, device=device)
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


def _predict_parts(
    bundle: Path,
    trust: Path | None,
    data: str,
    reader: Reader,
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
            reader.options,
            writer,
            fill_missing_columns=fill,
            combine=combine,
            progress=lambda share: emit(messages.Progressed(share=round(share, 4))),
        )
    except DataError as error:
        text = str(error)
        raise DataError(text if text.startswith(data) else f"{data}: {text}") from None
    return _Result(n_rows, previews[0], [*more, *dict.fromkeys(notes)], predictor.schema.target)


def _emit(message: messages.AnyPredictionMessage) -> None:
    """Print one message as a line of JSON."""
    echo_json(messages.PREDICTION.encode(message))


def _discard(message: messages.AnyPredictionMessage) -> None:
    """Print nothing, without `--json`."""


def _check(bundle: Path, trust: Path | None, data: str, reader: Reader, *, as_json: bool, fill: bool) -> int:
    """Compare a table with the training schema; loads no model."""
    from tabapp.bundle.contents import open_bundle
    from tabapp.bundle.stream import match_parts
    from tabapp.data.match import match_columns

    schema = open_bundle(bundle, trust=trust).schema
    if reader.reads_in_parts(data):
        n_rows, matches, notes = match_parts(Path(data), reader.options, schema)
    else:
        reading = reader.read(data, schema)
        n_rows, matches = reading.frame.height, match_columns(reading.frame, schema)
        notes = [warning.message for warning in reading.warnings]
    refused = any(match.refused for match in matches) and not fill
    if as_json:
        findings = [
            messages.Finding(finding=match.finding, column=match.column, refused=match.refused, message=match.message)
            for match in matches
        ]
        _emit(messages.Checked(rows=n_rows, refused=refused, findings=findings, notes=notes, target=schema.target))
    else:
        for note in notes:
            say(note)
        for match in matches:
            echo(f"{'refused' if match.refused else match.finding}: {match.column!r} {match.message}")
        verdict = "would be rejected; --missing-columns fill predicts it anyway" if refused else "can be predicted"
        echo(f"{n_rows:,} rows: the file {verdict}.")
    return DataError.exit_code if refused else 0


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
