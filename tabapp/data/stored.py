"""Typed columns of Parquet files, Arrow files and data frames: what their types say, and their values as text."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import msgspec
import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tabapp.data.forms.clock import CLOCKS
from tabapp.data.limits import panics_as_errors
from tabapp.data.plain import plain_frame
from tabapp.data.schema import Column, Kind
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
    """

    kind: Kind
    title: str
    order: tuple[str, ...] = ()


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
        return StoredType(kind="datetime", title="Date")
    if isinstance(dtype, pl.Datetime):
        return StoredType(kind="datetime", title="Datetime")
    return None


def as_text(frame: pl.DataFrame, where: str, columns: Sequence[Column] = ()) -> pl.DataFrame:
    """Convert every column that can be used to String, from which the same values can be read back; see `data.plain`.

    Args:
        where: names the table in errors.
        columns: columns of a schema, in whose formats numbers are written, so that a model trained on text reads them. Other
            numbers have a decimal point; all dates are in the ISO format.

    Raises:
        DataError: a column holds dates out of range.
    """
    known = {column.name: column for column in columns}
    plain = plain_frame(frame)
    texts = [_as_text(series, where, known.get(series.name)) for series in plain]
    return pl.DataFrame(texts) if texts else plain


def _as_text(column: pl.Series, where: str, like: Column | None) -> pl.Series:
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
                column = _dates_as_text(column)
        except PolarsError as error:
            raise DataError(f"{unreadable} ({str(error).partition(chr(10))[0]})") from None
    elif isinstance(kind, pl.Duration):
        column = _seconds(column, kind)
    texts = column.cast(pl.String)
    if like is not None and like.kind == "numeric" and column.dtype.is_numeric():
        texts = _numbers_as_text(texts, like)
    return _empty_as_null(texts).alias(name)


def _seconds(durations: pl.Series, kind: pl.Duration) -> pl.Series:
    # Polars would multiply by the inverse, which turns 0.1 into 0.09999999999999999.
    numbers = durations.cast(pl.Int64).to_list()
    per_second = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.time_unit]
    return pl.Series("", [None if number is None else number / per_second for number in numbers], dtype=pl.Float64)


def _numbers_as_text(texts: pl.Series, like: Column) -> pl.Series:
    """Numbers with a decimal point in the format of a column."""
    if like.unit not in CLOCKS and like.decimal == ".":
        return texts
    spelled = [None if text is None else spelled_number(text, like) for text in texts.to_list()]
    return pl.Series(texts.name, spelled, dtype=pl.String)


def spelled_number(text: str, like: Column) -> str:
    """A number with a decimal point, as a cell of a column whose cells may be written otherwise.

    A column of numbers such as 1.234,5 would read 1.500 as 1500, and 1234.5 not at all. A column of times reads durations.
    """
    if like.unit in CLOCKS:
        return f"PT{format(Decimal(text), 'f')}S"
    if like.decimal == ".":
        return text
    whole, point, rest = text.partition(".")
    if like.thousands is not None and whole.lstrip("-").isdecimal():
        whole = f"{int(whole):,}".replace(",", like.thousands) if int(whole) else whole
    return f"{whole}{like.decimal if point else ''}{rest}"


def _empty_as_null(texts: pl.Series) -> pl.Series:
    if len(texts) > SMALL:
        return texts.replace("", None)
    cells = texts.to_list()
    return pl.Series("", [cell or None for cell in cells], dtype=pl.String) if "" in cells else texts


def _dates_as_text(column: pl.Series) -> pl.Series:
    """Dates in the ISO format, which every column of dates reads; moments with a time zone become UTC."""
    if not isinstance(column.dtype, pl.Datetime):
        return column.dt.to_string(_DATE)
    if not column.dtype.time_zone:
        return column.dt.to_string(_DATETIME)
    # What is stored is UTC, also for zones that polars does not know.
    return column.cast(pl.Int64).cast(pl.Datetime(column.dtype.time_unit)).dt.to_string(f"{_DATETIME}Z")
