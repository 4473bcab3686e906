"""Typed columns of Parquet files, Arrow files and data frames: what their types say, and their values as text."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tabapp.data.limits import panics_as_errors
from tabapp.data.schema import Kind
from tabapp.data.small import SMALL
from tabapp.errors import DataError

_DATE = "%Y-%m-%d"
_DATETIME = "%Y-%m-%d %H:%M:%S%.f"


class StoredType(msgspec.Struct, frozen=True, kw_only=True):
    """A column type that decides the kind of the column, whatever its values look like.

    Attributes:
        kind: the kind of the column.
        title: name of the type for the reason that a user reads.
        order: every category of an Enum, lowest first; empty for other types.
        datetime_format: the format in which `as_text` writes dates.
    """

    kind: Kind
    title: str
    order: tuple[str, ...] = ()
    datetime_format: str | None = None


def stored_types(frame: pl.DataFrame) -> dict[str, StoredType]:
    """The columns of a typed frame whose type decides their kind: Categorical, Enum, Date and Datetime.

    Booleans, numbers and text are left out: they are judged by their values, as in a CSV file.
    """
    found = {name: _stored_type(dtype) for name, dtype in frame.schema.items()}
    return {name: stored for name, stored in found.items() if stored is not None}


def _stored_type(dtype: pl.DataType) -> StoredType | None:
    if isinstance(dtype, pl.Enum):
        return StoredType(kind="categorical", title="Enum", order=tuple(dtype.categories.to_list()))
    if isinstance(dtype, pl.Categorical):
        return StoredType(kind="categorical", title="Categorical")
    if isinstance(dtype, pl.Date):
        return StoredType(kind="datetime", title="Date", datetime_format=_DATE)
    if isinstance(dtype, pl.Datetime):
        return StoredType(kind="datetime", title="Datetime", datetime_format=_DATETIME)
    return None


def as_text(frame: pl.DataFrame, where: str, datetime_formats: Mapping[str, str] = {}) -> pl.DataFrame:
    """Convert every column to String, from which the same values can be read back.

    Args:
        where: names the table in errors.
        datetime_formats: formats of dates by column name; other columns of dates are written in the ISO format.

    Raises:
        DataError: a column holds lists, structs, bytes or Python objects, or dates out of range.
    """
    return pl.DataFrame([_as_text(column, where, datetime_formats.get(column.name)) for column in frame])


def _as_text(column: pl.Series, where: str, datetime_format: str | None) -> pl.Series:
    # Without its name, which polars may take for a pattern.
    name, column = column.name, column.alias("")
    kind = column.dtype
    if kind.is_float():
        if np.isnan(column.to_numpy()).sum() > column.null_count():
            column = column.fill_nan(None)
    elif isinstance(kind, pl.Datetime | pl.Date):
        unreadable = f"{where}: column {name!r} has dates out of range"
        try:
            with panics_as_errors(unreadable):
                column = _dates_as_text(column, datetime_format)
        except PolarsError as error:
            raise DataError(f"{unreadable} ({str(error).partition(chr(10))[0]})") from None
    elif isinstance(kind, pl.Duration):
        column = column.dt.total_microseconds() / 1e6
    elif kind.is_nested() or isinstance(kind, pl.Binary | pl.Object):
        raise DataError(f"{where}: column {name!r} holds {kind} values; only plain columns can be used")
    return _empty_as_null(column.cast(pl.String)).alias(name)


def _empty_as_null(texts: pl.Series) -> pl.Series:
    if len(texts) > SMALL:
        return texts.replace("", None)
    cells = texts.to_list()
    return pl.Series("", [cell or None for cell in cells], dtype=pl.String) if "" in cells else texts


def _dates_as_text(column: pl.Series, datetime_format: str | None) -> pl.Series:
    """Dates in the given format (strftime, or one of `values.epoch_format`); moments with a time zone become UTC."""
    if isinstance(column.dtype, pl.Datetime):
        if column.dtype.time_zone:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        default = _DATETIME
    else:
        default = _DATE
    if datetime_format is None:
        return column.dt.to_string(default)
    if datetime_format.startswith("epoch"):
        unit = datetime_format.removeprefix("epoch ")
        return column.cast(pl.Datetime("us")).dt.epoch("us") // {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
    return column.cast(pl.Datetime("us")).dt.to_string(datetime_format)
