"""A column's distinct values, counted once; columns of plain numbers are summarized without counting texts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.values import EXACT_INTEGER, LEADING_ZERO, is_missing, strip

Float64 = npt.NDArray[np.float64]

_FIRST_LOOK = 100
_MANY = 1_000
"""A column of more distinct numbers than this is not a set of codes, whatever its name."""
_MOSTLY_DIFFERENT = 0.9
_COMPACT_DATES = (19_000_000, 20_999_999)
"""20240131 may be a date."""


@dataclass(frozen=True)
class PlainNumbers:
    """Summary of a column whose present cells are all numbers and cannot be anything else.

    Attributes:
        n_unique: number of distinct values.
        low, high: the range.
        histogram: counts in 10 equal bins of the range.
    """

    n_unique: int
    low: float
    high: float
    histogram: tuple[int, ...]


@dataclass(frozen=True)
class Values:
    """A column's values, without white space around them.

    Attributes:
        texts: the whole column; null where missing.
        missing_spellings: texts that were read as missing, as found.
        plain: summary of the column if it can only be numbers.
    """

    name: str
    texts: pl.Series
    missing_spellings: tuple[str, ...] = ()
    plain: PlainNumbers | None = None

    @property
    def uniques(self) -> pl.Series:
        """Distinct non-missing values, the most frequent first, then in the order of the file."""
        return self._counted["value"]

    @property
    def counts(self) -> pl.Series:
        """How often each of `uniques` occurs."""
        return self._counted["count"]

    @property
    def n_unique(self) -> int:
        """Number of distinct values, without counting texts if that is not needed."""
        return self._counted.height if self.plain is None else self.plain.n_unique

    @property
    def n_rows(self) -> int:
        return len(self.texts)

    @property
    def n_missing(self) -> int:
        return self.texts.null_count()

    @property
    def n_present(self) -> int:
        return self.n_rows - self.n_missing

    @cached_property
    def _counted(self) -> pl.DataFrame:
        # In the order of the file, so that equally frequent values have the same order in every run.
        table = self.texts.alias("value").drop_nulls().to_frame().group_by("value", maintain_order=True).len("count")
        return table.sort("count", descending=True, maintain_order=True)


def count_values(column: pl.Series, null: Collection[str] = (), keep: Collection[str] = ()) -> Values:
    """Strip a text column, set its missing cells to null, and count the rest.

    Args:
        null: further spellings of a missing cell.
        keep: missing spellings, in lower case, that are values in this column.
    """
    if not null and not keep and (plain := _plain_numbers(column)) is not None:
        return Values(column.name, column, plain=plain)
    values = Values(column.name, column)
    if not strip(values.uniques).equals(values.uniques):
        values = Values(column.name, strip(column))
    uniques = values.uniques
    kept = set(keep)
    if uniques.is_in(["+"]).any():
        kept.add("-")
    levels: list[str] = uniques.filter(uniques.str.to_lowercase().is_in(list(kept))).to_list() if kept else []
    gone = is_missing(uniques, levels, [spelling.strip() for spelling in null])
    spellings = tuple(sorted(uniques.filter(gone).to_list()))
    if not spellings:
        return values
    texts = values.texts
    return Values(column.name, texts.set(texts.is_in(list(spellings)).fill_null(False), None), spellings)


def _plain_numbers(texts: pl.Series) -> PlainNumbers | None:
    """None in case of doubt: few distinct numbers, codes with leading zeros, row numbers, dates, infinities."""
    if texts.head(_FIRST_LOOK).drop_nulls().cast(pl.Float64, strict=False).has_nulls():
        return None
    numbers = texts.cast(pl.Float64, strict=False)
    if numbers.null_count() != texts.null_count() or len(texts) <= _MANY:
        return None
    ordered = np.sort(numbers.drop_nulls().to_numpy())
    if len(ordered) <= _MANY or not abs(ordered[0]) <= EXACT_INTEGER >= abs(ordered[-1]):
        return None
    n_unique = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    if n_unique <= _MANY:
        return None
    if _whole(ordered[:_FIRST_LOOK]) and _whole(ordered):
        earliest, latest = _COMPACT_DATES
        if n_unique >= _MOSTLY_DIFFERENT * len(ordered) or earliest <= ordered[len(ordered) // 2] <= latest:
            return None
    zeros = texts.str.starts_with("0") | texts.str.starts_with("-0") | texts.str.starts_with("+0")
    if texts.filter(zeros).str.contains(LEADING_ZERO).any():
        return None
    low, high = float(ordered[0]), float(ordered[-1])
    # The numbers are sorted, so the ends of the bins of `spread` are found by bisection.
    ends = [bisect_left(ordered, k, key=lambda x: (x - low) / (high - low) * 10) for k in range(1, 10)]
    histogram = tuple(int(n) for n in np.diff([0, *ends, len(ordered)]))
    return PlainNumbers(n_unique, low, high, histogram)


def _whole(numbers: Float64) -> bool:
    return bool((numbers == np.floor(numbers)).all())


def spread(numbers: Float64, weights: npt.NDArray[np.integer] | None = None) -> tuple[float, float, tuple[int, ...]]:
    """The range of finite numbers, and how many of them are in each tenth of it.

    Args:
        weights: how often each number occurs; once if not given.
    """
    low, high = float(numbers.min()), float(numbers.max())
    with np.errstate(over="ignore"):
        distance = high - low
    if not np.isfinite(distance) or distance == 0:
        return low, high, (int(len(numbers) if weights is None else weights.sum()),)
    scaled = np.minimum((numbers - low) / distance * 10, 9).astype(np.int64)
    bins = np.bincount(scaled, weights=weights, minlength=10)
    return low, high, tuple(int(count) for count in bins)
