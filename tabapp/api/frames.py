"""Tables of Python programs: polars, pandas and Arrow data in, and results in the same library out. pyarrow is not needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabapp import files
from tabapp.column_names import column_name
from tabapp.errors import DataError, UsageError
from tabapp.zones import accept_any_zone

if TYPE_CHECKING:
    import polars as pl

_EXACT_TYPES = ("bool", "int", "float", "str", "date", "datetime", "time", "timedelta")
"""Python types that polars stores without a change of value."""


def is_path(data: object) -> bool:
    """Whether the data is the path of a file."""
    return isinstance(data, str | os.PathLike)


def is_pandas(data: object) -> bool:
    """Whether the data is a pandas DataFrame. pandas is not imported for the answer."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def to_polars(data: Any, what: str = "data") -> pl.DataFrame:
    """Convert a table to polars with its column types; the index of a pandas table is ignored.

    Args:
        data: a polars DataFrame or LazyFrame, a pandas DataFrame, or an object with the Arrow PyCapsule interface such as a
            pyarrow Table.
        what: names the table in errors.

    Raises:
        UsageError: it is not a table.
        DataError: its column names are not unique, or a column holds complex numbers or has a type that polars does not read.
    """
    import polars as pl

    accept_any_zone()
    if isinstance(data, pl.LazyFrame):
        frame = data.collect()
    elif isinstance(data, pl.DataFrame):
        frame = data
    elif is_pandas(data):
        return _from_pandas(data, what)
    elif hasattr(data, "__arrow_c_stream__") and not isinstance(data, pl.Series):
        frame = _from_arrow(data, what)
    else:
        kind = f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}".removeprefix("builtins.")
        raise UsageError(
            f"{what} is a {kind}; pass the path of a file, or a polars, pandas or pyarrow table with column names."
        )
    columns = [_without_cells(column) if _is_nested(column.dtype) else column for column in frame]
    frame = pl.DataFrame(columns) if columns else frame
    return frame.rename(dict(zip(frame.columns, _column_names(frame.columns, what), strict=True)))


def _from_arrow(data: Any, what: str) -> pl.DataFrame:
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    try:
        return pl.DataFrame(data)
    except (PolarsError, PanicException) as error:
        reason = (str(error).splitlines() or [""])[0][:160]
        raise DataError(
            f"{what} has a column of a type that cannot be read ({reason}). Convert it to plain values, or leave it out."
        ) from None


def _is_nested(dtype: Any) -> bool:
    import polars as pl

    return dtype.is_nested() or isinstance(dtype, pl.Binary | pl.Object)


def _without_cells(column: pl.Series) -> pl.Series:
    """A column that cannot be used, of its type but empty: a run names it in a warning, and needs no more of it."""
    import polars as pl

    dtype = pl.Struct({}) if isinstance(column.dtype, pl.Object) else column.dtype
    return pl.Series(column.name, [None] * len(column), dtype=dtype)


def _column_names(names: Sequence[object], what: str) -> list[str]:
    """Names as text, unique.

    Raises:
        DataError: two columns have one name, or a column has a name of several levels or none.
    """
    for name in names:
        if isinstance(name, tuple):
            raise DataError(f"{what} has column names of several levels, such as {name!r}; flatten them first.")
    texts = [column_name(name) for name in names]
    for number, text in enumerate(texts, start=1):
        if not text:
            raise DataError(f"Column {number} of {what} has no name; give every column a name.")
        if text in texts[: number - 1]:
            raise DataError(f"{what} has several columns named {text!r}; give every column a name of its own.")
    return texts


def _from_pandas(data: Any, what: str) -> pl.DataFrame:
    import polars as pl

    names = _column_names(list(data.columns), what)
    columns = [_from_pandas_column(data.iloc[:, i], name, what) for i, name in enumerate(names)]
    return pl.DataFrame(columns) if columns else pl.DataFrame(height=len(data))


def _from_pandas_column(column: Any, name: str, what: str) -> pl.Series:
    """One pandas column by its type: categories stay categories, nullable integers stay integers."""
    import numpy as np
    import pandas as pd
    import polars as pl

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _from_categorical(column, name)
    if isinstance(dtype, pd.SparseDtype):
        return _from_pandas_column(column.sparse.to_dense(), name, what)
    is_arrow = isinstance(dtype, getattr(pd, "ArrowDtype", ()))
    if is_arrow and dtype.kind in "mM":
        # As numpy has no zones, pandas gives these as objects.
        return pl.Series(name, pl.from_arrow(column.array.__arrow_array__()))
    if isinstance(dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    elif isinstance(dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    missing = column.isna().to_numpy()
    if column.dtype.kind in "mM":
        moments = column.to_numpy()
        # polars has no seconds.
        coarse = np.datetime_data(moments.dtype)[0] not in ("ms", "us", "ns")
        return pl.Series(name, moments.astype(f"{moments.dtype.kind}8[us]") if coarse else moments)
    if column.dtype.kind in "biuf" and not is_arrow:
        if isinstance(dtype, pd.api.extensions.ExtensionDtype):
            filled = column.fillna(False if dtype.kind == "b" else 0)
            values = pl.Series(name, filled.to_numpy(dtype=getattr(dtype, "numpy_dtype", None)))
        else:
            numbers = column.to_numpy()
            values = pl.Series(name, numbers.astype("float32") if numbers.dtype == "float16" else numbers)
        return values.set(pl.Series(missing), None) if missing.any() else values
    cells = [
        None if gone or cell is pd.NA else cell for cell, gone in zip(column.tolist(), missing.ravel(), strict=True)
    ]
    return from_objects(cells, name, what)


def _from_categorical(column: Any, name: str) -> pl.Series:
    """An ordered categorical becomes an Enum with its order, another a Categorical."""
    import polars as pl

    levels = [str(level) for level in column.cat.categories]
    codes = pl.Series(column.cat.codes.to_numpy()).cast(pl.Int64)
    values = pl.Series(name, levels, dtype=pl.String).gather(codes.set(codes < 0, None))
    ordered = column.cat.ordered and len(set(levels)) == len(levels)
    return values.cast(pl.Enum(levels) if ordered else pl.Categorical)


def from_objects(cells: list[Any], name: str, what: str) -> pl.Series:
    """Python objects: of one plain type as they are, plain values of several types as text. Lists, dictionaries and bytes become
    empty cells of such a type, which is left out later.

    Raises:
        DataError: they are complex numbers.
    """
    import numbers
    from decimal import Decimal

    import numpy as np
    import polars as pl

    types = {type(cell) for cell in cells if cell is not None}
    if any(issubclass(kind, complex) for kind in types):
        raise DataError(f"Column {name!r} of {what} holds complex numbers. Give their parts as two columns.")
    nested = next((kind for kind in types if issubclass(kind, dict | bytes)), None)
    if nested is not None:
        dtype = pl.Binary() if issubclass(nested, bytes) else pl.Struct({"": pl.Null})
        return pl.Series(name, [None] * len(cells), dtype=dtype)
    if any(issubclass(kind, list | tuple | set | np.ndarray) for kind in types):
        return pl.Series(name, [None] * len(cells), dtype=pl.List(pl.Null))
    if not types:
        return pl.Series(name, cells, dtype=pl.String)
    if len(types) == 1 and next(iter(types)).__name__ in _EXACT_TYPES:
        return pl.Series(name, cells)
    if bool not in types and all(issubclass(kind, numbers.Real | Decimal) for kind in types):
        return pl.Series(name, [None if cell is None else float(cell) for cell in cells])
    return pl.Series(name, [None if cell is None else str(cell) for cell in cells])


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a table with its types as an Arrow file."""
    content = BytesIO()
    frame.write_ipc(content, compression="lz4")
    files.write_bytes(path, content.getvalue())


def frame_like(data: object, columns: Mapping[str, pl.Series]) -> Any:
    """Columns as a frame of the library of `data`: pandas with its index for pandas, else polars."""
    import polars as pl

    if not is_pandas(data):
        return pl.DataFrame([column.alias(name) for name, column in columns.items()])
    import pandas as pd

    index: Any = data.index  # type: ignore[attr-defined]
    return pd.DataFrame({name: _values(column) for name, column in columns.items()}, index=index)


def series_like(data: object, values: pl.Series) -> Any:
    """One column as a series of the library of `data`."""
    if not is_pandas(data):
        return values
    import pandas as pd

    index: Any = data.index  # type: ignore[attr-defined]
    return pd.Series(_values(values), index=index, name=values.name)


def _values(column: pl.Series) -> Any:
    """A column as pandas takes it: an array of numbers, or a list of text."""
    return column.to_numpy() if column.dtype.is_numeric() else column.to_list()
