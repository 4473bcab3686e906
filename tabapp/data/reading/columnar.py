"""Read Parquet and Arrow files as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from polars import selectors
from polars.exceptions import PolarsError

from tabapp.data.limits import CELL, MemoryLimit, panics_as_errors
from tabapp.data.reading import table_files
from tabapp.data.reading.arrow_sizes import claimed_bytes
from tabapp.data.reading.dialect import MAX_COLUMNS, Dialect, unique_names
from tabapp.data.reading.parquet_sizes import RowGroup, row_groups
from tabapp.data.reading.repairs import warn_about_header
from tabapp.data.schema import Column, DataWarning
from tabapp.data.stored import StoredType, as_text, require_plain_type, stored_types
from tabapp.errors import DataError, TooLargeError

_MOST_STEPS = 1_000
"""Most steps in which a file is decoded whose texts have lengths that no metadata state."""


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
            frame = _decoded(path, kind, memory, n_rows)
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


@dataclass(frozen=True)
class StoredSize:
    """What decoding a file, or the largest part of it, takes, from its metadata: packed rows may take a few bytes.

    Attributes:
        base: bytes for the file and its cells without their texts.
        claimed: bytes of the buffers after decompression, as the file claims them.
        step: rows that may be decoded at once; None for all. A text may be stored as its difference to the text before.
    """

    base: int
    claimed: int
    step: int | None = None


def stored_size(
    path: Path, kind: str, memory: MemoryLimit, n_rows: int | None, *, in_parts: bool = False
) -> StoredSize:
    """The size of a file, which is checked before any value is read.

    Args:
        n_rows: number of rows to read, from the first on; None for all.
        in_parts: one row group is in memory at a time, instead of all.

    Raises:
        TooLargeError: more than the limit.
        OSError: the file cannot be read.
        ValueError: the metadata are damaged.
    """
    groups = [RowGroup(0, claimed_bytes(path))] if kind == "arrow" else row_groups(path)
    sizes, n_seen = [0], 0
    for group in groups:
        if n_rows is None or n_seen < n_rows:
            sizes.append(group.n_bytes)
        n_seen += group.n_rows
    claimed = max(sizes) if in_parts else sum(sizes)
    page = max((group.delta_page for group in groups), default=0)
    base = 0 if in_parts else path.stat().st_size
    memory.require(base + memory.copies * claimed)
    return StoredSize(base, claimed, max(1, memory.n_bytes // (4 * memory.copies * page)) if page else None)


def require_plain(path: Path, schema: pl.Schema) -> None:
    """Check the number of columns and their types before any value is read: lists of a few bytes may hold millions of items.

    Raises:
        DataError: there are too many columns, or a column holds lists, structs, bytes or Python objects.
    """
    if len(schema) > MAX_COLUMNS:
        raise TooLargeError(f"{path}: has more than {MAX_COLUMNS:,} columns. Give fewer columns.")
    for name, dtype in schema.items():
        require_plain_type(str(path), name, dtype)


def require_text(frame: pl.DataFrame, memory: MemoryLimit, size: StoredSize, before: int = 0) -> int:
    """Check the lengths of all texts before they are copied: rows of a category, or equal rows, share the bytes of one text.

    Args:
        before: bytes of the texts of the rows before.

    Returns:
        The bytes of all texts so far.

    Raises:
        TooLargeError: all texts together, or one of them, are too long.
    """
    # One query for all columns: 50,000 queries of one column each would take seconds.
    lengths = frame.select(
        selectors.string().str.len_bytes().fill_null(0),
        (selectors.categorical() | selectors.enum()).cat.len_bytes().fill_null(0),
    )
    n_bytes = lengths.to_numpy()
    if not n_bytes.size:
        return before
    longest = n_bytes.max(axis=0)
    memory.require_cell(int(longest.max()), lengths.columns[int(longest.argmax())])
    total = before + int(n_bytes.sum(dtype=np.uint64))
    memory.require(size.base + memory.copies * max(size.claimed, total))
    return total


def require_steps(path: Path, n_rows: int, step: int | None) -> None:
    """Check that rows do not take too many steps of `StoredSize.step`.

    Raises:
        TooLargeError: they do.
    """
    if step is not None and n_rows > _MOST_STEPS * step:
        raise TooLargeError(f"{path}: may have very long texts. Save it without the encoding DELTA_BYTE_ARRAY.")


def _decoded(path: Path, kind: str, memory: MemoryLimit, n_rows: int | None) -> pl.DataFrame:
    """The first rows of a file, as they are stored."""
    size = stored_size(path, kind, memory, n_rows)
    lazy = table_files.scan(path, kind)
    schema = lazy.collect_schema()
    require_plain(path, schema)
    n_stored: int = lazy.select(pl.len()).collect().item()
    n_rows = n_stored if n_rows is None else min(n_rows, n_stored)
    size = replace(size, base=size.base + 2 * CELL * len(schema) * n_rows)
    memory.require(size.base + memory.copies * size.claimed)
    if size.step is not None and size.step < n_rows:
        return _decoded_in_steps(lazy, memory, size, n_rows, size.step)
    frame = table_files.read(path, kind, n_rows)
    require_text(frame, memory, size)
    return frame


def _decoded_in_steps(
    lazy: pl.LazyFrame, memory: MemoryLimit, size: StoredSize, n_rows: int, step: int
) -> pl.DataFrame:
    """The rows of a file whose texts have lengths that no metadata state."""
    require_steps(memory.path, n_rows, step)
    frames: list[pl.DataFrame] = []
    total = 0
    for start in range(0, n_rows, step):
        frames.append(lazy.slice(start, min(step, n_rows - start)).collect())
        total = require_text(frames[-1], memory, size, total)
    return pl.concat(frames)
