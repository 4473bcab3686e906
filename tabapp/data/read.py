"""Bytes to a frame of text. What the texts mean is decided later, over whole columns (`infer`)."""

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
from tabapp.data.dialect import Dialect, sniff, unique_names
from tabapp.data.schema import DataWarning
from tabapp.data.stored import StoredType, as_text, stored_types
from tabapp.errors import DataError, UsageError

_FEW = 0.01
"""Rows with too many fields are cut short when they are at most this share of all rows, else the file is refused."""

_CHUNK = 8 << 20
_MOST_FOOTERS = 5
_TOTAL = r"(?i)^\s*(grand |sub)?(total|sum|summe|gesamt|somme|average|mean|count)s?:?\s*$"
_REMARK = r"(?i)^\s*(\*|source|note|generated|exported|quelle|©|\(c\)|--+ ?end|\d+ rows?\b|end of)"
_COMMA_NUMBER = r"^\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)?,\d+\s*$|^\s*[+-]?\d{1,3}(\.\d{3})+\s*$"


class ReadOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the user says about a file; None is found out.

    Attributes:
        delimiter: one character between fields, or `\\t` or "tab".
        encoding: any of Python's encodings.
        decimal: "," for numbers like 1.234,5; such cells are rewritten with a point when the file is read.
        null: further spellings of a missing cell. They are judged with the columns: hand them to `infer_schema`.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    null: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """A table as it was read.

    Attributes:
        frame: every column as String, null only where a field is empty; names stripped and unique.
        format: "csv", "parquet" or "arrow".
        delimiter, encoding: of a text file.
        n_bytes: size of the file on disk.
        warnings: what was repaired on the way.
        stored: column types of a Parquet or Arrow file that decide the kind of a column; hand them to `infer_schema`.
    """

    frame: pl.DataFrame
    format: str
    delimiter: str | None
    encoding: str | None
    n_bytes: int
    warnings: tuple[DataWarning, ...] = ()
    stored: Mapping[str, StoredType] = field(default_factory=dict[str, StoredType])


def read_table(path: Path, options: ReadOptions = ReadOptions(), *, allow_no_rows: bool = False) -> Reading:  # noqa: B008
    """Read a CSV-like file (plain, .gz, .zst, .zip of one), Parquet or Arrow/Feather; the content decides, not the name.

    Args:
        allow_no_rows: take a file with a header only, as predicting may.

    Raises:
        DataError: there is no usable table in it; one sentence says why and where.
        UsageError: an option cannot be followed.
    """
    kind = file_type(path)
    n_bytes = path.stat().st_size
    if kind in ("parquet", "arrow"):
        frame, warnings, stored = read_columnar(path, kind, allow_no_rows=allow_no_rows)
        return Reading(frame, kind, None, None, n_bytes, tuple(warnings), stored)
    return replace(read_text(unpack(path, kind), path, options, allow_no_rows=allow_no_rows), n_bytes=n_bytes)


def read_text(data: bytes, path: Path, options: ReadOptions, *, allow_no_rows: bool = False) -> Reading:
    """Cut the bytes of a text file into a table.

    Args:
        path: where they come from, for messages.

    Raises:
        DataError, UsageError: as `read_table`.
    """
    data, encoding, warnings = decode(data, path, options.encoding)
    if not any(data[at : at + _CHUNK].strip(b" \t\r\n\v\f\0") for at in range(0, len(data), _CHUNK)):
        raise DataError(f"{path}: holds nothing but white space")
    data = _clean(data, warnings)
    dialect = sniff(data, _delimiter_option(options.delimiter))
    if dialect is None:
        raise DataError(f"{path}: no table could be found in it")
    start = data[:_CHUNK].lstrip()[:100].lower()
    if start[:2] in (b"[{", b'{"', b"[\n") and dialect.delimiter == ",":
        raise DataError(f"{path}: is not a table but JSON; save it as CSV or Parquet")
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise DataError(f"{path}: is not a table but a web page or XML; was the download complete?")
    frame = _parse(data, dialect, path, warnings)
    frame = _without_what_is_no_row(frame, dialect, warnings)
    if frame.height == 0 and not allow_no_rows:
        raise DataError(f"{path}: has a header ({len(dialect.names)} columns) but no rows")
    _tell_header(dialect, warnings)
    if options.decimal == ",":
        frame = _points_for_commas(frame)
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
    """Line ends to what polars knows, and NUL bytes away."""
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    if (n_nul := data.count(b"\0")) > 0:
        data = data.replace(b"\0", b"")
        message = f"{n_nul:,} NUL characters stood in the file."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="removed"))
    return data


def _tell_header(dialect: Dialect, warnings: list[DataWarning]) -> None:
    def warn(message: str, action: str) -> None:
        warnings.append(DataWarning(check="repaired_rows", message=message, action=action))

    if not dialect.header:
        warn(
            "The first row holds only numbers, so it was taken for data: the file has no header.",
            "columns were named column_1 …",
        )
    if dialect.header_lines > 1:
        warn(
            "The header has two rows, the second without a number above columns of numbers.",
            "joined into one name each",
        )
    if dialect.preamble:
        warn(f"{dialect.preamble} lines come before the table.", "left out")
    if dialect.renamed:
        named = ", ".join(f"{name!r} (column {number})" for number, name in dialect.renamed[:5])
        more = f" and {len(dialect.renamed) - 5} more" if len(dialect.renamed) > 5 else ""
        warn("Header cells are empty or repeated.", f"named {named}{more}")


def _without_what_is_no_row(frame: pl.DataFrame, dialect: Dialect, warnings: list[DataWarning]) -> pl.DataFrame:
    """Comments and repeated headers out of the middle, totals and remarks off the end."""
    if frame.height < 2 or frame.width < 2:
        return frame
    first = pl.col(frame.columns[0])
    alone = pl.all_horizontal(pl.exclude(frame.columns[0]).is_null())
    comment = first.str.starts_with("#") & alone
    repeated = pl.lit(dialect.header) & pl.all_horizontal(
        pl.col(column).str.strip_chars() == name for column, name in zip(frame.columns, dialect.names, strict=True)
    )
    marks = frame.filter(first.str.starts_with("#") | (first.str.strip_chars() == dialect.names[0]))
    for what, mark in (("comments", comment), ("copies of the header", repeated)):
        if marks.height and (count := marks.filter(mark).height):
            frame = frame.filter(~mark.fill_null(False))
            message = f"{count:,} rows are {what}."
            warnings.append(DataWarning(check="repaired_rows", message=message, action="left out"))
    tail = frame.tail(_MOST_FOOTERS).select(
        ((first.str.contains(_REMARK) & alone) | _total_of(frame, first)).fill_null(False).alias("footer")
    )["footer"]
    footers = next((n for n, footer in enumerate(reversed(tail.to_list())) if not footer), len(tail))
    if 0 < footers < frame.height:
        text = next(cell for cell in frame.row(frame.height - footers) if cell is not None)
        message = f"The last {footers} rows are totals or remarks ({text[:40]!r})."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="left out"))
        frame = frame.head(frame.height - footers)
    return frame


def _total_of(frame: pl.DataFrame, first: pl.Expr) -> pl.Expr:
    """Rows that begin with "Total" if no row above does and the first column is otherwise not text, or the row has gaps."""
    above = frame.head(max(0, frame.height - _MOST_FOOTERS)).to_series(0)
    if above.str.contains(_TOTAL).any():
        return pl.lit(False)
    numbers = above.drop_nulls().head(1000).str.contains(r"^\s*[-+]?[\d.,/:-]+\s*$")
    gaps = pl.any_horizontal(pl.exclude(frame.columns[0]).is_null())
    return first.str.contains(_TOTAL) & (pl.lit(len(numbers) > 0 and bool(numbers.all())) | gaps)


def _parse(data: bytes, dialect: Dialect, path: Path, warnings: list[DataWarning]) -> pl.DataFrame:
    """The rows below the header, by polars where every row is whole, else row by row with repairs."""
    frame = _parse_fast(data, dialect)
    if frame is not None and (len(dialect.names) == 1 or not _may_be_short(frame) or _rows_are_whole(data, dialect)):
        return frame
    return _parse_slowly(data, dialect, path, warnings, frame)


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
    """polars fills short and blank lines with nulls without a word; such rows end in a null."""
    return frame.to_series(frame.width - 1).null_count() > 0


def _rows_are_whole(data: bytes, dialect: Dialect) -> bool:
    """Whether every line below the header has as many delimiters as it should, quoted ones not counted."""
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
    """Cut the text record by record, knowing each one's line; short rows are filled, a few long ones cut, blank ones skipped.

    Where polars had read the whole and no row needs repair, its frame is returned.
    """
    width = len(dialect.names)
    rows, lines = _records(data, dialect, path)
    short = [line for row, line in zip(rows, lines, strict=True) if len(row) < width]
    long = [line for row, line in zip(rows, lines, strict=True) if any(cell.strip() for cell in row[width:])]
    trailing = sum(len(row) > width for row in rows) - len(long)
    if fast is not None and not (short or long or trailing) and len(rows) == fast.height:
        return fast
    if len(long) > _FEW * len(rows):
        index = lines.index(long[0])
        raise DataError(
            f"{path}: line {long[0]} has {len(rows[index])} fields but the header has {width} "
            f"({len(long):,} of {len(rows):,} rows have too many); check the delimiter {dialect.delimiter!r} and the quotes"
        )
    for found, what, action in (
        (short, "too few", "filled with missing cells"),
        (long, "too many", "cut to the header's width"),
    ):
        if found:
            where = ", ".join(str(line) for line in found[:5]) + (" …" if len(found) > 5 else "")
            message = f"{len(found):,} of {len(rows):,} rows have {what} fields (line {where})."
            warnings.append(DataWarning(check="repaired_rows", message=message, action=action))
    if trailing:
        message = f"{trailing:,} rows end in empty fields beyond the header's width."
        warnings.append(DataWarning(check="repaired_rows", message=message, action="the empty fields were dropped"))
    padded = ([*row[:width], *[""] * (width - len(row))] for row in rows)
    columns = zip(*padded, strict=True) if rows else ([] for _ in range(width))
    frame = pl.DataFrame(
        [pl.Series(name, column, dtype=pl.String) for name, column in zip(dialect.names, columns, strict=True)]
    )
    return frame.with_columns(pl.all().replace("", None))


def _records(data: bytes, dialect: Dialect, path: Path) -> tuple[list[list[str]], list[int]]:
    """All records below the header that are not blank, and the line each begins on.

    Raises:
        DataError: a quoted field is never closed.
    """
    text = data.decode("utf-8", "replace")
    try:
        return _records_of(text, dialect, strict=True)
    except _UnclosedQuote as error:
        raise DataError(
            f"{path}: the quoted field that begins in line {error.line} is never closed; close or remove the quote"
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


def _points_for_commas(frame: pl.DataFrame) -> pl.DataFrame:
    text = pl.all()
    rewritten = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return frame.with_columns(pl.when(text.str.contains(_COMMA_NUMBER)).then(rewritten).otherwise(text).name.keep())


def read_columnar(
    path: Path, kind: str, *, n_rows: int | None = None, allow_no_rows: bool = False
) -> tuple[pl.DataFrame, list[DataWarning], dict[str, StoredType]]:
    """Read a Parquet or Arrow file, or its first rows, as text with the types that decide the kind of a column.

    Raises:
        DataError: it is damaged, empty, or holds what is no plain column.
    """
    try:
        if kind == "parquet":
            frame = pl.read_parquet(path, glob=False, n_rows=n_rows)
        else:
            frame = pl.read_ipc(path.read_bytes(), n_rows=n_rows)
    except (PolarsError, OSError) as error:
        raise DataError(f"{path}: the {kind} file is damaged or cut off ({str(error).splitlines()[0]})") from None
    if frame.width == 0 or (frame.height == 0 and not allow_no_rows):
        raise DataError(f"{path}: has {frame.width} columns but no rows")
    names, renamed = unique_names(frame.columns)
    warnings: list[DataWarning] = []
    _tell_header(Dialect(",", names, 0, renamed=renamed), warnings)
    frame.columns = list(names)
    return as_text(frame, str(path)), warnings, stored_types(frame)
