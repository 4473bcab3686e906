"""Shift and scale numbers before they are rounded to single precision, where they would otherwise lose digits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.features.saved import demand

Float64 = npt.NDArray[np.float64]

SAMPLE_ROWS = 10_000
MOST_MERGED, LEAST_COARSE = 0.01, 1e-6
"""A column is centered if a larger share of its distinct numbers become equal in single precision, whose steps there are more than
the second number times the spread of the column."""
LEAST_SPREAD = 1e-3
"""Numbers that are closer to each other are multiplied: scikit-learn's trees do not split between numbers that differ by less than
1e-7, and `QuantileMap` adds noise of 1e-5."""
LARGEST = 3e38
"""The largest float32 is 3.4e38; larger numbers become infinite, which XGBoost rejects."""


class Shift(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replaces a number x by (x - center) * factor, in double precision.

    Attributes:
        index: index of the number among the kept ones.
        factor: a power of two, so that the product is exact.
    """

    index: int
    center: float
    factor: float

    def apply(self, numbers: Float64) -> Float64:
        """Any shape to the same; NaN stays NaN."""
        with np.errstate(over="ignore"):
            return ((numbers - self.center) * self.factor).clip(-LARGEST, LARGEST)


def fit_shifts(numbers: Float64) -> tuple[Shift, ...]:
    """The shifts of the columns that need one, such as Unix seconds, numbers of orders, or 1e9 ± 600.

    Args:
        numbers: (rows, kept) training rows in double precision, NaN where missing.
    """
    sample = numbers[:: max(1, len(numbers) // SAMPLE_ROWS)]
    found = [_fit_shift(index, sample[:, index]) for index in range(sample.shape[1])]
    return tuple(shift for shift in found if shift is not None)


def _fit_shift(index: int, values: Float64) -> Shift | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    rounded = known.astype(np.float32)
    low, high = float(known.min()), float(known.max())
    is_exact = np.array_equal(rounded, known)
    if is_exact and not high - low < LEAST_SPREAD:
        return None
    distinct = np.unique(known)
    quarter = len(distinct) // 4
    spread = float(distinct[-1 - quarter] - distinct[quarter]) or high - low
    middle, center = float(distinct[len(distinct) // 2]), 0.0
    if not is_exact and np.spacing(np.float32(abs(middle))) > LEAST_COARSE * spread:
        n_merged, n_after = (_n_merged(distinct - origin) for origin in (0.0, middle))
        if n_merged > MOST_MERGED * len(distinct) and n_after <= n_merged / 2:
            center = middle
    factor = 2.0 ** -round(math.log2(spread)) if 0 < spread < LEAST_SPREAD else 1.0
    return None if center == 0.0 and factor == 1.0 else Shift(index, center, factor)


def _n_merged(distinct: Float64) -> int:
    """How many of some sorted distinct numbers become equal to the one before in single precision."""
    return int(np.count_nonzero(np.diff(distinct.astype(np.float32)) == 0))


def shifted(numbers: Float64, shifts: Sequence[Shift]) -> Float64:
    """(rows, kept) numbers with the shifts; the same array if there are none."""
    if not shifts:
        return numbers
    numbers = numbers.copy()
    for shift in shifts:
        numbers[:, shift.index] = shift.apply(numbers[:, shift.index])
    return numbers


def check_shifts(shifts: Sequence[Shift], n_kept: int) -> None:
    """Check saved shifts.

    Raises:
        ValueError: an index is out of range or occurs twice, or a number is not usable.
    """
    demand(len({shift.index for shift in shifts}) == len(shifts), "an index in 'shifts' appears twice")
    for shift in shifts:
        demand(0 <= shift.index < n_kept, f"the index {shift.index} in 'shifts' is out of range")
        usable = math.isfinite(shift.center) and 0 < shift.factor < math.inf
        demand(usable, "a center or factor in 'shifts' is not usable")
