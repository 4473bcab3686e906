"""Parse the bytes of a file into a frame of text. `infer` decides the kind of each column later, from all of its values."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from tabapp.data.decode import decode, file_type, unpack
from tabapp.data.dialect import MAX_COLUMNS, MAX_LINE, Dialect, sniff, unique_names
from tabapp.data.limits import CELL, PYTHON_CELL, MemoryLimit, memory_limit, panics_as_errors
from tabapp.data.schema import DataWarning
from tabapp.data.stored import StoredType, as_text, stored_types
from tabapp.errors import DataError, UsageError

_MAX_LONG_ROWS = 0.01
"""Largest share of rows with too many fields. Up to it these rows are truncated; above it the file is rejected."""

_CHUNK = 8 << 20
_MAX_FOOTERS = 5
_TOTAL = r"(?i)^\s*(grand |sub)?(total|sum|summe|gesamt|somme|average|mean|count)s?:?\s*$"
_REMARK = r"(?i)^\s*(\*|source|note|generated|exported|quelle|©|\(c\)|--+ ?end|\d+ rows?\b|end of)"
_COMMA_NUMBER = r"^\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)?,\d+\s*$|^\s*[+-]?\d{1,3}(\.\d{3})+\s*$"


class ReadOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the user for reading a file; None means automatic detection.

    Attributes:
        delimiter: one character between fields, or `\\t` or "tab".
        encoding: name of an encoding that Python supports.
        decimal: "," for numbers such as 1.234,5; these cells are rewritten with a decimal point.
        null: additional spellings of a missing cell. `infer_schema` applies them, not `read_table`.
        max_memory: bytes that reading may use; by default a share of the memory that is available.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    null: tuple[str, ...] = ()
    max_memory: int | None = None


@dataclass(frozen=True)
class Reading:
    """A table as read from a file.

    Attributes:
        frame: every column as String, null only for empty fields; column names are stripped and unique.
        format: "csv", "parquet" or "arrow".
        delimiter, encoding: of a text file; None for other formats.
        n_bytes: size of the file on disk.
        warnings: one for each kind of repair.
        stored: column types of a Parquet or Arrow file that determine the kind of a column; input of `infer_schema`.
    """

    frame: pl.DataFrame
    format: str
    delimiter: str | None
    encoding: str | None
    n_bytes: int
    warnings: tuple[DataWarning, ...] = ()
    stored: Mapping[str, StoredType] = field(default_factory=dict[str, StoredType])


def read_table(path: Path, options: ReadOptions = ReadOptions(), *, allow_no_rows: bool = False) -> Reading:  # noqa: B008
    """Read a table from delimited text (plain or in a gzip, zstd or zip archive), Parquet, or Arrow/Feather.

    The format is detected from the content; the file name does not matter.

    Args:
        allow_no_rows: accept a file that has only a header, as prediction does.

    Raises:
        DataError: the file contains no usable table, or needs too much memory; the message says why and where.
        UsageError: an option has an invalid value.
    """
    kind = file_type(path)
    n_bytes = path.stat().st_size
    memory = memory_limit(path, options.max_memory)
    try:
        if kind in ("parquet", "arrow"):
            frame, warnings, stored = read_columnar(path, kind, memory, allow_no_rows=allow_no_rows)
            return Reading(frame, kind, None, None, n_bytes, tuple(warnings), stored)
        data = unpack(path, kind, memory)
        return replace(read_text(data, path, options, memory, allow_no_rows=allow_no_rows), n_bytes=n_bytes)
    except MemoryError:
        raise DataError(
            f"{path}: does not fit in the memory of this machine. Give fewer rows or columns, or free memory."
        ) from None


def read_text(
    data: bytes, path: Path, options: ReadOptions, memory: MemoryLimit, *, allow_no_rows: bool = False
) -> Reading:
    """Parse the bytes of a text file.

    Args:
        path: the file that the bytes come from, for messages.
        memory: limit for the table, in addition to `data`.

    Raises:
        DataError, UsageError: as `read_table`.
    """
    data, encoding, warnings = decode(data, options.encoding, memory)
    if not any(data[at : at + _CHUNK].strip(b" \t\r\n\v\f\0") for at in range(0, len(data), _CHUNK)):
        raise DataError(f"{path}: contains only white space")
    data = _clean(data, warnings)
    start = data[:_CHUNK].lstrip()[:100].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise DataError(f"{path}: is a web page or XML, not a table. Check that the download succeeded.")
    if len(data) > MAX_LINE and data.find(b"\n", 0, MAX_LINE) < 0:
        raise DataError(
            f"{path}: its first line is longer than {MAX_LINE >> 20} MiB. A table has a header line; JSON can be saved as CSV."
        )
    dialect = sniff(data, _delimiter_option(options.delimiter))
    if dialect is None:
        raise DataError(f"{path}: contains no table")
    if len(dialect.names) > MAX_COLUMNS:
        raise DataError(
            f"{path}: has more than {MAX_COLUMNS:,} columns. Check the delimiter {dialect.delimiter!r}, or give fewer columns."
        )
    if start[:2] in (b"[{", b'{"', b"[\n") and dialect.delimiter == ",":
        raise DataError(f"{path}: is JSON, not a table. Save it as CSV or Parquet.")
    frame = _parse(data, dialect, memory, warnings)
    frame = _drop_non_data_rows(frame, dialect, warnings)
    if frame.height == 0 and not allow_no_rows:
        raise DataError(f"{path}: has a header ({len(dialect.names)} columns) but no rows")
    _warn_about_header(dialect, warnings)
    if options.decimal == ",":
        frame = _use_decimal_points(frame)
    elif options.decimal not in (None, "."):
        raise UsageError(f"--decimal is '.' or ',', not {options.decimal!r}")
    return Reading(frame, "csv", dialect.delimiter, encoding, len(data), tuple(warnings))


def _delimiter_option(delimiter: str | None) -> str | None:
    if delimiter is None:
        return None
    character = {"\\t": "\t", "tab": "\t", "TAB": "\t"}.get(delimiter, delimiter)
    if len(character) != 1 or not character.isascii() or character in '"\n\r':
        raise UsageError(f"--delimiter is one ASCII character (or 'tab'), not {delimiter!r}")
    return character


def _clean(data: bytes, warnings: list[DataWarning]) -> bytes:
    """Convert line ends for polars and remove NUL bytes."""
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    if (n_nul := data.count(b"\0")) > 0:
        data = data.replace(b"\0", b"")
        message = f"The file contains {n_nul:,} NUL characters."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="removed"))
    return data


def _warn_about_header(dialect: Dialect, warnings: list[DataWarning]) -> None:
    def warn(message: str, action: str) -> None:
        warnings.append(DataWarning(check="repaired_rows", message=message, action=action))

    if not dialect.header:
        warn(
            "The first row contains only numbers, so the file has no header.",
            "columns named column_1 …",
        )
    if dialect.header_lines > 1:
        warn(
            "The header has two rows: the second has no numbers but is above numeric columns.",
            "joined into one name per column",
        )
    if dialect.preamble:
        warn(f"{dialect.preamble} lines come before the table.", "skipped")
    if dialect.renamed:
        named = ", ".join(f"{name!r} (column {number})" for number, name in dialect.renamed[:5])
        more = f" and {len(dialect.renamed) - 5} more" if len(dialect.renamed) > 5 else ""
        warn("Header cells are empty or repeated.", f"named {named}{more}")


def _drop_non_data_rows(frame: pl.DataFrame, dialect: Dialect, warnings: list[DataWarning]) -> pl.DataFrame:
    """Drop comments and repeated headers anywhere, and totals and remarks at the end."""
    if frame.height < 2 or frame.width < 2:
        return frame
    # Columns are given by position: polars takes names such as "*" for patterns.
    first, others = pl.nth(0), pl.nth(range(1, frame.width))
    alone = pl.all_horizontal(others.is_null())
    comment = first.str.starts_with("#") & alone
    repeated = pl.lit(dialect.header) & pl.all_horizontal(
        pl.nth(index).str.strip_chars() == name for index, name in enumerate(dialect.names)
    )
    marks = frame.filter(first.str.starts_with("#") | (first.str.strip_chars() == dialect.names[0]))
    for what, mark in (("comments", comment), ("copies of the header", repeated)):
        if marks.height and (count := marks.filter(mark).height):
            frame = frame.filter(~mark.fill_null(False))
            message = f"{count:,} rows are {what}."
            warnings.append(DataWarning(check="repaired_rows", message=message, action="dropped"))
    tail = frame.tail(_MAX_FOOTERS).select(
        ((first.str.contains(_REMARK) & alone) | _is_total(frame, first)).fill_null(False).alias("footer")
    )["footer"]
    footers = next((n for n, footer in enumerate(reversed(tail.to_list())) if not footer), len(tail))
    if 0 < footers < frame.height:
        text = next(cell for cell in frame.row(frame.height - footers) if cell is not None)
        message = f"The last {footers} rows are totals or remarks ({text[:40]!r})."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="dropped"))
        frame = frame.head(frame.height - footers)
    return frame


def _is_total(frame: pl.DataFrame, first: pl.Expr) -> pl.Expr:
    """Rows that begin with a word such as "Total", which no earlier row does.

    The rest of the first column must be numbers or dates, or the row must have missing cells.
    """
    above = frame.head(max(0, frame.height - _MAX_FOOTERS)).to_series(0).alias("")
    if above.str.contains(_TOTAL).any():
        return pl.lit(False)
    numbers = above.drop_nulls().head(1000).str.contains(r"^\s*[-+]?[\d.,/:-]+\s*$")
    gaps = pl.any_horizontal(pl.nth(range(1, frame.width)).is_null())
    return first.str.contains(_TOTAL) & (pl.lit(len(numbers) > 0 and bool(numbers.all())) | gaps)


def _parse(data: bytes, dialect: Dialect, memory: MemoryLimit, warnings: list[DataWarning]) -> pl.DataFrame:
    """Parse the rows below the header: with polars if every row is complete, else row by row with repairs.

    Raises:
        DataError: the frame would exceed the memory limit, or as `_parse_slowly`.
    """
    n_cells = (data.count(b"\n") + 1) * len(dialect.names)
    memory.require(CELL * n_cells + len(data))
    frame = _parse_fast(data, dialect)
    if frame is not None and (len(dialect.names) == 1 or not _may_be_short(frame) or _rows_are_complete(data, dialect)):
        return frame
    n_fields = data.count(dialect.delimiter.encode()) + data.count(b"\n") + 1
    memory.require(CELL * n_cells + PYTHON_CELL * n_fields + 6 * len(data))
    return _parse_slowly(data, dialect, memory.path, warnings, frame)


def _parse_fast(data: bytes, dialect: Dialect) -> pl.DataFrame | None:
    n_quotes = data.count(b'"')
    if n_quotes % 2:
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
    data: bytes, dialect: Dialect, path: Path, warnings: list[DataWarning], fast: pl.DataFrame | None
) -> pl.DataFrame:
    """Parse the text record by record: fill short rows, truncate a few long ones, skip blank ones.

    Args:
        fast: the frame from polars, if it parsed the file; returned when no row needs repair.

    Raises:
        DataError: too many rows have too many fields, or a quoted field is never closed.
    """
    width = len(dialect.names)
    rows, lines = _records(data, dialect, path)
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
        message = f"{trailing:,} rows end in empty fields beyond the width of the header."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="empty fields dropped"))
    padded = ([*row[:width], *[""] * (width - len(row))] for row in rows)
    columns = zip(*padded, strict=True) if rows else ([] for _ in range(width))
    frame = pl.DataFrame(
        [pl.Series(name, column, dtype=pl.String) for name, column in zip(dialect.names, columns, strict=True)]
    )
    return frame.with_columns(pl.all().replace("", None))


def _records(data: bytes, dialect: Dialect, path: Path) -> tuple[list[list[str]], list[int]]:
    """All non-blank records below the header, and the line on which each begins.

    Raises:
        DataError: a quoted field is never closed.
    """
    text = data.decode("utf-8", "replace")
    try:
        return _records_of(text, dialect, strict=True)
    except _UnclosedQuote as error:
        raise DataError(
            f"{path}: the quoted field that begins in line {error.line} is never closed. Close or remove the quote."
        ) from None
    except csv.Error:
        return _records_of(text, dialect, strict=False)


class _UnclosedQuote(Exception):
    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def _records_of(text: str, dialect: Dialect, *, strict: bool) -> tuple[list[list[str]], list[int]]:
    csv.field_size_limit(2**31 - 1)
    source = io.StringIO(text, newline="")
    for _ in range(dialect.skipped_lines):
        source.readline()
    reader = csv.reader(source, delimiter=dialect.delimiter, strict=strict)
    rows: list[list[str]] = []
    lines: list[int] = []
    line = dialect.skipped_lines + 1
    try:
        for row in reader:
            if row and (len(row) > 1 or len(dialect.names) == 1 or row[0].strip()):
                rows.append(row)
                lines.append(line)
            line = dialect.skipped_lines + reader.line_num + 1
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise _UnclosedQuote(line) from None
        raise
    return rows, lines


def _use_decimal_points(frame: pl.DataFrame) -> pl.DataFrame:
    text = pl.all()
    rewritten = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return frame.with_columns(pl.when(text.str.contains(_COMMA_NUMBER)).then(rewritten).otherwise(text).name.keep())


def read_columnar(
    path: Path, kind: str, memory: MemoryLimit, *, n_rows: int | None = None, allow_no_rows: bool = False
) -> tuple[pl.DataFrame, list[DataWarning], dict[str, StoredType]]:
    """Read a Parquet or Arrow file, or its first rows, as text, with the types that determine the kind of a column.

    Raises:
        DataError: the file is damaged, empty or too large for the memory limit, or a column is nested.
    """
    damaged = f"{path}: the {kind} file is damaged or cut off"
    try:
        with panics_as_errors(damaged):
            memory.require(_columnar_size(path, kind, n_rows))
            if kind == "parquet":
                frame = pl.read_parquet(path, glob=False, n_rows=n_rows)
            else:
                frame = pl.read_ipc(path.read_bytes(), n_rows=n_rows)
    except (PolarsError, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{damaged} ({str(error).partition(chr(10))[0]})") from None
    if frame.width == 0 or (frame.height == 0 and not allow_no_rows):
        raise DataError(f"{path}: has {frame.width} columns but no rows")
    names, renamed = unique_names(frame.columns)
    warnings: list[DataWarning] = []
    _warn_about_header(Dialect(",", names, 0, renamed=renamed), warnings)
    frame.columns = list(names)
    return as_text(frame, str(path)), warnings, stored_types(frame)


def _columnar_size(path: Path, kind: str, n_rows: int | None) -> int:
    """Bytes that the text of a Parquet or Arrow file needs, estimated from its metadata: packed rows may take a few bytes."""
    lazy = pl.scan_parquet(path, glob=False) if kind == "parquet" else pl.scan_ipc(path)
    n_stored: int = lazy.select(pl.len()).collect().item()
    n_cells = len(lazy.collect_schema()) * (n_stored if n_rows is None else min(n_rows, n_stored))
    return path.stat().st_size + 2 * CELL * n_cells
