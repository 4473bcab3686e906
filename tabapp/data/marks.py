"""Marks beside the values of cells, such as the "<" of "<0.5", and the companion columns that hold them.

A cell is a value with an optional mark: "<0.5" is 0.5 with the mark "<", and a moment such as 9999-12-31 is missing with the text
as its mark. The marks of a column are a column of their own, its companion, from which models learn as from any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from tabapp.data.counts import Values
from tabapp.data.forms.missing import missing_cells, strip
from tabapp.data.forms.moments import parse_ends
from tabapp.data.forms.numbers import parse_marks
from tabapp.data.schema import FEWEST_MARKED, Column, Kind
from tabapp.data.target import format_of

_MOST_NAMED = 3
_HISTOGRAM = 10

MarkReader = Callable[[pl.Series, Column], pl.Series]
_READERS: dict[Kind, MarkReader] = {
    "numeric": lambda texts, column: parse_marks(texts, format_of(column)),
    "datetime": lambda texts, column: parse_ends(texts, column.datetime_format or "iso", column.open_ends),
}
"""By the kind of a column: the mark of each stripped text that is not missing, null for none."""


def marks_in(texts: pl.Series, column: Column, companion: Column | None = None) -> pl.Series:
    """The marks of the cells of a column of text; null where a cell has none or is missing.

    Args:
        column: the column of the file.
        companion: its companion; marks that training did not have are then null, too.
    """
    name, texts = texts.name, texts.alias("")
    reader = _READERS.get(column.kind)
    if reader is None:
        return pl.Series(name, [None] * len(texts), dtype=pl.String)
    stripped = strip(texts)
    gone = missing_cells(stripped, column)
    marks = reader(stripped.set(gone, None) if gone.any() else stripped, column)
    if companion is not None and (new := marks.is_not_null() & ~marks.is_in(list(companion.levels))).any():
        marks = marks.set(new, None)
    return marks.alias(name)


def with_companions(columns: Sequence[Column], values: Mapping[str, Values]) -> list[Column]:
    """The columns of a table, each feature with marks followed by its companion."""
    taken = {column.name for column in columns}
    found: list[Column] = []
    for column in columns:
        found.append(column)
        if column.role == "feature" and (companion := _companion(column, values[column.name], taken)) is not None:
            found.append(companion)
            taken.add(companion.name)
    return found


def count_marks(column: Column, values: Values) -> Counter[str]:
    """The number of cells with each mark."""
    counted: Counter[str] = Counter()
    if column.kind not in _READERS or (column.notation in ("exact", "open") and column.kind == "numeric"):
        return counted
    marks = marks_in(values.uniques, column)
    if marks.null_count() < len(marks):
        for mark, count in zip(marks.to_list(), values.counts.to_list(), strict=True):
            if mark is not None:
                counted[mark] += count
    return counted


def _companion(column: Column, values: Values, taken: set[str]) -> Column | None:
    counted = count_marks(column, values)
    # A text that is no number is a mark only if it is no accident.
    counted = Counter({mark: count for mark, count in counted.items() if count >= FEWEST_MARKED})
    if not counted:
        return None
    n_marked = counted.total()
    levels = tuple(mark for mark, _ in counted.most_common())
    counts = tuple(counted[mark] for mark in levels)
    shown = ", ".join(map(repr, levels[:_MOST_NAMED])) + (" …" if len(levels) > _MOST_NAMED else "")
    return Column(
        name=_free_name(f"{column.name} mark", taken),
        kind="categorical",
        reason=f"Marks of {column.name!r}: {shown} in {n_marked:,} of {values.n_rows:,} cells.",
        missing=values.n_rows - n_marked,
        unique=len(levels),
        levels=levels,
        level_counts=counts,
        histogram=counts[:_HISTOGRAM],
        marks_of=column.name,
    )


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name} {number}", number + 1
    return free
