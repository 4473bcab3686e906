"""Fitted steps, one per data column. Each has a state from the training rows and computes features of any rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.forms.numbers import NumberFormat
from tabapp.data.kinds.booleans import false_and_true
from tabapp.features.arrays import FIRST_LEVEL, MISSING, UNSEEN
from tabapp.features.shift import LARGEST
from tabapp.features.text_numbers import find_inner_numbers, read_inner_numbers

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]

_FEW = 2_000
"""Rows for which a loop takes less time than a query of polars, which matters to servers."""

DATE_PARTS: dict[str, Callable[[pl.Series], pl.Series]] = {
    "year": lambda dates: dates.dt.year(),
    "month": lambda dates: dates.dt.month(),
    "day": lambda dates: dates.dt.day(),
    "weekday": lambda dates: dates.dt.weekday(),
    "day of year": lambda dates: dates.dt.ordinal_day(),
    "hour": lambda dates: dates.dt.hour(),
    "minute": lambda dates: dates.dt.minute(),
    "second": lambda dates: dates.dt.second(),
}
_STYLE = {"digit": r"\d", "capital": r"\p{Lu}", "mark": r"[^\w\s]"}
PERIODS: dict[str, float] = {"month": 12, "weekday": 7, "day of year": 365.25, "hour": 24, "minute": 60}


class NumericStep(msgspec.Struct, frozen=True, tag="numeric", forbid_unknown_fields=True):
    """A numeric column, unchanged except for clipping to the range of float32."""

    column: str

    def names(self) -> list[str]:
        return [self.column]

    def numbers(self, values: pl.Series) -> Float64:
        """(rows, 1) float64, NaN where missing."""
        numbers = values.to_numpy().astype(np.float64, copy=False)
        return np.clip(numbers, -LARGEST, LARGEST)[:, None]


class BooleanStep(msgspec.Struct, frozen=True, tag="boolean", forbid_unknown_fields=True):
    """A boolean column as 1 and 0. The values have the spelling of training, see `typed_frame`."""

    column: str
    true: str
    false: str

    @classmethod
    def fit(cls, column: str, levels: tuple[str, ...]) -> BooleanStep:
        """Determine which of the two levels is true."""
        false, true = false_and_true(levels)
        return cls(column, true, false)

    def names(self) -> list[str]:
        return [self.column]

    def numbers(self, values: pl.Series) -> Float64:
        """(rows, 1) float64, NaN where missing or neither."""
        if len(values) <= _FEW:
            known = {self.false: 0.0, self.true: 1.0}
            return np.array([known.get(value, np.nan) for value in values.to_list()], dtype=np.float64)[:, None]
        numbers = values.replace_strict({self.false: 0.0, self.true: 1.0}, default=None, return_dtype=pl.Float64)
        return numbers.to_numpy()[:, None]


class DatetimeStep(msgspec.Struct, frozen=True, tag="datetime", forbid_unknown_fields=True):
    """A date as its parts and the number of days since the earliest training date.

    Attributes:
        start: microseconds since 1970 of the earliest training date.
        parts: the parts that varied in training.
        cycles: the parts that are also given as sine and cosine, for models based on distances: December is near January.
    """

    column: str
    start: int
    parts: tuple[str, ...]
    cycles: tuple[str, ...] = ()

    @classmethod
    def fit(cls, column: str, values: pl.Series, cyclic: bool = False) -> DatetimeStep:
        """Find the earliest date and the parts that vary.

        Args:
            cyclic: also compute the sine and cosine of periodic parts.
        """
        known = values.drop_nulls()
        start = int(known.dt.epoch("us").min()) if len(known) else 0  # pyright: ignore[reportArgumentType]
        parts = tuple(part for part, read in DATE_PARTS.items() if read(known).n_unique() > 1)
        return cls(column, start, parts, tuple(part for part in parts if part in PERIODS) if cyclic else ())

    def names(self) -> list[str]:
        circles = [f"{self.column} {part} {axis}" for part in self.cycles for axis in ("sine", "cosine")]
        return [f"{self.column} elapsed days", *(f"{self.column} {part}" for part in self.parts), *circles]

    def numbers(self, values: pl.Series) -> Float64:
        """(rows, 1 + parts + 2 cycles) float64, NaN where missing."""
        elapsed = (values.dt.epoch("us") - self.start).cast(pl.Float64) / 86_400e6
        parts = [elapsed, *(DATE_PARTS[part](values).cast(pl.Float64) for part in self.parts)]
        for part in self.cycles:
            angle = 2 * np.pi * DATE_PARTS[part](values).cast(pl.Float64) / PERIODS[part]
            parts += [angle.sin(), angle.cos()]
        return np.column_stack([part.to_numpy() for part in parts])


class TextStep(msgspec.Struct, frozen=True, tag="text", forbid_unknown_fields=True):
    """Free text as its length and style; a `TextMap` next to this step represents the content.

    The style is what the map loses by folding case and counting n-grams: the shares of digits, capitals and marks (neither
    letter, digit nor white space), and the mean length of a word.

    Attributes:
        dimensions: number of dimensions of the `TextMap`, 0 if there is none.
        n_numbers: how many of the numbers inside a text are features, from the first one on.
        last_number: also give the last number of a text.
        decimal, thousands: separators inside these numbers.
    """

    column: str
    dimensions: int
    n_numbers: int = 0
    last_number: bool = False
    decimal: str = "."
    thousands: str | None = None

    @classmethod
    def fit(cls, column: str, values: pl.Series, dimensions: int) -> TextStep:
        """Find the numbers inside texts."""
        n_numbers, last, form = find_inner_numbers(values)
        return cls(column, dimensions, n_numbers, last, form.decimal, form.thousands)

    def names(self) -> list[str]:
        return [
            f"{self.column} characters",
            f"{self.column} words",
            *(f"{self.column} {name} share" for name in _STYLE),
            f"{self.column} word length",
            *(f"{self.column} number {i}" for i in range(1, self.n_numbers + 1)),
            *[f"{self.column} last number"] * self.last_number,
            *(f"{self.column} topic {i}" for i in range(1, self.dimensions + 1)),
        ]

    def numbers(self, values: pl.Series) -> Float64:
        """(rows, 6 to 11) float64, NaN where missing."""
        characters, words = values.str.len_chars().cast(pl.Float64), values.str.count_matches(r"\S+").cast(pl.Float64)
        made = [characters, words]
        made += [values.str.count_matches(pattern) / characters.clip(1) for pattern in _STYLE.values()]
        made.append(characters / words.clip(1))
        style = np.column_stack([number.to_numpy() for number in made])
        if not self.n_numbers:
            return style
        form = NumberFormat(self.decimal, self.thousands)
        return np.concatenate([style, read_inner_numbers(values, self.n_numbers, self.last_number, form)], axis=1)


class CategoricalStep(msgspec.Struct, frozen=True, tag="categorical", forbid_unknown_fields=True):
    """A category as an integer code.

    Attributes:
        levels: levels with a separate code, starting at `FIRST_LEVEL`, most frequent first. All other training levels share
            `UNSEEN` with new levels, so models learn from this code.
        counts: number of occurrences of each level in training.
        frequency: also give the training count of the level as a number (1 for a level without a separate code).
        order: levels that have an order, lowest first; the rank is also given as a number.
        marks_of: the column of the file whose marks these are; None for a column of the file.
    """

    column: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    frequency: bool
    order: tuple[str, ...] = ()
    marks_of: str | None = None

    @classmethod
    def fit(
        cls,
        column: str,
        values: pl.Series,
        max_levels: int,
        many: int,
        frequency: bool,
        order: tuple[str, ...] = (),
        marks_of: str | None = None,
    ) -> CategoricalStep:
        """Fit the levels on training rows.

        Args:
            max_levels: maximum number of levels with a separate code.
            many: a column with more levels has high cardinality, and its levels that occur once have no separate code.
            frequency: give the counts of levels if the column has high cardinality.
            order: levels that have an order.
            marks_of: the column of the file whose marks the values are.
        """
        table = values.alias("level").drop_nulls().value_counts(name="count")
        table = table.sort(["count", "level"], descending=[True, False])
        high = table.height > many
        kept = (table.filter(pl.col("count") > 1) if high else table).head(max_levels)
        levels, counts = kept["level"].to_list(), kept["count"].to_list()
        return cls(column, tuple(levels), tuple(counts), frequency and high, order, marks_of)

    @property
    def cardinality(self) -> int:
        """Number of codes, including the two reserved ones."""
        return FIRST_LEVEL + len(self.levels)

    def codes(self, values: pl.Series) -> Int32:
        """(rows,) int32 codes."""
        if len(values) <= _FEW:
            known = _codes_of(self.levels)
            return np.array(
                [MISSING if value is None else known.get(value, UNSEEN) for value in values.to_list()], dtype=np.int32
            )
        codes = np.full(len(values), UNSEEN, dtype=np.int32)
        if self.levels:
            numbers = np.arange(FIRST_LEVEL, self.cardinality, dtype=np.int32)
            found = values.replace_strict(
                pl.Series(self.levels, dtype=pl.String), numbers, default=UNSEEN, return_dtype=pl.Int32
            )
            codes = found.fill_null(UNSEEN).to_numpy().astype(np.int32)
        codes[values.is_null().to_numpy()] = MISSING
        return codes

    def names(self) -> list[str]:
        return [f"{self.column} count"] * self.frequency + [f"{self.column} rank"] * bool(self.order)

    def numbers(self, values: pl.Series) -> Float64:
        """(rows, 0 to 2) float64, NaN where missing or, for a rank, outside the order."""
        made: list[Float64] = []
        if self.frequency:
            made.append(np.array([1.0, np.nan, *self.counts])[self.codes(values)])
        if self.order:
            ranks = {level: float(rank) for rank, level in enumerate(self.order)}
            made.append(values.replace_strict(ranks, default=None, return_dtype=pl.Float64).to_numpy())
        return np.column_stack(made) if made else np.empty((len(values), 0))


@lru_cache(maxsize=1024)
def _codes_of(levels: tuple[str, ...]) -> dict[str, int]:
    return {level: code for code, level in enumerate(levels, start=FIRST_LEVEL)}


Step = NumericStep | BooleanStep | DatetimeStep | TextStep | CategoricalStep


def source_of(step: Step) -> str:
    """The column of the file that a step's features are computed from."""
    return step.marks_of or step.column if isinstance(step, CategoricalStep) else step.column
