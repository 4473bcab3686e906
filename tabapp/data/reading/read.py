"""Parse the bytes of a file into a frame of text. `infer` decides the kind of each column later, from all of its values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import polars as pl

from tabapp.data.columns import renamed_as_in_training
from tabapp.data.limits import MemoryLimit, memory_limit
from tabapp.data.plain import warnings_of_new_rows
from tabapp.data.reading.columnar import read_columnar
from tabapp.data.reading.decode import decode, file_type, unpack
from tabapp.data.reading.dialect import MAX_COLUMNS, MAX_LINE, Dialect, sniff
from tabapp.data.reading.footers import drop_footers
from tabapp.data.reading.foreign import START, reject_binary, reject_other_texts
from tabapp.data.reading.json_lines import is_json_array, is_json_lines, read_objects
from tabapp.data.reading.known import Known
from tabapp.data.reading.records import parse_rows
from tabapp.data.reading.repairs import (
    clean_bytes,
    drop_non_data_rows,
    plain_text,
    use_decimal_points,
    warn_about_header,
)
from tabapp.data.reading.workbook import is_workbook, sheet_as_csv
from tabapp.data.schema import Column, DataWarning
from tabapp.data.stored import StoredType
from tabapp.errors import DataError, UsageError, option

_BLOCK = 8 << 20
_START = 100
_NO_TABLE = "is JSON, not a table. Save it as CSV, Parquet, or JSON lines (one object in each line)."
_JSON = re.compile(rb"""[\[{]\s*[\[{"]""")


class ReadOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the user for reading a file; None means automatic detection.

    Attributes:
        delimiter: one character between fields, or `\\t` or "tab".
        encoding: name of an encoding that Python supports.
        decimal: "," for numbers such as 1.234,5; these cells are rewritten with a decimal point. Of new rows, `NewRows` reads them.
        null: additional spellings of a missing cell. `infer_schema` applies them, not `read_table`.
        max_memory: bytes that reading may use; by default a share of the memory that is available.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    null: tuple[str, ...] = ()
    max_memory: int | None = None

    @classmethod
    def of(cls, options: object) -> ReadOptions:
        """The fields that an object has, such as the configuration of a run or the options of a command."""
        return msgspec.convert(options, cls, from_attributes=True)


@dataclass(frozen=True)
class Reading:
    """A table as read from a file.

    Attributes:
        frame: every column as String, null only for empty fields; column names are stripped and unique.
        format: "csv", "json" (an array of objects), "jsonl", "excel", "parquet" or "arrow".
        delimiter, encoding: of a text file; None for other formats.
        n_bytes: size of the file on disk.
        warnings: one for each kind of repair.
        stored: column types of a Parquet or Arrow file that determine the kind of a column; input of `infer_schema`.
        left_out: columns that do not hold one value in each row, with a word for what they hold; input of `infer_schema`.
        labels: units, types or titles of columns, from rows below the names; input of `infer_schema`.
        decimal: the decimal mark of a text file that is read for a schema, or "auto", as `NewRows` takes it; None otherwise.
    """

    frame: pl.DataFrame
    format: str
    delimiter: str | None
    encoding: str | None
    n_bytes: int
    warnings: tuple[DataWarning, ...] = ()
    stored: Mapping[str, StoredType] = field(default_factory=dict[str, StoredType])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    decimal: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of all columns, also of those that are left out."""
        return [*self.frame.columns, *self.left_out]


def read_table(
    path: Path,
    options: ReadOptions = ReadOptions(),  # noqa: B008
    *,
    allow_no_rows: bool = False,
    columns: Sequence[Column] = (),
) -> Reading:
    """Read a table from delimited text (plain or in a gzip, zstd or zip archive), JSON, Excel, Parquet, or Arrow/Feather.

    The format is detected from the content; the file name does not matter.

    Args:
        allow_no_rows: accept a file that has only a header, as prediction does.
        columns: columns of the schema to read for. They decide what is a row and what a header, and values of a Parquet or Arrow
            file are written in their formats. Columns whose names have another Unicode form get their names. The cells of a
            text file are not changed.

    Raises:
        DataError: the file contains no usable table, or needs too much memory; the message says why and where.
        UsageError: an option has an invalid value.
    """
    kind = file_type(path)
    n_bytes = path.stat().st_size
    memory = memory_limit(path, options.max_memory)
    try:
        if kind in ("parquet", "arrow"):
            found = read_columnar(path, kind, memory, allow_no_rows=allow_no_rows, columns=columns)
            return Reading(found.frame, kind, None, None, n_bytes, found.warnings, found.stored, found.left_out)
        if kind == "zip" and is_workbook(path):
            data, sheets = sheet_as_csv(path, memory)
            plain = msgspec.structs.replace(options, delimiter=",", encoding="utf-8")
            reading = read_text(data, path, plain, memory, allow_no_rows=allow_no_rows, columns=columns)
            warnings = (*sheets, *reading.warnings)
            reading = replace(reading, format="excel", delimiter=None, encoding=None, warnings=warnings)
        else:
            data = unpack(path, kind, memory)
            reading = read_text(data, path, options, memory, allow_no_rows=allow_no_rows, columns=columns)
        frame, warnings = renamed_as_in_training(reading.frame, columns)
        return replace(reading, frame=frame, warnings=(*reading.warnings, *warnings), n_bytes=n_bytes)
    except MemoryError:
        raise DataError(
            f"{path}: does not fit in the memory of this machine. Give fewer rows or columns, or free memory."
        ) from None


def read_text(
    data: bytes,
    path: Path,
    options: ReadOptions,
    memory: MemoryLimit,
    *,
    allow_no_rows: bool = False,
    columns: Sequence[Column] = (),
) -> Reading:
    """Parse the bytes of a text file.

    Args:
        path: the file that the bytes come from, for messages.
        memory: limit for the table, in addition to `data`.
        columns: as in `read_table`.

    Raises:
        DataError, UsageError: as `read_table`.
    """
    reject_binary(path, data[:START], unpacked=True)
    known = Known.of(columns)
    data, encoding, warnings = decode(data, options.encoding, memory, known)
    if not any(data[at : at + _BLOCK].strip(b" \t\r\n\v\f\0") for at in range(0, len(data), _BLOCK)):
        raise DataError(f"{path}: contains only white space")
    data = clean_bytes(data, warnings)
    reject_other_texts(path, data)
    if is_json_array(data):
        return _read_objects("json", data, path, memory, columns, allow_no_rows=allow_no_rows)
    if len(data) > MAX_LINE and data.find(b"\n", 0, MAX_LINE) < 0:
        raise DataError(
            f"{path}: its first line is longer than {MAX_LINE >> 20} MiB. A table has a header line; JSON can be saved as CSV."
        )
    if is_json_lines(data):
        reading = _read_objects("jsonl", data, path, memory, columns, allow_no_rows=allow_no_rows)
        return replace(reading, encoding=encoding, warnings=(*warnings, *reading.warnings))
    if _JSON.match(data[:_START].lstrip()):
        raise DataError(f"{path}: {_NO_TABLE}")
    dialect = sniff(data, delimiter_option(options.delimiter), known)
    if dialect is None:
        raise DataError(f"{path}: contains no table")
    if len(dialect.names) > MAX_COLUMNS:
        raise DataError(
            f"{path}: has more than {MAX_COLUMNS:,} columns. "
            f"Check the delimiter {dialect.shown_delimiter!r}, or give fewer columns."
        )
    require_header(dialect, known, path)
    data = drop_footers(plain_text(data, dialect, memory, warnings), dialect, warnings, known)
    frame = parse_rows(data, dialect, memory, warnings)
    frame = drop_non_data_rows(frame, dialect, warnings, known)
    if frame.height == 0 and not allow_no_rows:
        raise DataError(f"{path}: has a header ({len(dialect.names)} columns) but no rows")
    warn_about_header(dialect, warnings)
    decimal = decimal_option(options.decimal)
    if decimal == "," and not columns:
        frame = use_decimal_points(frame)
    mark = (decimal or "auto") if columns else None
    return Reading(
        frame, "csv", dialect.shown_delimiter, encoding, len(data), tuple(warnings), labels=dialect.labels, decimal=mark
    )


def _read_objects(
    kind: str, data: bytes, path: Path, memory: MemoryLimit, columns: Sequence[Column], *, allow_no_rows: bool
) -> Reading:
    found = read_objects(data, path, memory, columns)
    if found.left_out and not found.frame.width:
        raise DataError(f"{path}: {_NO_TABLE}")
    if found.frame.height == 0 and not allow_no_rows:
        raise DataError(f"{path}: has no rows")
    warnings = warnings_of_new_rows(found.left_out, columns) if columns else []
    warn_about_header(Dialect(",", tuple(found.frame.columns), 0, renamed=found.renamed), warnings)
    return Reading(found.frame, kind, None, None, len(data), tuple(warnings), left_out=found.left_out)


def require_header(dialect: Dialect, known: Known, path: Path) -> None:
    """Check that a file of new rows has a header if the file of training had one.

    Raises:
        DataError: it has none.
    """
    if known and not dialect.header and not known.without_header:
        names = ", ".join(map(repr, list(known.columns)[:3]))
        raise DataError(
            f"{path}: has no header, unlike the table of training. Add a first line with the names {names} …"
        )


def decimal_option(decimal: str | None) -> str | None:
    """The decimal mark that an option names; None for automatic detection.

    Raises:
        UsageError: it is neither a point nor a comma.
    """
    if decimal not in (None, ".", ","):
        raise UsageError(f"{option('decimal')} is '.' or ',', not {decimal!r}")
    return decimal


def delimiter_option(delimiter: str | None) -> str | None:
    """The delimiter that an option names; None for automatic detection.

    Raises:
        UsageError: it is not one ASCII character.
    """
    if delimiter is None:
        return None
    character = {"\\t": "\t", "tab": "\t", "TAB": "\t"}.get(delimiter, delimiter)
    if len(character) != 1 or not character.isascii() or character in '"\n\r':
        raise UsageError(f"{option('delimiter')} is one ASCII character (or 'tab'), not {delimiter!r}")
    return character
