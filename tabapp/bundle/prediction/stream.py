"""Predict, score, compare or check a large file in parts, without its rows in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import polars as pl

from tabapp.bundle.prediction.drift import ColumnDrift, DriftMonitor, largest_first
from tabapp.bundle.prediction.evaluate import EvaluatedRows, Evaluation
from tabapp.bundle.prediction.monitor import ComparedRows, Shift
from tabapp.bundle.prediction.predict import Predictor
from tabapp.data.new_rows.findings import Match
from tabapp.data.new_rows.rows import NewRows
from tabapp.data.reading.read import ReadOptions
from tabapp.data.reading.stream import EncodingChanged, Part, read_parts
from tabapp.data.schema import Schema
from tabapp.errors import DataError
from tabapp.warning_text import sentence


class Sink(Protocol):
    """Receives the parts of a table."""

    def add(self, frame: pl.DataFrame) -> None: ...
    def restart(self) -> None:
        """Forget all parts."""
        ...


def read_again_if_needed(
    path: Path,
    options: ReadOptions,
    schema: Schema,
    add: Callable[[Part], None],
    restart: Callable[[], None],
    progress: Callable[[float], None] | None = None,
) -> list[str]:
    """Pass the parts of a file for which `data.stream.is_large` holds to `add`; returns notes for the user.

    Args:
        restart: called before all parts are passed again, because a later part showed another encoding.
        progress: called with the share of the file that is done, if it is known.

    Raises:
        DataError: a part cannot be read.
    """
    while True:
        warnings: list[str] = []
        n_parts = 0
        try:
            for part in read_parts(path, options, schema.columns):
                add(part)
                n_parts += 1
                warnings += map(sentence, part.warnings)
                if progress is not None and part.share:
                    progress(part.share)
        except EncodingChanged as change:
            options = msgspec.structs.replace(options, encoding=change.encoding)
            restart()
            continue
        if not n_parts:
            raise DataError(f"{path}: contains no table")
        return first_of_each(warnings)


def predict_parts(
    predictor: Predictor,
    path: Path,
    options: ReadOptions,
    sink: Sink,
    *,
    fill_missing_columns: bool = False,
    strict: bool = False,
    combine: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame] | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[int, list[str]]:
    """Predict every row of a file for which `data.stream.is_large` holds; returns the number of rows, and notes for the user.

    Args:
        sink: receives the predictions of each part. They are valid only if no error is raised.
        combine: makes the rows of the sink from the rows of the file and their predictions.
        progress: called with the share of the file that is done, if it is known.

    Raises:
        DataError: a part cannot be read, or the whole file is rejected as by `Predictor.predict_frame`.
        BundleError: a model or its features fail, or predict values that are not finite.
    """
    rows: NewRows | None = None

    def restart() -> None:
        nonlocal rows
        rows = None
        sink.restart()

    def add(part: Part) -> None:
        nonlocal rows
        if rows is None:
            names = part.frame.columns
            rows = NewRows(predictor.schema, names, fill=fill_missing_columns, strict=strict, decimal=part.decimal)
            rows.require_columns()
        predictions = predictor.to_frame(predictor.predict_rows(rows.add(part.frame)))
        sink.add(predictions if combine is None else combine(part.frame, predictions))

    notes = read_again_if_needed(path, options, predictor.schema, add, restart, progress)
    assert rows is not None, "the file has a part"
    return rows.n_rows, [*notes, *rows.notes()]


@dataclass(frozen=True)
class EvaluatedFile:
    """Scores of a bundle on a file, the drift of its columns, largest first (empty unless asked for), and notes for the user."""

    evaluation: Evaluation
    drift: tuple[ColumnDrift, ...]
    notes: list[str]


def evaluate_parts(
    predictor: Predictor,
    path: Path,
    options: ReadOptions,
    metric: str,
    *,
    seed: int,
    fill_missing_columns: bool = False,
    strict: bool = False,
    with_drift: bool = False,
) -> EvaluatedFile:
    """Score a predictor on a file for which `data.stream.is_large` holds. Only targets and predictions are kept of each part.

    Raises:
        DataError: as `EvaluatedRows`, or a part cannot be read.
        BundleError: a model or its features fail.
    """
    rows: EvaluatedRows | None = None
    monitor = DriftMonitor(predictor.schema)

    def restart() -> None:
        nonlocal rows, monitor
        rows, monitor = None, DriftMonitor(predictor.schema)

    def add(part: Part) -> None:
        nonlocal rows
        rows = rows or EvaluatedRows(predictor, fill=fill_missing_columns, strict=strict, decimal=part.decimal)
        typed = rows.add(part.frame)
        if with_drift:
            monitor.add(typed)

    notes = read_again_if_needed(path, options, predictor.schema, add, restart)
    assert rows is not None, "the file has a part"
    drift = largest_first(monitor.columns()) if with_drift else ()
    return EvaluatedFile(rows.evaluate(metric, seed=seed), drift, notes)


def compare_parts(
    predictor: Predictor, path: Path, options: ReadOptions, metric: str, *, seed: int, strict: bool = False
) -> tuple[Shift, list[str]]:
    """Compare a file for which `data.stream.is_large` holds with the training table: the comparison, and notes for the user.

    Raises:
        DataError: a part cannot be read, or the file differs from training and `strict` is set.
        BundleError: a model or its features fail.
    """
    rows: ComparedRows | None = None

    def restart() -> None:
        nonlocal rows
        rows = None

    def add(part: Part) -> None:
        nonlocal rows
        rows = rows or ComparedRows(predictor, strict=strict, decimal=part.decimal)
        rows.add(part.frame)

    notes = read_again_if_needed(path, options, predictor.schema, add, restart)
    assert rows is not None, "the file has a part"
    return rows.shift(metric, seed=seed), notes


def match_parts(path: Path, options: ReadOptions, schema: Schema) -> tuple[int, list[Match], list[str]]:
    """Compare a file for which `data.stream.is_large` holds with a schema: the number of rows, findings, and notes for the user.

    Raises:
        DataError: a part cannot be read.
    """
    rows: NewRows | None = None

    def restart() -> None:
        nonlocal rows
        rows = None

    def add(part: Part) -> None:
        nonlocal rows
        rows = rows or NewRows(schema, part.frame.columns, decimal=part.decimal)
        rows.add(part.frame)

    notes = read_again_if_needed(path, options, schema, add, restart)
    assert rows is not None, "the file has a part"
    return rows.n_rows, rows.matches(), notes


def first_of_each(messages: Sequence[str]) -> list[str]:
    """Messages that differ in more than numbers; those of later parts are summarized."""
    found: dict[str, list[str]] = {}
    for message in messages:
        found.setdefault(re.sub(r"\d[\d,.]*", "", message), []).append(message)
    return [
        each[0] if len(each) == 1 else f"{each[0].rstrip('.')}, and in {len(each) - 1:,} later parts of the file."
        for each in found.values()
    ]
