"""Count the distinct values of a column once; columns of plain numbers are summarized without counting texts."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.forms.missing import MISSING, is_missing, strip, stripped_cell
from tabapp.data.forms.null_words import BY_OPTION, NOTHING_DECLARED, Declared, values_among
from tabapp.data.forms.numbers import EXACT_INTEGER, LEADING_ZERO
from tabapp.data.small import FEW, SMALL, contains

Float64 = npt.NDArray[np.float64]

_N_PROBED = 100
_MANY = 1_000
"""A column with more distinct numbers than this is never treated as a set of codes."""
_MOSTLY_DISTINCT = 0.9
_MOST_COMPARED = 1_001
"""Values that a text such as NA is compared with, which is one more than a column of codes or classes has."""
_COMPACT_DATES = tuple((19 * 10**digits, 21 * 10**digits) for digits in (6, 10, 12))
"""Integers in these ranges, such as 20240131 or 20240131235900, may be dates or moments."""


@dataclass(frozen=True)
class PlainNumbers:
    """Summary of a column whose non-missing cells are unambiguously numbers.

    Attributes:
        n_unique: number of distinct values.
        low, high: the range; `quartiles` as in `quartiles_of`.
        histogram: counts in 10 bins of equal width.
    """

    n_unique: int
    low: float
    high: float
    quartiles: tuple[float, ...]
    histogram: tuple[int, ...]


@dataclass(frozen=True)
class Values:
    """The values of a column, stripped of white space.

    Attributes:
        texts: the whole column; null where missing.
        missing_spellings: texts in the column that mean a missing cell; `missing_counts` has how often each occurs.
        kept: texts that are spelled like a missing cell and are values, with the reason for each.
        plain: summary of the column if it can only be numbers.
    """

    name: str
    texts: pl.Series
    missing_spellings: tuple[str, ...] = ()
    missing_counts: tuple[int, ...] = ()
    plain: PlainNumbers | None = None
    kept: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def uniques(self) -> pl.Series:
        """Distinct non-missing values, most frequent first; ties are in the order of the file."""
        distinct = self.distinct
        return distinct if isinstance(distinct, pl.Series) else pl.Series("value", distinct, dtype=pl.String)

    @cached_property
    def counts(self) -> pl.Series:
        """Number of occurrences of each value in `uniques`."""
        counts = self._counted[1]
        return counts if isinstance(counts, pl.Series) else pl.Series("count", counts, dtype=pl.UInt32)

    @property
    def count_array(self) -> npt.NDArray[np.integer]:
        """`counts` as an array, without a Series for a short column."""
        counts = self._counted[1]
        return np.array(counts, dtype=np.uint32) if isinstance(counts, list) else counts.to_numpy()

    @property
    def distinct(self) -> pl.Series | list[str]:
        """`uniques`, as a list for a short column, for which a Series takes longer to make than to use."""
        return self._counted[0]

    def first_counts(self, number: int) -> list[int]:
        """Number of occurrences of the first values of `distinct`."""
        counts = self._counted[1][:number]
        return counts if isinstance(counts, list) else counts.to_list()

    @property
    def n_unique(self) -> int:
        """Number of distinct values."""
        return len(self.distinct) if self.plain is None else self.plain.n_unique

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
    def _counted(self) -> tuple[pl.Series | list[str], pl.Series | list[int]]:
        if len(self.texts) <= FEW:
            counter = Counter(self.texts.to_list())
            counter.pop(None, None)
            # Stable, so equally frequent values stay in the order of the file.
            ordered = counter.most_common()
            values, counts = [value for value, _ in ordered], [count for _, count in ordered]
            if len(values) <= SMALL:
                return values, counts
            return pl.Series("value", values, dtype=pl.String), pl.Series("count", counts, dtype=pl.UInt32)
        # `maintain_order` makes the order of equally frequent values reproducible.
        table = self.texts.alias("value").drop_nulls().to_frame().group_by("value", maintain_order=True).len("count")
        table = table.sort("count", descending=True, maintain_order=True)
        return table["value"], table["count"]


def count_values(
    column: pl.Series, declared: Declared = NOTHING_DECLARED, *, is_target: bool = False, is_category: bool = False
) -> Values:
    """Strip a text column, set its missing cells to null, and count the other values.

    Args:
        declared: what the user says of its texts.
        is_target: the column is the target.
        is_category: every text that is not declared missing is a value.
    """
    # Without its name, which polars may take for a pattern.
    name, column = column.name, column.alias("")
    if len(column) <= SMALL:
        return _count_short(name, column, declared, is_target=is_target, is_category=is_category)
    if not declared.null and (plain := _plain_numbers(column)) is not None:
        return Values(name, column, plain=plain)
    values = Values(name, column)
    if not strip(values.uniques).equals(values.uniques):
        values = Values(name, strip(column))
    uniques = values.uniques
    alike = is_missing(uniques, spellings=declared.null)
    if not alike.any():
        return values
    candidates = _counted(uniques.filter(alike), values.counts.filter(alike))
    others = _counted(uniques.filter(~alike).head(_MOST_COMPARED), values.counts.filter(~alike).head(_MOST_COMPARED))
    kept = _kept(candidates, others, declared, is_target=is_target, is_category=is_category)
    gone = {text: count for text, count in sorted(candidates.items()) if text not in kept}
    texts = values.texts
    if gone:
        texts = texts.set(texts.is_in(list(gone)).fill_null(False), None)
    return Values(name, texts, tuple(gone), tuple(gone.values()), kept=kept)


def _count_short(name: str, column: pl.Series, declared: Declared, *, is_target: bool, is_category: bool) -> Values:
    """`count_values` of a short column."""
    cells: list[str | None] = column.to_list()
    stripped = {cell: stripped_cell(cell) for cell in dict.fromkeys(cells) if cell is not None}
    alike = {text for text in stripped.values() if text in declared.null or text.lower() in MISSING}
    kept: dict[str, str] = {}
    spellings: dict[str, int] = {}
    if alike - {""}:
        counts = Counter(stripped[cell] for cell in cells if cell is not None)
        candidates = {text: counts[text] for text in sorted(alike - {""})}
        others = {text: count for text, count in counts.items() if text not in alike}
        kept = _kept(candidates, others, declared, is_target=is_target, is_category=is_category)
        spellings = {text: count for text, count in candidates.items() if text not in kept}
    gone = alike - kept.keys()
    final = {cell: None if text in gone else text for cell, text in stripped.items()}
    if any(cell != text for cell, text in final.items()):
        column = pl.Series("", [None if cell is None else final[cell] for cell in cells], dtype=pl.String)
    return Values(name, column, tuple(spellings), tuple(spellings.values()), kept=kept)


def _counted(texts: pl.Series, counts: pl.Series) -> dict[str, int]:
    return dict(zip(texts.to_list(), counts.to_list(), strict=True))


def _kept(
    candidates: dict[str, int], others: dict[str, int], declared: Declared, *, is_target: bool, is_category: bool
) -> dict[str, str]:
    """The texts spelled like missing cells that are values, with the reason for each; a category needs none."""
    open_texts = {text: count for text, count in candidates.items() if text not in declared.null}
    if is_category:
        return dict.fromkeys(open_texts, "")
    by_option = dict.fromkeys((text for text in open_texts if text in declared.keep), BY_OPTION)
    undecided = {text: count for text, count in open_texts.items() if text not in by_option}
    return {**by_option, **(values_among(undecided, others, is_target=is_target) if undecided else {})}


def _plain_numbers(texts: pl.Series) -> PlainNumbers | None:
    """Summarize a column of plain numbers.

    None if it may be something else: few distinct numbers, codes with leading zeros, row numbers, dates, infinities.
    """
    probe = texts.head(_N_PROBED)
    if probe.cast(pl.Float64, strict=False).null_count() != probe.null_count():
        return None
    column = texts.cast(pl.Float64, strict=False)
    if column.null_count() != texts.null_count() or len(texts) <= _MANY:
        return None
    # Arrays, because each operation on a Series is a query.
    numbers = column.to_numpy()
    known = ~np.isnan(numbers)
    ordered = np.sort(numbers[known])
    if len(ordered) != len(texts) - texts.null_count():
        return None
    if len(ordered) <= _MANY or not abs(ordered[0]) <= EXACT_INTEGER >= abs(ordered[-1]):
        return None
    n_unique = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    if n_unique <= _MANY:
        return None
    if _whole(ordered[:_N_PROBED]) and _whole(ordered):
        middle = ordered[len(ordered) // 2]
        if n_unique >= _MOSTLY_DISTINCT * len(ordered) or any(low <= middle < high for low, high in _COMPACT_DATES):
            return None
    whole = known & (np.floor(numbers) == numbers)
    if whole.any() and _has_leading_zeros(texts if whole[known].all() else texts.filter(pl.Series(whole))):
        return None
    low, high = float(ordered[0]), float(ordered[-1])
    # The numbers are sorted, so bisection finds the bin edges of `spread`.
    ends = [bisect_left(ordered, k, key=lambda x: (x - low) / (high - low) * 10) for k in range(1, 10)]
    histogram = tuple(int(n) for n in np.diff([0, *ends, len(ordered)]))
    return PlainNumbers(n_unique, low, high, quartiles_of(ordered), histogram)


def quartiles_of(ordered: Float64, counts: npt.NDArray[np.integer] | None = None) -> tuple[float, ...]:
    """The lower quartile, the median and the upper quartile, each one of the numbers.

    Args:
        ordered: finite numbers in ascending order, of which there must be some.
        counts: number of occurrences of each; 1 if None.
    """
    if counts is None:
        return tuple(float(ordered[part * (len(ordered) - 1) // 4]) for part in (1, 2, 3))
    ends = np.cumsum(counts)
    places = np.searchsorted(ends, [part * (int(ends[-1]) - 1) // 4 for part in (1, 2, 3)], side="right")
    return tuple(float(ordered[place]) for place in places)


def _has_leading_zeros(texts: pl.Series) -> bool:
    if len(texts) <= SMALL:
        return bool(contains(texts, LEADING_ZERO).any())
    zeros = texts.str.starts_with("0") | texts.str.starts_with("-0") | texts.str.starts_with("+0")
    return bool(texts.filter(zeros).str.contains(LEADING_ZERO).any())


def _whole(numbers: Float64) -> bool:
    return bool((numbers == np.floor(numbers)).all())


def spread(numbers: Float64, weights: npt.NDArray[np.integer] | None = None) -> tuple[float, float, tuple[int, ...]]:
    """The range of finite numbers and their counts in 10 bins of equal width.

    Args:
        weights: number of occurrences of each number; 1 if None.
    """
    low, high = float(numbers.min()), float(numbers.max())
    distance = high - low
    if not math.isfinite(distance) or distance == 0:
        return low, high, (int(len(numbers) if weights is None else weights.sum()),)
    scaled = np.minimum((numbers - low) / distance * 10, 9).astype(np.int64)
    bins = np.bincount(scaled, weights=weights, minlength=10)
    return low, high, tuple(int(count) for count in bins)
