"""Predict a large file in parts, in memory that does not grow with its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import polars as pl

from tabapp.bundle.predict import Predictor
from tabapp.data.read import ReadOptions
from tabapp.data.stream import EncodingChanged, read_parts
from tabapp.data.typed import ColumnCheck
from tabapp.errors import DataError


class Sink(Protocol):
    """Receives the parts of a table."""

    def add(self, frame: pl.DataFrame) -> None: ...
    def restart(self) -> None:
        """Forget all parts."""
        ...


def predict_parts(
    predictor: Predictor,
    path: Path,
    options: ReadOptions,
    sink: Sink,
    *,
    fill_missing_columns: bool = False,
    combine: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame] | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[int, list[str]]:
    """Predict every row of a file for which `data.stream.is_large` holds; returns the number of rows, and notes for the user.

    Args:
        sink: receives the predictions of each part. They are valid only if no error is raised.
        combine: makes the rows of the sink from the rows of the file and their predictions.
        progress: called with the share of the file that is done, if it is known.

    Raises:
        DataError: a part cannot be read, or feature columns are absent or mistyped in the whole file.
        BundleError: a model or its features fail, or predict values that are not finite.
    """
    while True:
        try:
            return _predict_once(predictor, path, options, sink, fill_missing_columns, combine, progress)
        except EncodingChanged as change:
            options = msgspec.structs.replace(options, encoding=change.encoding)
            sink.restart()


def _predict_once(
    predictor: Predictor,
    path: Path,
    options: ReadOptions,
    sink: Sink,
    fill: bool,
    combine: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame] | None,
    progress: Callable[[float], None] | None,
) -> tuple[int, list[str]]:
    check: ColumnCheck | None = None
    n_rows, warnings = 0, []
    for part in read_parts(path, options, predictor.schema.columns):
        if check is None:
            check = ColumnCheck(predictor.schema, part.frame.columns)
            if not fill:
                # Absent columns are known before any row is predicted.
                check.verdict(fill)
        check.add(part.frame)
        warnings += [warning.message for warning in part.warnings]
        values = predictor.predict_checked(part.frame)
        predictions = predictor.to_frame(values)
        sink.add(predictions if combine is None else combine(part.frame, predictions))
        n_rows += part.frame.height
        if progress is not None and part.share:
            progress(part.share)
    if check is None:
        raise DataError(f"{path}: contains no table")
    return n_rows, [*first_of_each(warnings), *check.verdict(fill)]


def first_of_each(messages: Sequence[str]) -> list[str]:
    """Messages that differ in more than numbers; those of later parts are summarized."""
    found: dict[str, list[str]] = {}
    for message in messages:
        found.setdefault(re.sub(r"\d[\d,.]*", "", message), []).append(message)
    return [
        each[0] if len(each) == 1 else f"{each[0].rstrip('.')}, and in {len(each) - 1:,} later parts of the file."
        for each in found.values()
    ]
