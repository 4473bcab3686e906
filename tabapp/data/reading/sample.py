"""A sample of a large file, taken from evenly spaced places, for a first look before the whole is read."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

from tabapp.data.limits import memory_limit
from tabapp.data.reading.columnar import count_rows, read_columnar
from tabapp.data.reading.decode import file_type
from tabapp.data.reading.read import Reading, ReadOptions, read_text
from tabapp.errors import TabappError
from tabapp.files import open_to_read

_BLOCKS, _BLOCK = 8, 128 << 10
_LARGE = 8 << 20
_ROWS = 10_000


@dataclass(frozen=True)
class Sample:
    """Some rows of a file.

    Attributes:
        reading: the rows as `read_table` would have read them, with its warnings about them.
        about: estimated number of rows of the file, from its size; None if that is unknown.
    """

    reading: Reading
    about: int | None


def read_sample(path: Path, options: ReadOptions = ReadOptions()) -> Sample | None:  # noqa: B008
    """Read whole rows from evenly spaced places of a large file; from its start only where it is packed or has quoted fields.

    Returns:
        None for a small file, and wherever the sample alone cannot be read: the full pass says what is wrong.
    """
    try:
        size = path.stat().st_size
        kind = file_type(path)
        if size < _LARGE:
            return None
        memory = memory_limit(path, options.max_memory)
        if kind in ("parquet", "arrow"):
            if count_rows(path, kind) <= _ROWS:
                # The sample would be the whole table.
                return None
            found = read_columnar(path, kind, memory, n_rows=_ROWS)
            reading = Reading(found.frame, kind, None, None, size, found.warnings, found.stored, found.left_out)
            return Sample(reading, None)
        if kind not in ("text", "gzip"):
            return None
        data = _start(path, packed=True) if kind == "gzip" else _from_everywhere(path, size)
        if not data:
            return None
        reading = read_text(data, path, options, memory)
    except (TabappError, OSError, EOFError, ValueError, zlib.error):
        return None
    about = round(reading.frame.height * size / len(data)) if kind == "text" else None
    return Sample(reading, about)


def _from_everywhere(path: Path, size: int) -> bytes:
    with open_to_read(path) as file:
        blocks: list[bytes] = []
        for i in range(_BLOCKS):
            file.seek(i * (size - _BLOCK) // (_BLOCKS - 1))
            blocks.append(file.read(_BLOCK))
    if any(b'"' in block or b"\0" in block for block in blocks):
        # A line may end inside a quoted field, and characters may have more bytes than one.
        return _start(path, packed=False)
    whole = [block[: block.rfind(b"\n") + 1] for block in blocks]
    return whole[0] + b"".join(block[block.find(b"\n") + 1 :] for block in whole[1:])


def _start(path: Path, *, packed: bool) -> bytes:
    """The first rows, up to a line end that is outside of quotes."""
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        data = file.read(_BLOCKS * _BLOCK)
    ends = start = n_quotes = 0
    while (end := data.find(b"\n", start)) >= 0:
        n_quotes += data.count(b'"', start, end)
        start = end + 1
        if n_quotes % 2 == 0:
            ends = start
    return data[:ends]
