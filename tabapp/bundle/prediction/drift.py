"""How rows differ from the training table: population stability and new levels of each column."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.schema import Column, Schema

WINDOW_ROWS = 20_000
"""The window of a server, which watches rows for a long time."""

MOST_COLUMNS = 1_000
"""Columns that are watched: the first features of the table."""

_MOST_LEVELS = 10_000
"""Largest number of levels in a schema; a column with as many may have others that are not listed."""
_SMOOTHING = 0.5
"""Added to every count: an empty bin would make the index infinite."""

Counts = npt.NDArray[np.float64]
Binning = Callable[[pl.Series], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class ColumnDrift:
    """The drift of a column.

    Attributes:
        stability: population stability index, 0 for equal shares.
        new_levels: cells with a level that is not in the training table, since the start.
        missing: share of missing cells among the counted rows; `missing_before` among the training rows.
    """

    column: str
    stability: float
    new_levels: int
    missing: float
    missing_before: float


class _Watched:
    """Counts of one column in the bins of its training histogram; the last bin counts missing cells.

    Attributes:
        expected: counts in the training table.
        counts: counts of recent rows.
    """

    def __init__(self, column: Column, n_rows: int) -> None:
        self.name = column.name
        self._bins, known = _bins(column)
        if not known:
            known = (max(n_rows - column.missing, 0),)
        self.expected = np.array([*known, column.missing], dtype=np.float64)
        self.counts = np.zeros_like(self.expected)
        self.new_levels = 0
        self._levels = frozenset(column.levels) if 0 < len(column.levels) < _MOST_LEVELS else None

    def add(self, values: pl.Series) -> None:
        known = values.drop_nulls()
        n_bins = len(self.counts) - 1
        bins = np.zeros(len(known), dtype=np.int64) if self._bins is None else self._bins(known)
        self.counts[:-1] += np.bincount(bins, minlength=n_bins)[:n_bins]
        self.counts[-1] += len(values) - len(known)
        if self._levels is not None and values.dtype == pl.String:
            self.new_levels += sum(level not in self._levels for level in known.to_list())

    def drift(self) -> ColumnDrift:
        n_seen = self.counts.sum()
        return ColumnDrift(
            self.name,
            population_stability(self.expected, self.counts),
            self.new_levels,
            float(self.counts[-1] / n_seen) if n_seen else 0.0,
            float(self.expected[-1] / self.expected.sum()) if self.expected.sum() else 0.0,
        )


def _bins(column: Column) -> tuple[Binning | None, tuple[int, ...]]:
    """The bin of each value that is not missing, and the counts of the training table; no bins without a histogram."""
    if column.kind == "numeric" and column.low is not None and column.high is not None and len(column.histogram) > 1:
        return _equal_bins(column.low, column.high, len(column.histogram)), column.histogram
    if column.kind == "datetime" and column.low_text and column.high_text and len(column.histogram) > 1:
        low, high = (_microseconds(text) for text in (column.low_text, column.high_text))
        if low < high:
            return _equal_bins(low, high, len(column.histogram)), column.histogram
    if column.kind in ("categorical", "boolean") and column.histogram:
        places = {level: place for place, level in enumerate(column.levels[: len(column.histogram)])}
        other = len(column.histogram)
        # All further levels share a bin.
        counts = (*column.histogram, sum(column.level_counts[other:]))

        def of_level(values: pl.Series) -> npt.NDArray[np.int64]:
            return np.array([places.get(level, other) for level in values.to_list()], dtype=np.int64)

        return of_level, counts
    return None, ()


def _equal_bins(low: float, high: float, n_bins: int) -> Binning:
    """Bins of equal width; the first and the last one include everything beyond the range of training."""

    def of_number(values: pl.Series) -> npt.NDArray[np.int64]:
        numbers = values.dt.epoch("us") if values.dtype.is_temporal() else values
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (numbers.to_numpy().astype(np.float64) - low) / (high - low) * n_bins
        return np.clip(np.nan_to_num(scaled), 0, n_bins - 1).astype(np.int64)

    return of_number


def _microseconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment - datetime(1970, 1, 1)).total_seconds() * 1e6


def population_stability(expected: Counts, counts: Counts) -> float:
    """Population stability index of two histograms: Σ (q − p) · ln(q / p) over the shares p and q of their bins.

    It is the symmetric Kullback-Leibler divergence of the shares. Rules of thumb call values above 0.1 a moderate and above 0.25 a
    large shift (Siddiqi: Credit Risk Scorecards, 2006). With n rows and k bins its expectation without any shift is about k / n
    (Yurdakul, Naranjo: Statistical properties of the population stability index, Journal of Risk Model Validation 14, 2020).
    """
    if not counts.sum():
        return 0.0
    p = (expected + _SMOOTHING) / (expected + _SMOOTHING).sum()
    q = (counts + _SMOOTHING) / (counts + _SMOOTHING).sum()
    value = float(((q - p) * np.log(q / p)).sum())
    return value if math.isfinite(value) else 0.0


def largest_first(columns: Sequence[ColumnDrift]) -> tuple[ColumnDrift, ...]:
    """Columns by descending stability index."""
    return tuple(sorted(columns, key=lambda column: (-column.stability, column.column)))


class DriftMonitor:
    """Counts rows. Thread-safe.

    Args:
        window: when so many rows are counted, all counts are halved, so that they describe recent rows; None counts all rows alike.
    """

    def __init__(self, schema: Schema, *, window: int | None = None) -> None:
        self._window = window
        self._lock = threading.Lock()
        self._columns = [_Watched(column, schema.rows) for column in schema.features[:MOST_COLUMNS]]
        self._n_recent = 0

    def add(self, typed: pl.DataFrame) -> None:
        """Count rows of typed columns."""
        with self._lock:
            for watched in self._columns:
                watched.add(typed[watched.name])
            self._n_recent += typed.height
            while self._window is not None and self._n_recent >= self._window:
                self._n_recent //= 2
                for watched in self._columns:
                    watched.counts /= 2

    @property
    def n_recent(self) -> int:
        """Rows that the counts describe."""
        return self._n_recent

    def columns(self) -> list[ColumnDrift]:
        """The drift of each column."""
        with self._lock:
            return [watched.drift() for watched in self._columns]
