"""Columns with a known truth: the texts of their cells, what each cell means, and what tabapp may make of it."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import polars as pl

from tabapp.data.schema import FEWEST_MARKED

Phase = Literal["training", "prediction"]
Format = Literal["csv", "parquet"]
Value = float | int | str | None
"""A number, a moment in microseconds since 1970 (UTC), a level, or None for a missing cell."""

EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Cells:
    """Cells of a column.

    Attributes:
        texts: as a CSV file writes them; None for an empty field.
        values: what each cell means.
        marks: what is next to each value, such as "<"; None for no mark. Empty if no cell has a mark.
        stored: the column of a Parquet file; None stores the texts.
        also: other values that are as right; empty if there are none.
    """

    texts: list[str | None]
    values: Sequence[Value]
    marks: Sequence[str | None] = ()
    stored: pl.Series | None = None
    also: Sequence[Value] = ()


@dataclass(frozen=True)
class Field:
    """A column of a training file and of a file to predict.

    Attributes:
        scales: factors of the values that are as right as 1; the unit of a column may be any of its units.
    """

    name: str
    training: Cells
    new: Cells
    scales: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class Drawn:
    """Columns that a situation has drawn.

    Attributes:
        target: name of the field that is the target; None for the ordinary one.
        write: writes the lines of a CSV file from header and rows, where the layout is what the situation is about.
        new_names: names of the columns in the file to predict, by name in training.
        names: names in the file by name in the schema.
        ignore: columns that the user leaves out.
        more: columns of a Parquet file that are not in the truth.
    """

    fields: list[Field]
    target: str | None = None
    write: Callable[[Phase, list[str], list[list[str | None]]], str] | None = None
    new_names: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    ignore: tuple[str, ...] = ()
    more: dict[str, Callable[[int], pl.Series]] = field(default_factory=dict[str, Callable[[int], pl.Series]])


@dataclass(frozen=True)
class Draw:
    """What a situation draws from.

    Attributes:
        phase: "training" puts the unusual cells into both files, "prediction" into the file to predict only.
        sizes: rows of the training file and of the file to predict.
    """

    rng: np.random.Generator
    phase: Phase
    sizes: tuple[int, int] = (240, 60)

    def pick(self, *choices: str) -> str:
        """One of some texts."""
        return choices[int(self.rng.integers(len(choices)))]

    def share(self, low: float, high: float) -> float:
        """A share, drawn uniformly."""
        return float(self.rng.uniform(low, high))

    def flags(self, n: int, share: float) -> list[bool]:
        """(n,) which cells are unusual: about a share of them, and at least two."""
        flags = self.rng.random(n) < share
        flags[self.rng.choice(n, 2, replace=False)] = True
        return flags.tolist()

    def column(
        self, name: str, value: Callable[[], Value], plain: Callable[[Value], str | None], odd: Callable[[Value], Cell],
        share: float, scales: tuple[float, ...] = (1.0,),
    ) -> Field:  # fmt: skip
        """A field of drawn values, a share of which is written in the unusual form.

        Args:
            value: draws a value.
            plain: the usual text of a value.
            odd: the unusual text of a value, the value of the cell, and its mark.
            share: of unusual cells where there are any.

        Marks of too few training cells are no feature, and a model cannot use marks that it has not seen: neither is in the truth.
        """
        sides: list[Cells] = []
        frequent: set[str | None] = set()
        for size, is_odd in zip(self.sizes, (self.phase == "training", True), strict=True):
            drawn = [value() for _ in range(size)]
            flags = self.flags(size, share) if is_odd else [False] * size
            cells = [odd(v) if flag else Cell(plain(v), v) for v, flag in zip(drawn, flags, strict=True)]
            if not sides and self.phase == "training":
                counted = Counter(cell.mark for cell in cells)
                frequent = {mark for mark, count in counted.items() if count >= FEWEST_MARKED}
            marks = [cell.mark if cell.mark in frequent else None for cell in cells]
            sides.append(Cells([c.text for c in cells], [c.value for c in cells], marks if any(marks) else ()))
        return Field(name, *sides, scales)

    def number(self) -> float:
        """A positive number with two decimals."""
        return round(float(self.rng.lognormal(3, 1)), 2) + 0.5

    def moment(self, step: timedelta = timedelta(minutes=1)) -> int:
        """A moment between 2019 and 2025 in microseconds, at a multiple of a step."""
        span = int(timedelta(days=2000) / step)
        base = (datetime(2019, 1, 7) - EPOCH) // timedelta(microseconds=1)
        return base + int(self.rng.integers(span)) * (step // timedelta(microseconds=1))


@dataclass(frozen=True)
class Cell:
    """The text of a cell, its value and its mark."""

    text: str | None
    value: Value
    mark: str | None = None


def at(moment: Value) -> datetime:
    """A moment as a naive datetime in UTC."""
    assert isinstance(moment, int)
    return EPOCH + timedelta(microseconds=moment)


def microseconds(when: datetime) -> int:
    """A datetime as microseconds since 1970; in UTC if it has no offset."""
    naive = when if when.tzinfo is None else when.astimezone(UTC).replace(tzinfo=None)
    return (naive - EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Difference:
    """A column whose typed values are not the truth, with the texts of some differing cells."""

    name: str
    what: str
    texts: tuple[str, ...]

    def is_said(self, sentences: Sequence[str]) -> bool:
        """Whether a sentence names the column and one of the texts."""
        return any(
            self.name in sentence and (not self.texts or any(text in sentence for text in self.texts))
            for sentence in sentences
        )


def difference(field: Field, cells: Cells, typed: pl.DataFrame, spelled: dict[str, str]) -> Difference | None:
    """How the typed values of a field differ from its truth; None if they are right.

    Args:
        spelled: the text of each level by its composed form. A level has one text in training and in new rows; the texts of
            levels that are not in it are added.
    """
    name = field.name
    if name not in typed.columns:
        return Difference(name, "the column is left out", ())
    got = typed[name]
    truths = [(cells.values, scale) for scale in field.scales] + ([(cells.also, 1.0)] if cells.also else [])
    wrong = min((_wrong(got, values, scale, spelled) for values, scale in truths), key=len)
    if wrong:
        first = wrong[0]
        what = f"{len(wrong)} cells differ: {cells.texts[first]!r} is {got[first]!r}, not {cells.values[first]!r}"
        return Difference(name, what, _examples(cells, wrong))
    if not any(cells.marks):
        return None
    marks = typed[f"{name} mark"].to_list() if f"{name} mark" in typed.columns else [None] * typed.height
    wrong = [i for i, (one, mark) in enumerate(zip(marks, cells.marks, strict=True)) if one != mark]
    if not wrong:
        return None
    what = (
        f"{len(wrong)} marks differ: {cells.texts[wrong[0]]!r} has {marks[wrong[0]]!r}, not {cells.marks[wrong[0]]!r}"
    )
    return Difference(name, what, _examples(cells, wrong))


def _examples(cells: Cells, positions: Sequence[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.strip() for i in positions if (text := cells.texts[i])))


def _wrong(got: pl.Series, values: Sequence[Value], scale: float, spelled: dict[str, str]) -> list[int]:
    """Positions whose typed cell is not the value."""
    found = got.dt.epoch("us").to_list() if got.dtype.is_temporal() else got.to_list()
    return [i for i, (one, value) in enumerate(zip(found, values, strict=True)) if not _is(one, value, scale, spelled)]


def _is(found: object, value: Value, scale: float, spelled: dict[str, str]) -> bool:
    if found is None or value is None:
        return found is value
    if isinstance(value, str):
        if isinstance(found, str):
            composed = unicodedata.normalize("NFC", value)
            return unicodedata.normalize("NFC", found) == composed and spelled.setdefault(composed, found) == found
        return isinstance(found, int | float) and _as_number(value) == found
    # A number that is judged a category keeps its text, which parses as the number.
    number = _as_number(found) if isinstance(found, str) else found
    if isinstance(value, int) and scale == 1:
        return number == value
    return isinstance(number, int | float) and bool(np.isclose(number, value * scale, rtol=1e-12, atol=1e-12))


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
