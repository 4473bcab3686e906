"""Other targets of a table, as numbers: what models may learn beside their own target."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tabapp.data.columns import column_of
from tabapp.data.schema import Column, Schema
from tabapp.data.typed import typed_column

MOST_CLASSES = 100
"""A column with more levels is not learned beside the target."""


def learnable(schema: Schema, names: Sequence[str]) -> tuple[Column, ...]:
    """Those of some columns that are numbers, or classes that are few enough to learn."""
    return tuple(
        column
        for column in schema.columns
        if column.name in names
        and (
            column.kind == "numeric"
            or (column.kind in ("categorical", "boolean") and 2 <= len(column.levels) <= MOST_CLASSES)
        )
    )


def encoded(text: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Numbers as Float64 and classes as Int32 codes into `Column.levels`; null where a cell is missing."""
    found: list[pl.Series] = []
    for column in columns:
        typed = typed_column(column_of(text, column.name), column)
        if column.kind != "numeric":
            codes = list(range(len(column.levels)))
            typed = typed.replace_strict(list(column.levels), codes, default=None, return_dtype=pl.Int32)
        found.append(typed.alias(column.name))
    return pl.DataFrame(found)
