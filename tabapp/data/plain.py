"""Columns that hold one value in each row, and those that do not and are left out: lists, structures and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from tabapp.data.schema import Column, DataWarning

_LONGEST_DECIMAL = 38
"""Digits of the longest decimal number that polars computes with."""
_NAMED = 5


def left_out(schema: Mapping[str, pl.DataType]) -> dict[str, str]:
    """The columns of a table that cannot be used, with a word for what they hold."""
    found = {name: _held(dtype) for name, dtype in schema.items()}
    return {name: held for name, held in found.items() if held}


def plain_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns that can be used, those of an extension type as what they store."""
    columns = [_stored(series) for series in frame if not _held(series.dtype)]
    return pl.DataFrame(columns) if columns else pl.DataFrame(height=frame.height)


def warnings_of_new_rows(held: Mapping[str, str], columns: Sequence[Column]) -> list[DataWarning]:
    """Warnings about columns of new rows that are left out, except those that training left out, too."""
    ignored = {column.name for column in columns if column.role == "ignore"}
    return left_out_warnings({name: what for name, what in held.items() if name not in ignored})


def left_out_warnings(held: Mapping[str, str]) -> list[DataWarning]:
    """A warning that names the columns; none without one."""
    if not held:
        return []
    shown = ", ".join(f"{name!r} ({what})" for name, what in list(held.items())[:_NAMED])
    more = f" and {len(held) - _NAMED:,} more" if len(held) > _NAMED else ""
    what = "A column does" if len(held) == 1 else f"{len(held):,} columns do"
    return [
        DataWarning(
            check="nested",
            column=next(iter(held)) if len(held) == 1 else None,
            message=f"{what} not hold one value in each row: {shown}{more}.",
            action="left out; save parts of them, such as a length or a field, as columns of their own"
            + (", and bytes that are texts as strings" if "bytes" in held.values() else ""),
        )
    ]


def unused_columns(held: Mapping[str, str], ignored: Iterable[str]) -> list[Column]:
    """The columns of a schema for columns that are left out. Their cells are not counted."""
    asked = set(ignored)
    return [
        Column(
            name=name,
            kind="constant",
            role="ignore",
            reason=f"Left out: it holds {what}, not one value in each row.",
            overridden=name in asked,
        )
        for name, what in held.items()
    ]


def _held(dtype: pl.DataType) -> str:
    """What a column that cannot be used holds; empty for one that can."""
    dtype = _storage(dtype)
    if isinstance(dtype, pl.Binary):
        return "bytes"
    if isinstance(dtype, pl.Struct):
        return "structures"
    if dtype.is_nested():
        return "lists"
    if isinstance(dtype, pl.Decimal) and dtype.precision > _LONGEST_DECIMAL:
        return f"decimals of {dtype.precision} digits"
    return "objects" if isinstance(dtype, pl.Object) else ""


def _storage(dtype: pl.DataType) -> pl.DataType:
    """The type of the values of an extension type; any other type itself."""
    return pl.Series(dtype=dtype).ext.storage().dtype if isinstance(dtype, pl.Extension) else dtype


def _stored(series: pl.Series) -> pl.Series:
    return series.ext.storage() if isinstance(series.dtype, pl.Extension) else series
