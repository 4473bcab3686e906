"""Judge whether the numbers of new rows are on the scale of training, by its range and its quartiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.counts import quartiles_of
from tabapp.data.schema import Column
from tabapp.errors import option

Float64 = npt.NDArray[np.float64]

FEW = 6
"""Rows from which a share of them is evidence. Fewer must all be far away."""
MOSTLY = 0.5
"""Share of values outside of the training range from which there is a note."""
FAR, VERY_FAR = 10.0, 100.0
"""Distances from the training range, in widths of it, at which a twentieth of the values, or a single one, are reported."""
_SOME = 0.05
_ALONE, _TOGETHER = 3.0, 1.0
"""The distance from which one or two rows are reported, and from which three to five are."""

_SAMPLE = 4_096
"""Values of a part that are kept for quartiles."""
_MOST_KEPT = 4 * _SAMPLE
_SHOWN = 3
_NEAR_ZERO = 0.1
"""A quartile below this share of the largest has no ratio that says anything."""
_LEAST_SPREAD = 0.3
_CLOSEST, _WIDEST = 0.1, 0.35
"""Bounds of the tolerance of the logarithm of a ratio of quartiles, in decades."""


@dataclass
class Numbers:
    """The numbers of a column so far.

    Attributes:
        count: finite numbers; `outside` of them are outside of the training range, `beyond` by more than its width, `far` and
            `very_far` by so many widths of it.
        nearest: the smallest distance of a number from the training range, in widths of it; 0 inside.
        farthest: some of the numbers outside, as the file spells them, with their distances.
        kept: numbers, evenly spaced over each part.
    """

    count: int = 0
    outside: int = 0
    beyond: int = 0
    far: int = 0
    very_far: int = 0
    nearest: float = math.inf
    farthest: dict[str, float] = field(default_factory=dict[str, float])
    kept: list[Float64] = field(default_factory=list[Float64])

    def add(self, numbers: Float64, low: float, high: float, spelled: pl.Series) -> None:
        """Count the numbers of a part.

        Args:
            numbers: (rows,) NaN where missing.
            low, high: the training range.
            spelled: (rows,) the cells.
        """
        known = numbers[~np.isnan(numbers)]
        if not len(known):
            return
        self.count += len(known)
        self.kept.append(known[:: max(1, len(known) // _SAMPLE)])
        if sum(map(len, self.kept)) > _MOST_KEPT:
            self.kept = [each[::2] for each in self.kept]
        if low <= known.min() and known.max() <= high:
            self.nearest = 0.0
            return
        distance = distances(numbers, low, high)
        self.nearest = min(self.nearest, float(np.fmin.reduce(distance)))
        self.outside += int(np.count_nonzero(distance > 0))
        self.beyond += int(np.count_nonzero(distance > _TOGETHER))
        self.far += int(np.count_nonzero(distance > FAR))
        self.very_far += int(np.count_nonzero(distance > VERY_FAR))
        # Of a mixture of two notations, the farthest ones are to be looked at.
        distance = np.nan_to_num(distance)
        places = np.argsort(-distance, kind="stable")[:_SHOWN]
        found = self.farthest | {spelled[int(place)]: float(distance[place]) for place in places if distance[place] > 0}
        self.farthest = dict(sorted(found.items(), key=lambda item: -item[1])[:_SHOWN])

    def is_strange(self, *, grows: bool = False) -> bool:
        """Whether to report the values outside of the training range.

        Args:
            grows: new rows are expected beyond the range, as dates are; they are reported if they are beyond it by its width.
        """
        if not self.count:
            return False
        if self.very_far:
            return True
        if self.count < FEW:
            return self.nearest > (_ALONE if self.count < 3 else _TOGETHER)
        most = self.beyond if grows else self.outside
        return most > MOSTLY * self.count or self.far >= _SOME * self.count

    @property
    def sample(self) -> Float64:
        """A sample of the numbers so far."""
        return np.concatenate(self.kept) if self.kept else np.empty(0)


def distances(numbers: Float64, low: float, high: float) -> Float64:
    """(rows,) how far numbers are outside of a range, in widths of it; 0 inside, NaN where missing.

    Below a range of positive numbers, the distance is at least a tenth of the ratio to its lower end: a thousandth of it is far
    away, however wide the range is.
    """
    width = (high - low) or abs(high) or 1.0
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found = np.maximum(low - numbers, numbers - high) / width
        if low > 0:
            ratio = np.where((numbers > 0) & (numbers < low), low / numbers / 10, 0.0)
            found = np.maximum(found, ratio)
    return np.maximum(found, 0.0)


def training_quartiles(column: Column) -> tuple[float, ...]:
    """The quartiles of a numeric column in training: stored, or interpolated in its histogram; empty without either."""
    if column.quartiles or column.low is None or column.high is None or not sum(column.histogram):
        return column.quartiles
    cumulative = np.concatenate([[0.0], np.cumsum(column.histogram) / sum(column.histogram)])
    edges = np.linspace(column.low, column.high, len(column.histogram) + 1)
    return tuple(float(np.interp(share, cumulative, edges)) for share in (0.25, 0.5, 0.75))


def power_of_ten(numbers: Float64, column: Column) -> int:
    """The power of ten by which numbers differ from those of training; 0 if it is none.

    Their quartiles are those of training times the power, within the error of so many numbers, and the share of numbers beyond the
    training median rules out that they are from the same distribution.
    """
    # In a histogram of a skewed column, all quartiles are in one bin.
    old = column.quartiles
    if len(numbers) < FEW or not old:
        return 0
    new = quartiles_of(np.sort(numbers))
    floor = _NEAR_ZERO * max(map(abs, old))
    pairs = [(a, b) for a, b in zip(old, new, strict=True) if abs(a) > floor]
    if len(pairs) < 2 or any(a * b <= 0 for a, b in pairs):
        return 0
    ratios = [b / a for a, b in pairs]
    if not all(0 < ratio < math.inf for ratio in ratios):
        return 0
    logs = list(map(math.log10, ratios))
    power = round(sorted(logs)[len(logs) // 2])
    spread = max(_LEAST_SPREAD, abs(math.log10(abs(pairs[-1][0] / pairs[0][0]))))
    tolerance = _CLOSEST + 2 * spread / math.sqrt(len(numbers))
    if not power or abs(power) > 12 or tolerance > _WIDEST or any(abs(each - power) > tolerance for each in logs):
        return 0
    middle = old[1]
    grown = (power > 0) == (middle > 0)
    beyond = float(np.mean(numbers > middle if grown else numbers < middle))
    return power if beyond >= 0.5 + 1.5 / math.sqrt(len(numbers)) else 0


def likely_cause(numbers: Float64, column: Column, power: int) -> str:
    """What may have changed the scale of a column, as a sentence with the remedy."""
    old = training_quartiles(column)
    low, high = column.low or 0.0, column.high or 0.0
    new = quartiles_of(np.sort(numbers))
    if 1000 <= low <= high <= 2999 and 0 <= new[0] <= new[2] <= 99:
        return "They may be years without a century: write them as in training"
    if not power and old:
        power = _nearest_power(old[1], new[1])
    if power:
        return f"They are about {times(power)} those of training: {_check_of(power)}"
    if old and (unit := _temperature(old, new, len(numbers))):
        return f"{unit}: convert them to the unit of training"
    return "Check the unit of the column"


def _check_of(power: int) -> str:
    """What to check where numbers differ by a power of ten."""
    if power in (2, -2):
        return "check whether one of the files has percents and the other shares"
    return f"check the unit and the decimal mark ({option('decimal')})" if power % 3 == 0 else "check the unit"


def _nearest_power(old: float, new: float) -> int:
    """The power of ten that is nearest to the ratio of two medians; 0 if it is not large."""
    if not old or not 0 < (ratio := new / old) < math.inf:
        return 0
    exact = math.log10(ratio)
    return round(exact) if abs(exact - round(exact)) < 0.3 and abs(exact) >= 0.7 else 0


def times(power: int) -> str:
    return f"{10**power:,} times" if power > 0 else f"1/{10**-power:,} of"


_TEMPERATURES = (
    ("They may be in °F, and those of training in °C", 1.8, 32.0),
    ("They may be in °C, and those of training in °F", 1 / 1.8, -32 / 1.8),
    ("They may be in K, and those of training in °C", 1.0, 273.15),
    ("They may be in °C, and those of training in K", 1.0, -273.15),
)
"""Conversions by factor and shift. Half of the values in °C must be temperatures that bodies, rooms and weather have."""
_CELSIUS = (-60.0, 60.0)


def _temperature(old: Sequence[float], new: Sequence[float], count: int) -> str:
    """The conversion of temperatures that explains other quartiles; empty if none does."""
    if count < FEW:
        return ""
    spread = abs(old[2] - old[0])
    for words, factor, shift in _TEMPERATURES:
        celsius = new if words.startswith("They may be in °C") else old
        allowed = (0.1 + 2 / math.sqrt(count)) * factor * spread
        is_near = all(abs(b - (factor * a + shift)) <= allowed for a, b in zip(old, new, strict=True))
        if is_near and _CELSIUS[0] <= celsius[0] and celsius[2] <= _CELSIUS[1]:
            return words
    return ""
