"""Read large tables in parts, so that memory does not grow with the number of rows."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

import polars as pl

from tabapp.data.columnar import table_files
from tabapp.data.columnar.parquet_sizes import RowGroup
from tabapp.data.columns import renamed_as_in_training
from tabapp.data.limits import CELL, MemoryLimit, memory_limit
from tabapp.data.reading import decode as decoding
from tabapp.data.reading.columnar import (
    Layout,
    StoredSize,
    count_rows,
    damage_as_errors,
    layout_of,
    require_steps,
    require_text,
    row_groups_of,
    stored_size,
    used_columns,
)
from tabapp.data.reading.dialect import Dialect, sniff
from tabapp.data.reading.footers import drop_footers
from tabapp.data.reading.foreign import reject_other_texts
from tabapp.data.reading.json_lines import is_json_array, is_json_lines
from tabapp.data.reading.known import Known
from tabapp.data.reading.read import ReadOptions, decimal_option, delimiter_option, require_header
from tabapp.data.reading.records import parse_rows
from tabapp.data.reading.repairs import (
    clean_bytes,
    drop_non_data_rows,
    plain_text,
    use_decimal_points,
    warn_about_header,
)
from tabapp.data.schema import Column, DataWarning
from tabapp.data.stored import as_text
from tabapp.errors import DataError

BLOCK = 8 << 20
"""Bytes of text in a part."""
LARGE_TEXT, LARGE_ARCHIVE = 64 << 20, 8 << 20
"""Size in bytes from which a text file, or an archive of one, is read in parts."""
LARGE_ROWS, PART_CELLS = 500_000, 2_000_000
"""Rows from which a Parquet or Arrow file is read in parts, and cells of a part."""

_ENCODINGS = {"utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-15", *decoding.LEGACY}
"""Encodings in which a byte 10 is always the end of a line."""


class EncodingChanged(Exception):
    """A later part shows that the file has another encoding than the parts so far. Read it again with `encoding`."""

    def __init__(self, encoding: str) -> None:
        super().__init__(encoding)
        self.encoding = encoding


@dataclass(frozen=True)
class Part:
    """Consecutive rows of a file.

    Attributes:
        frame: every column as String, as `read_table` returns it.
        share: of the file that is read so far, in [0, 1]; 0 if it is unknown.
        decimal: as in `Reading`.
    """

    frame: pl.DataFrame
    warnings: tuple[DataWarning, ...]
    share: float
    decimal: str | None = None


def is_large(path: Path, options: ReadOptions) -> bool:
    """Whether a file should be read in parts, and can be. Files that cannot be read are left to `read_table`."""
    try:
        kind = decoding.file_type(path)
        if kind in ("parquet", "arrow"):
            return count_rows(path, kind) >= LARGE_ROWS
        if path.stat().st_size < (LARGE_TEXT if kind == "text" else LARGE_ARCHIVE):
            return False
        with _opened(path, kind) as file:
            start = file.read(BLOCK)
        memory = memory_limit(path, options.max_memory)
        encoding = decoding.decode(start[: start.rfind(b"\n") + 1], options.encoding, memory)[1]
        if b"\n" not in start or encoding not in _ENCODINGS or is_json_lines(start) or is_json_array(start):
            return False
        dialect = sniff(start, delimiter_option(options.delimiter))
        # Records in single quotes may have several lines.
        return dialect is not None and (dialect.layout is None or dialect.layout.whole is None)
    except (DataError, OSError, EOFError, ValueError, zipfile.BadZipFile):
        return False


def read_parts(path: Path, options: ReadOptions, columns: Sequence[Column] = ()) -> Generator[Part]:
    """Read a file for which `is_large` holds. The parts together are the table that `read_table` returns.

    Raises:
        DataError: a part cannot be read as rows of the table.
        UsageError: an option has an invalid value.
        EncodingChanged: all parts have to be read again.
    """
    kind = decoding.file_type(path)
    memory = memory_limit(path, options.max_memory)
    if kind in ("parquet", "arrow"):
        yield from _columnar_parts(path, kind, memory, columns)
    else:
        yield from _text_parts(path, kind, options, memory, columns)


@contextmanager
def _opened(path: Path, kind: str) -> Generator[IO[bytes]]:
    """The text of a file, unpacked."""
    if kind == "zip":
        with zipfile.ZipFile(path) as archive, archive.open(decoding.only_member(archive, path)) as file:
            yield file
        return
    opener = {"gzip": gzip.open, "zstd": decoding.zstd_library().open if kind == "zstd" else open}.get(kind, open)
    with opener(path, "rb") as file:
        yield cast(IO[bytes], file)


def _text_parts(
    path: Path, kind: str, options: ReadOptions, memory: MemoryLimit, columns: Sequence[Column]
) -> Generator[Part]:
    dialect: Dialect | None = None
    known = Known.of(columns)
    encoding, decimal = options.encoding, decimal_option(options.decimal)
    mark = (decimal or "auto") if columns else None
    size = path.stat().st_size
    try:
        with _opened(path, kind) as file:
            n_read = n_lines = 0
            for data, is_last in _blocks(file, decoding.unpacked_limit(path), path):
                warnings: list[DataWarning] = []
                before = None if dialect is None else (n_lines, n_read)
                text, encoding = _decoded(data, encoding, memory, warnings, known, before)
                n_read += len(data)
                text = clean_bytes(text, warnings)
                is_first = dialect is None
                if dialect is None:
                    reject_other_texts(path, text)
                    dialect = sniff(text, delimiter_option(options.delimiter), known)
                    if dialect is None:
                        raise DataError(f"{path}: contains no table")
                    require_header(dialect, known, path)
                    warn_about_header(dialect, warnings)
                part = dialect if is_first else dialect.below_the_header
                n_text_lines = text.count(b"\n")
                text = plain_text(text, part, memory, warnings)
                if is_last:
                    text = drop_footers(text, part, warnings, known)
                frame = parse_rows(text, part, memory, warnings, lines_before=n_lines)
                n_lines += n_text_lines
                frame = drop_non_data_rows(frame, part, warnings, known)
                if decimal == "," and not columns:
                    frame = use_decimal_points(frame)
                frame, renamed = renamed_as_in_training(frame, columns)
                warnings += renamed if is_first else []
                yield Part(frame, tuple(warnings), 0.0 if kind != "text" else min(1.0, n_read / size), mark)
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: the {kind} archive is damaged or cut off ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    except Exception as error:
        # The module of ZstdError is loaded only for its archives.
        if type(error).__name__ == "ZstdError":
            raise DataError(f"{path}: the {kind} archive is damaged or cut off ({error})") from None
        raise


def _blocks(file: IO[bytes], limit: int, path: Path) -> Generator[tuple[bytes, bool]]:
    """Whole records of a text, and whether they are the last. A line end inside quotes does not end a record."""
    rest, n_read = b"", 0
    data = file.read(BLOCK)
    while data:
        n_read += len(data)
        if n_read > limit:
            raise DataError(f"{path} unpacks to more than {limit >> 20:,} MiB. Unpack it first.")
        following = file.read(BLOCK)
        block = rest + data
        if len(following) < BLOCK:
            # Rows at the end that are not data are recognized by the rows above them.
            yield block + following, True
            return
        end = _end_of_records(block)
        if end:
            yield block[:end], False
        rest, data = block[end:], following


def _end_of_records(block: bytes) -> int:
    """The place after the last line end that is outside of quotes; 0 if there is none."""
    end = block.rfind(b"\n") + 1
    n_quotes = block.count(b'"', 0, end)
    while end and n_quotes % 2:
        before = block.rfind(b"\n", 0, end - 1) + 1
        n_quotes -= block.count(b'"', before, end)
        end = before
    return end


def _decoded(
    data: bytes,
    encoding: str | None,
    memory: MemoryLimit,
    warnings: list[DataWarning],
    known: Known,
    before: tuple[int, int] | None,
) -> tuple[bytes, str]:
    """A part as UTF-8, and the encoding of the file so far.

    Args:
        before: lines and bytes before the part; None for the first.

    Raises:
        EncodingChanged: the part is not text in the encoding of the parts before.
    """
    if before is None:
        text, found, more = decoding.decode(data, encoding, memory, known)
        warnings += more
        return text, "utf-8" if found == "utf-8-sig" else found
    assert encoding is not None
    if encoding in ("utf-8", "ascii"):
        if not data.isascii():
            try:
                data.decode("utf-8")
            except UnicodeDecodeError as error:
                text, found, more = decoding.decode_invalid(
                    data, error.start, known, lines_before=before[0], bytes_before=before[1]
                )
                if found != "utf-8":
                    raise EncodingChanged(found) from None
                warnings += more
                return text, encoding
        return data, encoding
    try:
        return data.decode(encoding).encode(), encoding
    except UnicodeDecodeError:
        if encoding == "cp1252":
            raise EncodingChanged("iso8859-1") from None
        message = f"Some bytes below line {before[0]:,} are not {encoding} text."
        warnings.append(DataWarning(check="encoding", message=message, action="read as cp1252 where they are not"))
        return data.decode(encoding, decoding.BYTE_BY_BYTE).encode(), encoding


def _columnar_parts(path: Path, kind: str, memory: MemoryLimit, columns: Sequence[Column]) -> Generator[Part]:
    with damage_as_errors(path, kind):
        groups = row_groups_of(path, kind)
        lazy = table_files.scan(path, kind)
        layout = layout_of(path, lazy.collect_schema())
        size = _size_of_parts(path, kind, groups, layout, memory)
        n_rows: int = lazy.select(pl.len()).collect().item()
    lazy = used_columns(lazy, layout)
    names = layout.used_names
    step = max(1, PART_CELLS // max(1, len(names)))
    require_steps(path, n_rows, size.step)
    step = min(step, size.step or step)
    size = replace(size, base=2 * CELL * step * len(names))
    memory.require(size.base + memory.copies * size.claimed)
    warnings = layout.warnings(columns)
    for start in range(0, n_rows, step):
        with damage_as_errors(path, kind):
            frame = lazy.slice(start, step).collect()
            require_text(frame, memory, size)
        frame.columns = names
        frame, renamed = renamed_as_in_training(frame, columns)
        warnings = (*warnings, *renamed) if start == 0 else ()
        yield Part(as_text(frame, str(path), columns), warnings, min(1.0, (start + step) / n_rows))


def _size_of_parts(
    path: Path, kind: str, groups: Sequence[RowGroup], layout: Layout, memory: MemoryLimit
) -> StoredSize:
    if kind == "arrow" and groups[0].size()[0] <= 2 * path.stat().st_size:
        # It is mapped into memory.
        return StoredSize(0, 0)
    return stored_size(path, groups, layout, memory, None, in_parts=True)
