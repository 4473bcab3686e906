"""How the cells of a column look in a sample of its rows, and whether another cell looks like one of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from tabapp.data.schema import Column

NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")
# The full list of spellings needs the table library, which the first rows of a screen do not wait for.
_MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none", "missing", "unknown", "-", "--", "---", ".", "\\n"})

_ALIKE = 0.9
"""Smallest share of cells that are numbers, or are written alike, in a column that is known for it."""
_MARGIN = 0.1
"""Share of the range of a column by which a further number may exceed it."""
_SENTENCE = 4
"""Words of a sentence; a name has fewer."""
_FEW = 10
"""Cells from which a text that does not occur among repeated values counts as another one."""

SAME, IN_RANGE, NEUTRAL, OTHER_VALUE, OTHER_FORM = 2, 1, 0, -1, -2
"""What `Look.compare` finds, from a cell that belongs to the column to one that does not."""


def is_blank(cell: str) -> bool:
    """Whether a stripped cell is empty or a common spelling of a missing value."""
    return cell.casefold() in _MISSING


class Look:
    """What the cells of a column have in common.

    Args:
        cells: stripped cells of one column.
    """

    def __init__(self, cells: Iterable[str]) -> None:
        present = [cell for cell in cells if not is_blank(cell)]
        self.n = len(present)
        self.values = Counter(present)
        numbers = [as_number(cell) for cell in present if NUMBER.fullmatch(cell)]
        self.is_number = bool(numbers) and len(numbers) >= _ALIKE * self.n
        self._low, self._high = (min(numbers), max(numbers)) if self.is_number else (0.0, 0.0)

    @cached_property
    def form(self) -> str | None:
        """How nearly all cells are written, such as 9-9-9, if that begins with a digit and they are no numbers."""
        if self.is_number or not self.values:
            return None
        form, count = Counter(map(_form, self.values.elements())).most_common(1)[0]
        return form if form.startswith("9") and count >= _ALIKE * self.n else None

    @property
    def is_typed(self) -> bool:
        """Whether the column holds numbers, dates or other texts that are written alike and begin with a digit."""
        return self.is_number or self.form is not None

    @property
    def repeats(self) -> bool:
        """Whether the column has few distinct values."""
        return 2 * len(self.values) <= self.n

    @cached_property
    def is_prose(self) -> bool:
        """Whether most cells are sentences."""
        counts = sorted(map(_words_of, self.values.elements()))
        return bool(counts) and counts[len(counts) // 2] > _SENTENCE

    def compare(self, cell: str) -> int:
        """Whether a stripped cell belongs to the column: one of the constants of this module."""
        if is_blank(cell):
            return NEUTRAL
        if self.is_number:
            if not NUMBER.fullmatch(cell):
                return NEUTRAL if cell in self.values or not any(map(str.isalpha, cell)) else OTHER_FORM
            margin = _MARGIN * (self._high - self._low)
            return IN_RANGE if self._low - margin <= as_number(cell) <= self._high + margin else NEUTRAL
        if self.form is not None:
            if _form(cell) == self.form:
                return SAME
            return NEUTRAL if any(map(str.isdigit, cell)) else OTHER_FORM
        if cell in self.values:
            return SAME
        if self.is_prose:
            return SAME if _words_of(cell) >= _SENTENCE else OTHER_VALUE
        return OTHER_VALUE if self.repeats and self.n >= _FEW else NEUTRAL


class KnownLook(Look):
    """The look of a column by its schema, for a file with too few rows to show it."""

    def __init__(self, column: Column) -> None:
        super().__init__(column.levels)
        self.is_number = column.kind == "numeric"
        if self.is_number and column.low is not None and column.high is not None:
            self._low, self._high = column.low, column.high

    @property
    def repeats(self) -> bool:
        return bool(self.values)


def looks_of(rows: Sequence[Sequence[str]], width: int) -> list[Look]:
    """The looks of the columns of rows that all have `width` cells."""
    return [Look(row[index].strip() for row in rows) for index in range(width)]


def _words_of(cell: str) -> int:
    return cell.count(" ") + 1


def as_number(cell: str) -> float:
    """The value of a cell that `NUMBER` matches."""
    return float(cell.replace(",", "."))


def _form(cell: str) -> str:
    """A cell with 9 for each run of digits and `a` for each run of letters: 9-9-9 for a date."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", cell))
