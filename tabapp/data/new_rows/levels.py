"""Find the training level that a cell of a new row means where it is spelled differently."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import polars as pl

from tabapp.data.schema import Column
from tabapp.data.small import FEW

MANY_LEVELS = 10_000
"""Largest number of levels in a schema. In a column with as many, new levels cannot be distinguished from rare ones."""

Key = TypeVar("Key", bound=Hashable)

_MOST_UNSEEN = 100_000
"""Unseen values of a column that are counted one by one."""

_WHOLE = re.compile(r"([+-]?)([0-9]{1,18})(?:\.0*)?")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,15}\.[0-9]{1,15}")
_COMMA = re.compile(r"[+-]?[0-9]{1,15},[0-9]{1,15}")


@dataclass
class Levels:
    """The cells of a column of categories so far.

    Attributes:
        respelled: cells by (cell, level) that differ from a level only in case, spaces, leading zeros or trailing zeros.
        unseen: cells by value that training did not have.
        n_unseen: all such cells, also those beyond the values that are counted one by one.
    """

    respelled: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    unseen: Counter[str] = field(default_factory=Counter[str])
    n_unseen: int = 0


def has_levels(column: Column) -> bool:
    """Whether the schema knows all levels of a column."""
    return column.kind in ("categorical", "boolean") and 0 < len(column.levels) < MANY_LEVELS


def matched_levels(values: pl.Series, column: Column, counted: Levels | None = None, decimal: str = ".") -> pl.Series:
    """Replace cells that mean a training level by that level; others are unchanged.

    A level is meant by its canonically equivalent characters (NFC), by the same whole number (2.0 for 2), and, if that is
    unambiguous, by a text that differs only in case, spaces, or leading or trailing zeros.

    Args:
        values: typed cells, unnamed; null where missing.
        counted: receives the cells that differ.
        decimal: the decimal mark of the file.
    """
    index = _index_of(column.levels)
    if len(values) <= FEW:
        cells: list[str | None] = values.to_list()
        strange = Counter(cell for cell in cells if cell is not None and cell not in index.known)
    else:
        others = values.filter(~values.is_in(list(column.levels)))
        table = others.drop_nulls().alias("value").value_counts(name="n")
        strange = Counter(dict(table.iter_rows()))
    if not strange:
        return values
    meant: dict[str, str] = {}
    for cell, count in strange.items():
        found = index.find(cell, decimal)
        if found is not None:
            meant[cell] = found.level
        if counted is not None and found is None:
            counted.n_unseen += count
            if len(counted.unseen) < _MOST_UNSEEN:
                counted.unseen[cell] += count
        elif counted is not None and found is not None and found.is_said:
            counted.respelled[cell, found.level] += count
    return values.replace(list(meant), list(meant.values())) if meant else values


@dataclass(frozen=True)
class Meant:
    """A training level, and whether a note reports that a cell means it."""

    level: str
    is_said: bool


class LevelIndex:
    """The levels of a column by what they mean."""

    def __init__(self, levels: Sequence[str]) -> None:
        self.known = frozenset(levels)
        self._composed = _unique(levels, _composed)
        self._numbers = _unique(levels, _number)
        self._folded = _unique(levels, _folded)

    def find(self, cell: str, decimal: str) -> Meant | None:
        """The level that a cell means, which is not a level itself; None if there is none or more than one."""
        if (level := self._composed.get(_composed(cell))) is not None:
            return Meant(level, is_said=False)
        if decimal == "," and _COMMA.fullmatch(cell):
            cell = cell.replace(",", ".")
            if cell in self.known:
                return Meant(cell, is_said=False)
        number = _number(cell)
        if number is not None:
            level = self._numbers.get(number) or _as_whole(cell, self.known)
            return None if level is None else Meant(level, is_said=_digits(cell) != _digits(level))
        level = self._folded.get(_folded(cell))
        return None if level is None else Meant(level, is_said=True)


@lru_cache(maxsize=1024)
def _index_of(levels: tuple[str, ...]) -> LevelIndex:
    return LevelIndex(levels)


def _unique(levels: Iterable[str], meaning: Callable[[str], Key | None]) -> dict[Key, str]:
    """The level of each meaning that one level alone has."""
    found: dict[Key, str] = {}
    ambiguous: set[Key] = set()
    for level in levels:
        key = meaning(level)
        if key is not None and found.setdefault(key, level) != level:
            ambiguous.add(key)
    return {key: level for key, level in found.items() if key not in ambiguous}


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _number(text: str) -> float | int | None:
    """The value of a plain number; None for other texts."""
    if match := _WHOLE.fullmatch(text):
        return int(match[1] + match[2])
    return float(text) if _DECIMAL.fullmatch(text) else None


def _digits(text: str) -> str:
    """A number without the fraction .0 and without the sign +, which carry no meaning in a code."""
    match = _WHOLE.fullmatch(text)
    return text if match is None else match[1].replace("+", "") + match[2]


def _as_whole(text: str, known: frozenset[str]) -> str | None:
    """The level 2 for 2.0, where 02 is another level."""
    digits = _digits(text)
    return digits if digits in known else None


def _folded(text: str) -> str:
    """A text without differences of case, width and spaces."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
