"""Read Parquet and Arrow files as text."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from polars import selectors
from polars.exceptions import PolarsError

from tabapp.data.columnar import table_files
from tabapp.data.columnar.arrow_sizes import claimed_bytes, unreadable_columns
from tabapp.data.columnar.parquet_sizes import Chunk, RowGroup, row_groups
from tabapp.data.columns import renamed_as_in_training
from tabapp.data.limits import CELL, MemoryLimit, panics_as_errors
from tabapp.data.plain import left_out, plain_frame, warnings_of_new_rows
from tabapp.data.reading.dialect import MAX_COLUMNS, Dialect, unique_names
from tabapp.data.reading.repairs import warn_about_header
from tabapp.data.schema import Column, DataWarning
from tabapp.data.stored import StoredType, as_text, stored_types
from tabapp.errors import DataError, TooLargeError

_MOST_STEPS = 1_000
"""Most steps in which a file is decoded whose texts have lengths that no metadata state."""


_EMPTY_VIEW = "range end index 8 out of range"
"""What polars says of an empty buffer of compressed views of texts."""
_NOT_SUPPORTED = re.compile(
    f"not yet implemented|not supported|does not support|could not import|precision must be|Arrow datatype|{_EMPTY_VIEW}"
)
"""What polars says of types that it does not read."""


@contextmanager
def damage_as_errors(path: Path, kind: str) -> Generator[None]:
    """Turn what polars and the readers of metadata raise about a file into a `DataError`."""
    try:
        with panics_as_errors(""):
            yield
    except TooLargeError:
        raise
    except DataError as error:
        # A panic, whose report is in brackets; others are sentences of their own.
        if not str(error).startswith(" ("):
            raise
        raise _error_of(path, kind, str(error)[2:-1]) from None
    except (PolarsError, OSError, ValueError, OverflowError) as error:
        raise _error_of(path, kind, str(error).partition("\n")[0]) from None


def _error_of(path: Path, kind: str, report: str) -> DataError:
    if _NOT_SUPPORTED.search(report):
        held = {}
        with suppress(OSError, ValueError):
            held = unreadable_columns(path) if kind == "arrow" else {}
        shown = ", ".join(f"{name!r} ({what})" for name, what in held.items())
        shown = shown or ("compressed views of texts" if _EMPTY_VIEW in report else "a type that polars does not know")
        return DataError(
            f"{path}: cannot be read because of {shown}. Save the {kind} file without such columns, or with plain numbers, texts "
            "or dates in them."
        )
    return DataError(f"{path}: the {kind} file is damaged or cut off ({report})")


@dataclass(frozen=True)
class StoredTable:
    """A Parquet or Arrow file as text.

    Attributes:
        stored: column types that determine the kind of a column.
        left_out: the columns that cannot be used, which were not decoded, with a word for what they hold.
    """

    frame: pl.DataFrame
    warnings: tuple[DataWarning, ...]
    stored: dict[str, StoredType]
    left_out: dict[str, str]


def read_columnar(
    path: Path,
    kind: str,
    memory: MemoryLimit,
    *,
    n_rows: int | None = None,
    allow_no_rows: bool = False,
    columns: Sequence[Column] = (),
) -> StoredTable:
    """Read a Parquet or Arrow file, or its first rows.

    Args:
        columns: as in `as_text`; for rows of a known schema, the columns that are left out have a warning.

    Raises:
        DataError: the file is damaged, empty or too large for the memory limit, or no column can be used.
    """
    with damage_as_errors(path, kind):
        frame, layout = _decoded(path, kind, memory, n_rows)
    if frame.height == 0 and not allow_no_rows:
        raise DataError(f"{path}: has {frame.width} columns but no rows")
    frame.columns = layout.used_names
    frame, renamed = renamed_as_in_training(plain_frame(frame), columns)
    warnings = (*layout.warnings(columns), *renamed)
    return StoredTable(as_text(frame, str(path), columns), warnings, stored_types(frame), layout.left_out)


def count_rows(path: Path, kind: str) -> int:
    """The rows of a Parquet or Arrow file, by its metadata.

    Raises:
        DataError: the file is damaged.
    """
    with damage_as_errors(path, kind):
        return table_files.scan(path, kind).select(pl.len()).collect().item()


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
    path: Path,
    groups: Sequence[RowGroup],
    layout: Layout,
    memory: MemoryLimit,
    n_rows: int | None,
    *,
    in_parts: bool = False,
) -> StoredSize:
    """The size of a file, which is checked before any value is read.

    Args:
        groups: of `row_groups_of`.
        n_rows: number of rows to read, from the first on; None for all.
        in_parts: one row group is in memory at a time, instead of all.

    Raises:
        TooLargeError: more than the limit.
    """
    sizes, page, n_seen = [0], 0, 0
    for group in groups:
        n_bytes, delta_page = group.size(without=layout.unused_in_file)
        if n_rows is None or n_seen < n_rows:
            sizes.append(n_bytes)
        page = max(page, delta_page)
        n_seen += group.n_rows
    claimed = max(sizes) if in_parts else sum(sizes)
    base = 0 if in_parts else path.stat().st_size
    memory.require(base + memory.copies * claimed)
    return StoredSize(base, claimed, max(1, memory.n_bytes // (4 * memory.copies * page)) if page else None)


def row_groups_of(path: Path, kind: str) -> list[RowGroup]:
    """The sizes that a file claims. Those of an Arrow file are known for all columns together only.

    Raises:
        OSError: the file cannot be read.
        ValueError: the metadata are damaged.
    """
    return [RowGroup(0, (Chunk("", claimed_bytes(path)),))] if kind == "arrow" else row_groups(path)


@dataclass(frozen=True)
class Layout:
    """The columns of a file.

    Attributes:
        in_file: their names in the file.
        names: their unique names; `renamed` are those that differ, as `unique_names` gives them.
        unused: by place, those that are not decoded, with a word for what they hold.
    """

    in_file: tuple[str, ...]
    names: tuple[str, ...]
    renamed: tuple[tuple[int, str], ...]
    unused: dict[int, str]

    @property
    def used(self) -> list[int]:
        """The places of the columns that are decoded."""
        return [place for place in range(len(self.names)) if place not in self.unused]

    @property
    def used_names(self) -> list[str]:
        """The unique names of the columns that are decoded."""
        return [self.names[place] for place in self.used]

    @property
    def left_out(self) -> dict[str, str]:
        """The unique names of the others, with a word for what they hold."""
        return {self.names[place]: held for place, held in self.unused.items()}

    @property
    def unused_in_file(self) -> set[str]:
        """The names of the others in the file."""
        return {self.in_file[place] for place in self.unused}

    def warnings(self, columns: Sequence[Column]) -> tuple[DataWarning, ...]:
        """Warnings about the names, and about columns that rows of a schema have beside those that are used."""
        found: list[DataWarning] = []
        warn_about_header(Dialect(",", self.names, 0, renamed=self.renamed), found)
        return (*found, *(warnings_of_new_rows(self.left_out, columns) if columns else ()))


def layout_of(path: Path, schema: pl.Schema) -> Layout:
    """The columns of a file, before any value is read: lists of a few bytes may hold millions of items.

    Raises:
        DataError: there are too many columns, or none can be used.
    """
    if len(schema) > MAX_COLUMNS:
        raise TooLargeError(f"{path}: has more than {MAX_COLUMNS:,} columns. Give fewer columns.")
    held = left_out(schema)
    if schema and len(held) == len(schema):
        raise DataError(f"{path}: no column holds one value in each row. Save fields of them as columns of their own.")
    places = {place: held[name] for place, name in enumerate(schema) if name in held}
    return Layout(tuple(schema), *unique_names(tuple(schema)), places)


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


def used_columns(lazy: pl.LazyFrame, layout: Layout) -> pl.LazyFrame:
    """The columns of a file that are decoded."""
    return lazy.select(selectors.by_index(layout.used)) if layout.unused else lazy


def _decoded(path: Path, kind: str, memory: MemoryLimit, n_rows: int | None) -> tuple[pl.DataFrame, Layout]:
    """The first rows of a file, as they are stored."""
    groups = row_groups_of(path, kind)
    lazy = table_files.scan(path, kind)
    layout = layout_of(path, lazy.collect_schema())
    size = stored_size(path, groups, layout, memory, n_rows)
    n_stored: int = lazy.select(pl.len()).collect().item()
    n_rows = n_stored if n_rows is None else min(n_rows, n_stored)
    size = replace(size, base=size.base + 2 * CELL * len(layout.used) * n_rows)
    memory.require(size.base + memory.copies * size.claimed)
    if size.step is not None and size.step < n_rows:
        return _decoded_in_steps(used_columns(lazy, layout), memory, size, n_rows, size.step), layout
    frame = table_files.read(path, kind, n_rows, layout.used if layout.unused else None)
    require_text(frame, memory, size)
    return frame, layout


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
