"""The command `monitor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tabapp.cli.completion import bundles, tables
from tabapp.cli.drift import column_shifts, print_shift
from tabapp.cli.options import trust_option
from tabapp.cli.reading import Reader, reading_options, strict_option
from tabapp.errors import DataError
from tabapp.headless.narration import echo_data, echo_json
from tabapp.run.options.places import reject_inputs
from tabapp.run.protocol.monitoring import FileScore, FileShift, Monitored
from tabapp.warning_text import sentences

if TYPE_CHECKING:
    from tabapp.bundle.files.records import MetricValue
    from tabapp.bundle.prediction.load import LoadedBundle
    from tabapp.bundle.prediction.monitor import Shift


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=bundles)
@click.argument("data", nargs=-1, required=True, shell_complete=tables)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write a report: .html, .md or .json."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
@trust_option
@strict_option
@reading_options
def monitor(
    bundle: Path,
    data: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    trust: Path | None,
    strict: bool,
    reader: Reader,
) -> int:
    """Compare later tables with the training table of BUNDLE: shifts of columns, predictions, and scores.

    Give several DATA in the order of time. Scores need the target column. Columns that are missing count as missing cells. Large
    files are read in parts.
    """
    from tabapp.bundle.confined.box import load_boxed
    from tabapp.report.write import format_of, write_rendered

    form = None if output is None else format_of(output)
    reject_inputs(output, (*data, bundle, trust))
    loaded = load_boxed(bundle, trust=trust)
    manifest = loaded.contents.manifest
    result = Monitored(
        bundle=bundle.name,
        target=manifest.target,
        task=manifest.task,
        trained=_score(manifest.metrics[0], int(manifest.data.get("rows", 0))),
        files=tuple(_compared(loaded, file, reader, strict=strict) for file in data),
    )
    if output is not None and form is not None:
        from tabapp.report.drift import drift_report

        write_rendered(drift_report(result), output, form)
    if as_json:
        import msgspec

        echo_json(msgspec.json.format(msgspec.json.encode(result), indent=1))
    elif output is not None:
        echo_data(f"{output}\n".encode(errors="surrogateescape"))
    else:
        for file in result.files:
            print_shift(file)
    return 0


def _compared(loaded: LoadedBundle, file: str, reader: Reader, *, strict: bool) -> FileShift:
    """Compare a file with the training table, whole or in parts.

    Raises:
        DataError: the file cannot be read, or is rejected; names the file.
    """
    from tabapp.bundle.prediction.monitor import compare_with_training
    from tabapp.bundle.prediction.stream import compare_parts

    metric, seed = loaded.contents.manifest.metric, loaded.contents.manifest.seed
    try:
        if reader.reads_in_parts(file):
            shift, warnings = compare_parts(
                loaded.predictor, Path(file), reader.options, metric, seed=seed, strict=strict
            )
        else:
            reading = reader.read(file, loaded.contents.schema)
            shift = compare_with_training(
                loaded.predictor, reading.frame, metric, seed=seed, strict=strict, decimal=reading.decimal
            )
            warnings = sentences(reading.warnings)
    except DataError as error:
        text = str(error)
        raise DataError(text if file in text else f"{file}: {text}") from None
    return _file_shift(Path(file).name, shift, (*warnings, *shift.notes))


def _file_shift(name: str, shift: Shift, notes: tuple[str, ...]) -> FileShift:
    return FileShift(
        file=name,
        rows=shift.rows,
        columns=column_shifts(shift.columns),
        predictions=shift.predictions,
        score=None if shift.score is None else _score(shift.score, shift.scored),
        notes=notes,
    )


def _score(value: MetricValue, rows: int) -> FileScore:
    return FileScore(metric=value.name, rows=rows, score=value.score, low=value.low, high=value.high)
