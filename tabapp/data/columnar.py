"""Read Parquet and Arrow files as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from tabapp.data import table_files
from tabapp.data.arrow_sizes import claimed_bytes
from tabapp.data.dialect import MAX_COLUMNS, Dialect, unique_names
from tabapp.data.limits import CELL, MemoryLimit, panics_as_errors
from tabapp.data.repairs import warn_about_header
from tabapp.data.schema import Column, DataWarning
from tabapp.data.stored import StoredType, as_text, stored_types
from tabapp.errors import DataError


def read_columnar(
    path: Path,
    kind: str,
    memory: MemoryLimit,
    *,
    n_rows: int | None = None,
    allow_no_rows: bool = False,
    columns: Sequence[Column] = (),
) -> tuple[pl.DataFrame, list[DataWarning], dict[str, StoredType]]:
    """Read a Parquet or Arrow file, or its first rows, as text, with the types that determine the kind of a column.

    Args:
        columns: as in `as_text`.

    Raises:
        DataError: the file is damaged, empty or too large for the memory limit, or a column is nested.
    """
    damaged = f"{path}: the {kind} file is damaged or cut off"
    try:
        with panics_as_errors(damaged):
            memory.require(_text_size(path, kind, n_rows, memory))
            frame = table_files.read(path, kind, n_rows)
    except (PolarsError, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{damaged} ({str(error).partition(chr(10))[0]})") from None
    if frame.width == 0 or (frame.height == 0 and not allow_no_rows):
        raise DataError(f"{path}: has {frame.width} columns but no rows")
    names, renamed = unique_names(frame.columns)
    warnings: list[DataWarning] = []
    warn_about_header(Dialect(",", names, 0, renamed=renamed), warnings)
    frame.columns = list(names)
    return as_text(frame, str(path), columns), warnings, stored_types(frame)


def count_rows(path: Path, kind: str) -> int:
    """The rows of a Parquet or Arrow file, by its metadata.

    Raises:
        DataError: the file is damaged.
    """
    damaged = f"{path}: the {kind} file is damaged or cut off"
    try:
        with panics_as_errors(damaged):
            return table_files.scan(path, kind).select(pl.len()).collect().item()
    except (PolarsError, OSError) as error:
        raise DataError(f"{damaged} ({str(error).partition(chr(10))[0]})") from None


def _text_size(path: Path, kind: str, n_rows: int | None, memory: MemoryLimit) -> int:
    """Bytes that the text of a Parquet or Arrow file needs, estimated from its metadata: packed rows may take a few bytes."""
    if kind == "arrow":
        memory.require(claimed_bytes(path))
    lazy = table_files.scan(path, kind)
    n_stored: int = lazy.select(pl.len()).collect().item()
    n_columns = len(lazy.collect_schema())
    if n_columns > MAX_COLUMNS:
        raise DataError(f"{path}: has more than {MAX_COLUMNS:,} columns. Give fewer columns.")
    n_cells = n_columns * (n_stored if n_rows is None else min(n_rows, n_stored))
    return path.stat().st_size + 2 * CELL * n_cells
