"""Read the first rows of a text file without a table library, so that a screen can show them before polars is loaded."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tabapp.data.reading.dialect import sniff
from tabapp.data.reading.footers import drop_footers
from tabapp.errors import DataError
from tabapp.files import open_to_read

_BYTES = 262_144
_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_OTHER = (b"{", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PAR1", b"ARROW1")


@dataclass(frozen=True)
class Head:
    """The first rows as they are in the file, before any repair.

    Attributes:
        rows: cells as text, None where a field is empty; each as long as `names`.
        about: estimated number of rows, from the size of the file; None if all rows were read or the size is unknown.
    """

    names: tuple[str, ...]
    rows: list[list[str | None]]
    about: int | None


def first_rows(path: Path, count: int, *, delimiter: str | None = None, encoding: str | None = None) -> Head | None:
    """Read the first rows of a CSV-like file, plain or gzip.

    Returns:
        None if the file needs the full reader: another format, no table, or text in an encoding that must be detected.
    """
    try:
        if not path.is_file():
            # Opening a FIFO would wait for a writer.
            return None
        content, whole, n_bytes = _start_of(path)
        text = _text(content, encoding)
        if text is None:
            return None
        data = text.replace("\r\n", "\n").replace("\r", "\n").encode()
        if data.lstrip().startswith(b"["):
            # It may be an array of JSON objects.
            return None
        dialect = sniff(data, {"\\t": "\t", "tab": "\t", "TAB": "\t"}.get(delimiter or "", delimiter))
        if dialect is None:
            return None
        if dialect.layout is not None:
            data = dialect.layout.rewrite(data).data
        if whole:
            data = drop_footers(data, dialect, [])
        lines = io.StringIO(data.decode(), newline="")
        for _ in range(dialect.skipped_lines):
            lines.readline()
        begin = lines.tell()
        width = len(dialect.names)
        rows: list[list[str | None]] = []
        for record in csv.reader(lines, delimiter=dialect.delimiter):
            if len(rows) == count:
                break
            if any(cell.strip() for cell in record):
                cells = [cell or None for cell in record[:width]]
                rows.append([*cells, *[None] * (width - len(cells))])
    except (DataError, OSError, EOFError, zlib.error, csv.Error, ValueError, LookupError):
        return None
    if whole:
        return Head(dialect.names, rows, None)
    n_lines = data.count(b"\n", begin)
    about = round((n_bytes - begin) * n_lines / (len(data) - begin)) if n_bytes and n_lines else None
    return Head(dialect.names, rows, about)


def _start_of(path: Path) -> tuple[bytes, bool, int | None]:
    """The first bytes up to the end of a line, whether they are the whole text, and the size of the text if known."""
    with open_to_read(path) as file:
        content = file.read(_BYTES + 1)
    n_bytes: int | None = path.stat().st_size
    if content.startswith(_GZIP):
        n_bytes = None
        with gzip.open(path, "rb") as packed:
            content = packed.read(_BYTES + 1)
    whole = len(content) <= _BYTES
    if not whole:
        content = content[: max(content.rfind(b"\n"), content.rfind(b"\r")) + 1]
    return content, whole, n_bytes


def _text(content: bytes, encoding: str | None) -> str | None:
    if not content.strip() or content.lstrip().startswith(_OTHER) or (b"\0" in content and encoding is None):
        return None
    with suppress(UnicodeDecodeError):
        return content.removeprefix(_UTF8_MARK).decode(encoding or "utf-8")
    return None
