"""The command `predict`. What it needs is imported inside it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from tabapp.cli.completion import bundles, tables
from tabapp.cli.distribution import Distributions, inputs_of
from tabapp.cli.options import device_option, trust_option
from tabapp.cli.output import TableWriter, check_output
from tabapp.cli.reading import Reader, fill_option, load_and_read, reading_options, strict_option
from tabapp.errors import DataError, UnconfinedWarning, UsageError
from tabapp.headless.narration import echo, echo_json, say
from tabapp.run.protocol import prediction as messages
from tabapp.warning_text import sentences

if TYPE_CHECKING:
    import polars as pl

    from tabapp.bundle.confined.early_start import EarlyProcess
    from tabapp.bundle.files.targets import TargetFile
    from tabapp.data.new_rows.findings import Match
    from tabapp.data.schema import Schema


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
@strict_option
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
    strict: bool,
    reader: Reader,
) -> int:
    """Predict every row of DATA with BUNDLE, in the original order. Large files are read in parts."""
    from tabapp.bundle.confined.early_start import EarlyProcess
    from tabapp.bundle.files.targets import target_files

    target = None if output in (None, "-") else Path(output)
    if not check:
        check_output(target, "Predictions", (data, bundle, trust), safe_csv=safe_csv)
        if as_json and target is None:
            raise UsageError("--json prints events on stdout, so the predictions need a file. Choose one with -o.")
    with ExitStack() as stack:
        if quiet:
            stack.enter_context(warnings.catch_warnings(action="ignore", category=UnconfinedWarning))
        early = None if check else stack.enter_context(EarlyProcess(bundle, device))
        files = stack.enter_context(target_files(bundle, trust=trust))
        if check:
            return _check(files, trust, data, reader, as_json=as_json, fill=fill, strict=strict)
        emit = _emit if as_json else _discard
        writer = stack.enter_context(TableWriter(target, safe_csv=safe_csv))
        options = _Options(data, reader, fill=fill, strict=strict, keep=keep, emit=emit, device=device, early=early)
        if files[0].target is None:
            result = _predict_file(bundle, trust, options, writer)
        else:
            result = _predict_targets(files, options, writer)
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
                labels=tuple(result.labels),
                inputs=result.inputs[0],
                input_rows=result.inputs[1],
                distributions=tuple(result.distributions),
            )
        )
    elif not quiet:
        for note in result.notes:
            say(note)
        _say_labels(result.labels)
        if target is not None:
            echo(f"tabapp: {result.n_rows:,} predictions of {result.target} in {target}.", err=True)
    return 0


@dataclass(frozen=True)
class _Options:
    """What to predict, and how; the fields are the options of the command. `emit` receives messages about progress, and
    `early` has started a process for the bundle."""

    data: str
    reader: Reader
    fill: bool
    strict: bool
    keep: bool
    emit: Callable[[messages.AnyPredictionMessage], None]
    device: str
    early: EarlyProcess | None


class _Rows(Protocol):
    """Receives the predictions of a file, part by part."""

    def add(self, frame: pl.DataFrame) -> None: ...
    def restart(self) -> None: ...


class _Collected:
    """Keeps the parts of a table in memory."""

    def __init__(self) -> None:
        self._parts: list[pl.DataFrame] = []

    def add(self, frame: pl.DataFrame) -> None:
        self._parts.append(frame)

    def restart(self) -> None:
        self._parts.clear()

    def frame(self) -> pl.DataFrame:
        import polars as pl

        return pl.concat(self._parts)


class _Restartable:
    """Passes the parts of a table on, and calls a function before they start again."""

    def __init__(self, writer: _Rows, forget: Callable[[], None]) -> None:
        self._writer, self._forget = writer, forget

    def add(self, frame: pl.DataFrame) -> None:
        self._writer.add(frame)

    def restart(self) -> None:
        self._forget()
        self._writer.restart()


@dataclass(frozen=True)
class _Result:
    """Number of predicted rows, the first predictions as text, notes for the user, the name of the target, thresholds, the
    distribution of the predictions of each target, and the inputs of the first rows."""

    n_rows: int
    preview: pl.DataFrame
    notes: list[str]
    target: str
    labels: list[messages.LabelRule]
    distributions: list[messages.Distribution]
    inputs: tuple[Sequence[str], Sequence[Sequence[str | None]]]


def _predict_file(bundle: Path, trust: Path | None, options: _Options, writer: _Rows) -> _Result:
    """Predict a file with a bundle of one target."""
    in_parts = options.reader.reads_in_parts(options.data)
    return (_predict_parts if in_parts else _predict_whole)(bundle, trust, options, writer)


def _predict_targets(files: Sequence[TargetFile], options: _Options, writer: _Rows) -> _Result:
    """Predict a file with the bundle of each target; the columns of predictions start with the target.

    The rows of the file and the predictions of all targets are in memory at the end.
    """
    import polars as pl

    from tabapp.bundle.files.targets import prefixed

    whole: pl.DataFrame | None = None
    notes: list[str] = []
    previews: list[pl.DataFrame] = []
    labels: list[messages.LabelRule] = []
    distributions: list[messages.Distribution] = []
    inputs: dict[str, list[str | None]] = {}
    n_rows = 0
    with options.reader.kept(options.data) as data:
        for file in files:
            assert file.target is not None
            collected = _Collected()
            result = _predict_file(
                file.path, None, replace(options, data=data, keep=options.keep and not previews), collected
            )
            new_names = {name: prefixed(file.target, name) for name in result.preview.columns}
            frame, n_rows = collected.frame(), result.n_rows
            if whole is None and options.keep:
                whole = frame[:, : frame.width - len(new_names)]
            predictions = frame[:, frame.width - len(new_names) :].rename(new_names)
            whole = predictions if whole is None else _beside(whole, predictions, notes)
            previews.append(result.preview.rename(new_names))
            notes += [note for note in result.notes if note not in notes]
            labels += result.labels
            distributions += result.distributions
            names, rows = result.inputs
            inputs |= {name: [row[place] for row in rows] for place, name in enumerate(names)}
    assert whole is not None, "a bundle has a target"
    writer.add(whole)
    targets = ", ".join(file.target for file in files if file.target is not None)
    cells = list(inputs), list(zip(*inputs.values(), strict=True))
    return _Result(n_rows, pl.concat(previews, how="horizontal"), notes, targets, labels, distributions, cells)


def _predict_whole(bundle: Path, trust: Path | None, options: _Options, writer: _Rows) -> _Result:
    import polars as pl

    data, emit = options.data, options.emit
    loaded, reading = load_and_read(
        bundle, trust, data, options.reader, emit, device=options.device, early=options.early
    )
    emit(messages.StageStarted(stage="predicting"))
    try:
        prediction = loaded.predictor.predict_frame(
            reading.frame,
            fill_missing_columns=options.fill,
            strict=options.strict,
            decimal=reading.decimal,
            progress=lambda share: emit(messages.Progressed(share=round(share, 4))),
        )
    except DataError as error:
        raise DataError(f"{data}: {error}") from None
    predictions = loaded.predictor.to_frame(prediction)
    notes = [*sentences(reading.warnings), *prediction.notes]
    writer.add(_beside(reading.frame, predictions, notes) if options.keep else predictions)
    preview = predictions.head(PREVIEW_ROWS).cast(pl.String)
    schema = loaded.predictor.schema
    labels = _labels(schema, loaded.predictor.ensemble.threshold)
    distributions = Distributions(schema)
    distributions.add(predictions)
    inputs = inputs_of(reading.frame, schema, PREVIEW_ROWS)
    return _Result(predictions.height, preview, notes, schema.target, labels, _known(distributions), inputs)


def _predict_parts(bundle: Path, trust: Path | None, options: _Options, writer: _Rows) -> _Result:
    """Predict a large file part by part."""
    import polars as pl

    from tabapp.bundle.confined.box import load_boxed
    from tabapp.bundle.prediction.stream import predict_parts

    data, emit = options.data, options.emit
    emit(messages.StageStarted(stage="loading the models"))
    predictor = load_boxed(bundle, trust=trust, device=options.device, early=options.early).predictor
    emit(messages.StageStarted(stage="predicting"))
    notes: list[str] = []
    previews: list[pl.DataFrame] = []
    inputs: list[tuple[Sequence[str], Sequence[Sequence[str | None]]]] = []
    distributions = Distributions(predictor.schema)

    def combine(rows: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
        if not previews:
            previews.append(predictions.head(PREVIEW_ROWS).cast(pl.String))
            inputs.append(inputs_of(rows, predictor.schema, PREVIEW_ROWS))
        distributions.add(predictions)
        return _beside(rows, predictions, notes) if options.keep else predictions

    def forget() -> None:
        previews.clear()
        inputs.clear()
        distributions.clear()

    try:
        n_rows, more = predict_parts(
            predictor,
            Path(data),
            options.reader.options,
            _Restartable(writer, forget),
            fill_missing_columns=options.fill,
            strict=options.strict,
            combine=combine,
            progress=lambda share: emit(messages.Progressed(share=round(share, 4))),
        )
    except DataError as error:
        text = str(error)
        raise DataError(text if text.startswith(data) else f"{data}: {text}") from None
    schema, labels = predictor.schema, _labels(predictor.schema, predictor.ensemble.threshold)
    notes = [*more, *dict.fromkeys(notes)]
    return _Result(n_rows, previews[0], notes, schema.target, labels, _known(distributions), inputs[0])


def _known(distributions: Distributions) -> list[messages.Distribution]:
    found = distributions.result()
    return [found] if found is not None else []


def _labels(schema: Schema, threshold: float | None) -> list[messages.LabelRule]:
    """The threshold of a bundle, if it has one."""
    if threshold is None:
        return []
    return [messages.LabelRule(target=schema.target, positive=schema.classes[1], threshold=threshold)]


def _say_labels(labels: Sequence[messages.LabelRule]) -> None:
    """Say by which thresholds rows are labeled."""
    for rule in labels:
        say(
            f"Rows are {messages.label_text(rule.positive, rule.threshold)}, the threshold of the bundle for {rule.target!r}"
        )


def _emit(message: messages.AnyPredictionMessage) -> None:
    """Print one message as a line of JSON."""
    echo_json(messages.PREDICTION.encode(message))


def _discard(message: messages.AnyPredictionMessage) -> None:
    """Print nothing, without `--json`."""


@dataclass(frozen=True)
class _Compared:
    """A table compared with the schema of one target."""

    n_rows: int
    matches: Sequence[Match]
    notes: Sequence[str]
    target: str
    labels: Sequence[messages.LabelRule]


def _check(
    files: Sequence[TargetFile],
    trust: Path | None,
    data: str,
    reader: Reader,
    *,
    as_json: bool,
    fill: bool,
    strict: bool,
) -> int:
    """Compare a table with the training schema of each target; loads no model."""
    import msgspec

    with reader.kept(data) as path:
        found = [_compare(each.path, trust if each.target is None else None, path, reader) for each in files]
    matches = list({(each.column, each.finding): each for one in found for each in one.matches}.values())
    notes = list(dict.fromkeys(note for one in found for note in one.notes))
    labels = [rule for one in found for rule in one.labels]
    n_rows = found[0].n_rows
    if strict:
        matches = [msgspec.structs.replace(each, refused=each.refused or each.is_noted) for each in matches]
    refused = any(match.refused and not (fill and match.finding in ("missing", "changed")) for match in matches)
    if as_json:
        findings = [
            messages.Finding(finding=match.finding, column=match.column, refused=match.refused, message=match.message)
            for match in matches
        ]
        target = ", ".join(one.target for one in found)
        _emit(
            messages.Checked(
                rows=n_rows, refused=refused, findings=findings, notes=notes, target=target, labels=tuple(labels)
            )
        )
    else:
        for note in notes:
            say(note)
        _say_labels(labels)
        for match in matches:
            echo(f"{'refused' if match.refused else match.finding}: {match.column!r} {match.message}")
        is_fillable = any(match.finding in ("missing", "changed") for match in matches)
        anyway = "; --missing-columns fill predicts it anyway" if is_fillable else ""
        echo(f"{n_rows:,} rows: the file {f'would be rejected{anyway}' if refused else 'can be predicted'}.")
    return DataError.exit_code if refused else 0


def _compare(bundle: Path, trust: Path | None, data: str, reader: Reader) -> _Compared:
    from tabapp.bundle.files.contents import open_bundle
    from tabapp.bundle.prediction.stream import match_parts
    from tabapp.data.new_rows.rows import NewRows

    contents = open_bundle(bundle, trust=trust)
    schema, labels = contents.schema, _labels(contents.schema, contents.ensemble.threshold)
    if reader.reads_in_parts(data):
        return _Compared(*match_parts(Path(data), reader.options, schema), schema.target, labels)
    reading = reader.read(data, schema)
    notes = sentences(reading.warnings)
    rows = NewRows(schema, reading.frame.columns, decimal=reading.decimal)
    rows.add(reading.frame)
    return _Compared(rows.n_rows, rows.matches(), notes, schema.target, labels)


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
