"""Parse the rows of delimited text: with polars where every row is complete, else record by record with repairs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tabapp.data.limits import CELL, LONGEST_CELL, PYTHON_CELL, MemoryLimit
from tabapp.data.reading.dialect import Dialect
from tabapp.data.schema import DataWarning
from tabapp.errors import DataError

_MAX_LONG_ROWS = 0.01
"""Largest share of rows with too many fields. Up to it these rows are truncated; above it the file is rejected."""

_MOST_QUOTED = 100_000
"""Delimiters in quotes that the first record may have for polars to parse it."""

_CHUNK = 8 << 20


def parse_rows(
    data: bytes, dialect: Dialect, memory: MemoryLimit, warnings: list[DataWarning], *, lines_before: int = 0
) -> pl.DataFrame:
    """Parse the rows below the header: with polars if every row is complete, else row by row with repairs.

    Args:
        lines_before: lines of the file before `data`, for messages.

    Raises:
        DataError: the frame would exceed the memory limit, or as `_parse_slowly`.
    """
    n_cells = (data.count(b"\n") + 1) * len(dialect.names)
    memory.require(CELL * n_cells + len(data))
    frame = _parse_fast(data, dialect)
    if frame is not None:
        _require_cells(frame, data, memory)
        if len(dialect.names) == 1 or not _may_be_short(frame) or _rows_are_complete(data, dialect):
            return frame
    n_fields = data.count(dialect.delimiter.encode()) + data.count(b"\n") + 1
    memory.require(CELL * n_cells + PYTHON_CELL * n_fields + 6 * len(data))
    frame = _parse_slowly(data, dialect, memory.path, warnings, frame, lines_before)
    _require_cells(frame, data, memory)
    return frame


def _require_cells(frame: pl.DataFrame, data: bytes, memory: MemoryLimit) -> None:
    if len(data) > LONGEST_CELL:
        longest = frame.select(pl.all().str.len_bytes().max().fill_null(0)).row(0)
        most = max(longest, default=0)
        memory.require_cell(most, frame.columns[longest.index(most)])


def _parse_fast(data: bytes, dialect: Dialect) -> pl.DataFrame | None:
    n_quotes = data.count(b'"')
    if n_quotes % 2 or _first_record_is_long(data, dialect):
        return None
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            skip_lines=dialect.skipped_lines,
            schema=dict.fromkeys(dialect.names, pl.String),
            separator=dialect.delimiter,
            glob=False,
            infer_schema=False,
        )
    except PolarsError:
        return None
    return frame.with_columns(pl.all().replace("", None)) if n_quotes and b'""' in data else frame


def _first_record_is_long(data: bytes, dialect: Dialect) -> bool:
    """Whether the first record may have more fields than columns; polars, which would refuse them, first names every one."""
    start = 0
    for _ in range(dialect.skipped_lines):
        start = data.find(b"\n", start) + 1
    end, n_quotes, is_open = start, 0, True
    while is_open:
        line, end = end, data.find(b"\n", end) + 1 or len(data)
        n_quotes += data.count(b'"', line, end)
        is_open = end < len(data) and n_quotes % 2 == 1
    n_delimiters = data.count(dialect.delimiter.encode(), start, end)
    quoted = _MOST_QUOTED if n_quotes else 0
    return n_delimiters >= len(dialect.names) + quoted


def _may_be_short(frame: pl.DataFrame) -> bool:
    """Whether some row may be too short: polars silently fills short and blank lines with nulls, so their last cell is null."""
    return frame.to_series(frame.width - 1).null_count() > 0


def _rows_are_complete(data: bytes, dialect: Dialect) -> bool:
    """Whether every record below the header has the expected number of delimiters, not counting quoted ones."""
    start = 0
    for _ in range(dialect.skipped_lines):
        start = data.find(b"\n", start) + 1
    bytes_ = np.frombuffer(data, dtype=np.uint8)
    wanted, delimiter, has_quotes = len(dialect.names) - 1, ord(dialect.delimiter), b'"' in data
    n_open, n_before = 0, 0
    for begin in range(start, len(bytes_), _CHUNK):
        chunk = bytes_[begin : begin + _CHUNK]
        ends, cuts = chunk == 10, chunk == delimiter
        if has_quotes:
            quotes = np.cumsum(chunk == 34, dtype=np.int32) + n_open
            outside = quotes % 2 == 0
            ends, cuts, n_open = ends & outside, cuts & outside, int(quotes[-1]) % 2
        counted = np.cumsum(cuts, dtype=np.int32) + n_before
        at_ends = counted[ends]
        if not np.array_equal(at_ends, wanted * np.arange(1, len(at_ends) + 1)):
            return False
        n_before = int(counted[-1]) - wanted * len(at_ends)
    return data.endswith(b"\n") or n_before == wanted


def _parse_slowly(
    data: bytes,
    dialect: Dialect,
    path: Path,
    warnings: list[DataWarning],
    fast: pl.DataFrame | None,
    lines_before: int,
) -> pl.DataFrame:
    """Parse the text record by record: fill short rows, truncate a few long ones, skip blank ones.

    Args:
        fast: the frame from polars, if it parsed the file; returned when no row needs repair.

    Raises:
        DataError: too many rows have too many fields, or a quoted field is never closed.
    """
    width = len(dialect.names)
    rows, lines = _records(data, dialect, path, lines_before)
    short = [line for row, line in zip(rows, lines, strict=True) if len(row) < width]
    long = [line for row, line in zip(rows, lines, strict=True) if any(cell.strip() for cell in row[width:])]
    trailing = sum(len(row) > width for row in rows) - len(long)
    if fast is not None and not (short or long or trailing) and len(rows) == fast.height:
        return fast
    if len(long) > _MAX_LONG_ROWS * len(rows):
        index = lines.index(long[0])
        raise DataError(
            f"{path}: line {long[0]} has {len(rows[index])} fields but the header has {width} "
            f"({len(long):,} of {len(rows):,} rows have too many). Check the delimiter {dialect.delimiter!r} and the quotes."
        )
    for found, what, action in (
        (short, "too few", "filled with missing cells"),
        (long, "too many", "truncated to the width of the header"),
    ):
        if found:
            where = ", ".join(str(line) for line in found[:5]) + (" …" if len(found) > 5 else "")
            message = f"{len(found):,} of {len(rows):,} rows have {what} fields (line {where})."
            warnings.append(DataWarning(check="repaired_rows", message=message, action=action))
    if trailing:
        rows_end = f"{trailing:,} rows end" if trailing > 1 else "One row ends"
        message = f"{rows_end} in empty fields beyond the width of the header."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="empty fields dropped"))
    padded = ([*row[:width], *[""] * (width - len(row))] for row in rows)
    columns = zip(*padded, strict=True) if rows else ([] for _ in range(width))
    frame = pl.DataFrame(
        [pl.Series(name, column, dtype=pl.String) for name, column in zip(dialect.names, columns, strict=True)]
    )
    return frame.with_columns(pl.all().replace("", None))


def _records(data: bytes, dialect: Dialect, path: Path, lines_before: int) -> tuple[list[list[str]], list[int]]:
    """All non-blank records below the header, and the line on which each begins.

    Raises:
        DataError: a quoted field is never closed.
    """
    text = data.decode("utf-8", "replace")
    try:
        return _records_of(text, dialect, lines_before, strict=True)
    except _UnclosedQuote as error:
        raise DataError(
            f"{path}: the quoted field that begins in line {error.line} is never closed. Close or remove the quote."
        ) from None
    except csv.Error:
        return _records_of(text, dialect, lines_before, strict=False)


class _UnclosedQuote(Exception):
    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def _records_of(text: str, dialect: Dialect, lines_before: int, *, strict: bool) -> tuple[list[list[str]], list[int]]:
    csv.field_size_limit(2**31 - 1)
    source = io.StringIO(text, newline="")
    for _ in range(dialect.skipped_lines):
        source.readline()
    reader = csv.reader(source, delimiter=dialect.delimiter, strict=strict)
    rows: list[list[str]] = []
    lines: list[int] = []
    above = lines_before + dialect.skipped_lines
    line = above + 1
    try:
        for row in reader:
            if row and (len(row) > 1 or len(dialect.names) == 1 or row[0].strip()):
                rows.append(row)
                lines.append(line)
            line = above + reader.line_num + 1
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise _UnclosedQuote(line) from None
        raise
    return rows, lines
