"""Numbers that stand for "not known", such as -999, 9999 or a body mass index of 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.counts import Values
from tabapp.data.forms.numbers import parse_numbers
from tabapp.data.kinds.names import names_amount
from tabapp.data.schema import Column, DataWarning, read_as
from tabapp.data.target import format_of

_LOW = frozenset(-float(x) for x in (1, 9, 99, 999, 9999, 99999, 999999, 88, 888, 8888, 77, 777, 7777))
_HIGH = frozenset(float(x) for x in (99, 999, 9999, 99999, 999999, 9999999, 888, 8888, 777, 7777))
_FEWEST_DISTINCT = 5
_LEAST_SHARE = 1e-4
_FEWEST_DISTINCT_BESIDE_ZERO = 20
_MOST_ZEROS = 0.5
_STEPS = 5
"""A zero is separate if the gap to the next number is at least this many times the usual step between the following numbers."""
_SPREADS = 1.2
"""It is far if that gap is also at least this many standard deviations of the other numbers."""
_FAR_COLUMNS = 2
"""If this many columns have a far zero, the table uses 0 for missing numbers, so zeros that are only separate count as well."""
_STEPS_LOOKED_AT = 11
_MOST_REPEATS = 1_000


@dataclass(frozen=True)
class _Numbers:
    """The distinct numbers of a column in ascending order, and how often each occurs."""

    numbers: npt.NDArray[np.float64]
    counts: npt.NDArray[np.integer]

    @cached_property
    def total(self) -> int:
        return int(self.counts.sum())

    def share(self, position: int) -> float:
        return int(self.counts[position]) / self.total

    def is_frequent(self, position: int) -> bool:
        return self.counts[position] >= 2 and self.share(position) >= _LEAST_SHARE


@check(
    "sentinel",
    description="A number far from all others, such as -999 or an impossible 0, probably stands for a missing value.",
    remedy="Use --null NUMBER to read it as missing; do nothing if it is a real measurement.",
    rank=90,
)
def sentinel(evidence: Evidence) -> Iterator[DataWarning]:
    """Usual codes of missing values outside of a column's range, and zeros that cannot be the low end of it.

    A zero of a count or an amount is a value: the next number is one step away, as 1, 0.5 or 1.09 are. A zero of a blood
    pressure is not: the next number is 24, and the following ones are 2 apart.
    """
    columns = {
        column.name: _count_numbers(column, evidence.values[column.name])
        for column in evidence.judged_features
        if column.kind == "numeric"
        and column.unique >= _FEWEST_DISTINCT
        and (column.low == 0 or column.low in _LOW or column.high in _HIGH)
    }
    apart = {name: numbers for name, numbers in columns.items() if _zero_is_apart(name, numbers)}
    far = {name for name, numbers in apart.items() if _zero_is_far(numbers)}
    zeros = set(apart) if len(far) >= _FAR_COLUMNS else far
    for name, numbers in columns.items():
        position = 0 if name in zeros else _usual_code(numbers)
        if position is None:
            continue
        number, neighbor = numbers.numbers[position], numbers.numbers[1 if position == 0 else -2]
        message = (
            f"{_percent(numbers.share(position))} of the numbers are {number:g}, far from the nearest other number, {neighbor:g}; "
            f"{number:g} may stand for a missing value."
        )
        action = f"kept as a number; --null {number:g} reads it as missing in every column"
        yield DataWarning(
            check="sentinel",
            column=name,
            message=message,
            action=action,
            remedies=(read_as("null", f"{number:g}", name), read_as("null", f"{number:g}")),
        )


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.0005 else f"{share:.2%}"


def _count_numbers(column: Column, values: Values) -> _Numbers:
    if values.plain is not None:
        numbers = values.texts.cast(pl.Float64).drop_nulls().to_numpy()
        return _Numbers(*np.unique(numbers, return_counts=True))
    parsed = parse_numbers(values.uniques, format_of(column)).to_numpy()
    known = ~np.isnan(parsed)
    numbers, place = np.unique(parsed[known], return_inverse=True)
    counts = np.bincount(place, weights=values.counts.to_numpy()[known]).astype(np.int64)
    return _Numbers(numbers, counts)


def _usual_code(column: _Numbers) -> int | None:
    """Position of a code such as -999 below numbers that are not negative, or 9999 far above all others; None if there is none."""
    low, second, before, high = (float(column.numbers[i]) for i in (0, 1, -2, -1))
    if low in _LOW and second >= 0 and column.is_frequent(0):
        return 0
    if high in _HIGH and high - before > 2 * (before - low) and column.is_frequent(-1):
        return -1
    return None


def _zero_is_apart(name: str, column: _Numbers) -> bool:
    """Whether the lowest number is a frequent 0, and the gap above it is unlike the steps between the following numbers."""
    if column.numbers[0] != 0 or len(column.numbers) <= _FEWEST_DISTINCT_BESIDE_ZERO or names_amount(name):
        return False
    if not column.is_frequent(0) or column.share(0) > _MOST_ZEROS:
        return False
    steps = np.diff(column.numbers[1 : 1 + _STEPS_LOOKED_AT])
    return float(column.numbers[1]) >= _STEPS * float(np.median(steps))


def _zero_is_far(column: _Numbers) -> bool:
    others = np.repeat(column.numbers[1:], np.minimum(column.counts[1:], _MOST_REPEATS))
    return float(column.numbers[1]) >= _SPREADS * float(others.std())
