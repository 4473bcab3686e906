"""Access columns of any name, and find those of training in another file.

Polars takes `*` and names such as `^a$` for patterns in expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import polars as pl

from tabapp.column_names import ColumnNames
from tabapp.data.schema import Column, DataWarning


def column_of(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column without its name.

    Many methods of a Series select the column by its name, so a Series named `^a$` fails where an unnamed one does not.
    """
    return frame.get_column(name).alias("")


def exact_column(name: str) -> pl.Expr:
    """An expression for the column of exactly this name."""
    return pl.col(f"^{re.escape(name)}$")


def as_in_training(names: Sequence[str], columns: Sequence[Column]) -> dict[str, str]:
    """The columns of a file whose names differ from training only in the Unicode form of their letters, with their names there."""
    there = set(names)
    absent = [column.name for column in columns if column.name not in there]
    if not absent:
        return {}
    others = ColumnNames(there - {column.name for column in columns})
    found = {name: others.find(name) for name in absent}
    return {in_file: name for name, in_file in found.items() if in_file is not None}


def renamed_as_in_training(frame: pl.DataFrame, columns: Sequence[Column]) -> tuple[pl.DataFrame, list[DataWarning]]:
    """A table whose columns have the names of training, with a warning if any has another; see `as_in_training`."""
    renamed = as_in_training(frame.columns, columns)
    if not renamed:
        return frame, []
    shown = ", ".join(map(repr, renamed.values()))
    warning = DataWarning(
        check="name_form",
        column=next(iter(renamed.values())) if len(renamed) == 1 else None,
        message=f"The letters of names are in another Unicode form than in training: {shown}.",
        action="read as the columns of training",
    )
    return frame.rename(renamed), [warning]


def named_with_likely(absent: Iterable[str], others: Iterable[str]) -> str:
    """Absent columns, each with the other column of the file that it probably is: their names differ in case or punctuation."""
    names = ColumnNames(others)
    found = {name: names.alike(name) for name in absent}
    return ", ".join(
        repr(name) if likely is None else f"{name!r} (did you mean {likely!r}?)" for name, likely in found.items()
    )
