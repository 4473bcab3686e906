"""The command `evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tabapp.cli.completion import bundles, tables
from tabapp.cli.options import device_option, trust_option
from tabapp.cli.output import metric_cells
from tabapp.cli.reading import Reader, fill_option, load_and_read, reading_options, strict_option
from tabapp.errors import DataError
from tabapp.headless.narration import echo, echo_json, say
from tabapp.run.protocol.monitoring import ColumnShift, FileShift
from tabapp.warning_text import sentences

if TYPE_CHECKING:
    from tabapp.bundle.files.records import Manifest, MetricValue
    from tabapp.bundle.prediction.evaluate import Evaluation
    from tabapp.bundle.prediction.stream import EvaluatedFile


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=bundles)
@click.argument("data", shell_complete=tables)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
@click.option("--drift", is_flag=True, help="Compare the columns of DATA with those of the training table, too.")
@device_option
@trust_option
@fill_option
@strict_option
@reading_options
def evaluate(
    bundle: Path,
    data: str,
    as_json: bool,
    drift: bool,
    device: str,
    trust: Path | None,
    fill: bool,
    strict: bool,
    reader: Reader,
) -> int:
    """Score BUNDLE on the rows of DATA that have a target: every metric of its task, with 95 % intervals. Large files are read in
    parts.
    """
    from tabapp.bundle.files.targets import target_files

    documents: list[dict[str, Any]] = []
    with target_files(bundle, trust=trust) as files, reader.kept(data) as path:
        for number, each in enumerate(files):
            own_trust = trust if each.target is None else None
            manifest, file = _evaluated(
                each.path, own_trust, path, reader, device=device, fill=fill, strict=strict, with_drift=drift
            )
            for note in [*file.notes, *file.evaluation.notes, *_set_aside(file.evaluation)]:
                say(note if each.target is None else f"{each.target}: {note}")
            shifts: tuple[ColumnShift, ...] = ()
            if drift:
                from tabapp.cli.drift import column_shifts

                shifts = column_shifts(file.drift)
            if as_json:
                document = _evaluation_json(bundle, data, manifest, file.evaluation)
                if drift:
                    document["drift"] = [msgspec.to_builtins(shift) for shift in shifts]
                documents.append(document)
                continue
            if number:
                echo()
            _print_scores(data, manifest, file, shifts if drift else None)
    if as_json:
        document = documents[0] if len(documents) == 1 else {**documents[0], "targets": documents}
        echo_json(json.dumps(document, ensure_ascii=False, indent=1))
    return 0


def _print_scores(data: str, manifest: Manifest, file: EvaluatedFile, shifts: tuple[ColumnShift, ...] | None) -> None:
    """Print the scores of a target, and how much the columns differ from those of the training table."""
    from tabapp.headless.tables import print_table

    found = file.evaluation
    title = f"{manifest.target} ({manifest.task}) · {found.scored:,} rows of {data}"
    print_table(["metric", "score", "low", "high"], metric_cells(found.metrics), right=(1, 2, 3), title=title)
    if shifts is not None:
        from tabapp.cli.drift import print_shift

        print_shift(FileShift(file=Path(data).name, rows=found.rows, columns=shifts, predictions={}, score=None))


def _evaluated(
    bundle: Path,
    trust: Path | None,
    data: str,
    reader: Reader,
    *,
    device: str,
    fill: bool,
    strict: bool,
    with_drift: bool,
) -> tuple[Manifest, EvaluatedFile]:
    """Score a bundle on a file, whole or in parts.

    Raises:
        DataError: no row can be scored, or the file is rejected; names the file.
        BundleError: the bundle is not valid.
    """
    from tabapp.bundle.confined.box import load_boxed
    from tabapp.bundle.prediction.evaluate import evaluate as evaluate_predictor
    from tabapp.bundle.prediction.monitor import column_drift
    from tabapp.bundle.prediction.stream import EvaluatedFile, evaluate_parts

    try:
        if reader.reads_in_parts(data):
            loaded = load_boxed(bundle, trust=trust, device=device)
            manifest = loaded.contents.manifest
            file = evaluate_parts(
                loaded.predictor,
                Path(data),
                reader.options,
                manifest.metric,
                seed=manifest.seed,
                fill_missing_columns=fill,
                strict=strict,
                with_drift=with_drift,
            )
            return manifest, file
        loaded, reading = load_and_read(bundle, trust, data, reader, device=device)
        manifest = loaded.contents.manifest
        found = evaluate_predictor(
            loaded.predictor,
            reading.frame,
            manifest.metric,
            seed=manifest.seed,
            fill_missing_columns=fill,
            strict=strict,
            decimal=reading.decimal,
        )
        drift = column_drift(loaded.predictor, reading.frame, decimal=reading.decimal) if with_drift else ()
        return manifest, EvaluatedFile(found, drift, sentences(reading.warnings))
    except DataError as error:
        text = str(error)
        raise DataError(text if data in text else f"{data}: {text}") from None


def _set_aside(found: Evaluation) -> list[str]:
    notes: list[str] = []
    if found.without_target:
        notes.append(f"{found.without_target:,} rows without a target were excluded")
    if found.unknown_classes:
        shown = ", ".join(f"{label!r} ({count:,})" for label, count in list(found.unknown_classes.items())[:5])
        more = " …" if len(found.unknown_classes) > 5 else ""
        n_rows = sum(found.unknown_classes.values())
        notes.append(f"{n_rows:,} rows of classes that are not in the training data were excluded: {shown}{more}")
    return notes


def _metric_json(value: MetricValue) -> dict[str, Any]:
    from tabapp.metrics import known

    metric = known(value.name)
    return {
        "name": value.name,
        "title": metric.title if metric else value.name,
        "score": value.score,
        "low": value.low,
        "high": value.high,
        "greater_is_better": metric.greater_is_better if metric else None,
    }


def _evaluation_json(bundle: Path, data: str, manifest: Manifest, found: Evaluation) -> dict[str, Any]:
    return {
        "bundle": str(bundle),
        "data": data,
        "task": manifest.task,
        "target": manifest.target,
        "metric": manifest.metric,
        "rows": found.rows,
        "scored": found.scored,
        "without_target": found.without_target,
        "unknown_classes": found.unknown_classes,
        "metrics": [_metric_json(value) for value in found.metrics],
    }
