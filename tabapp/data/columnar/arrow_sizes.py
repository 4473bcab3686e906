"""Sizes that an Arrow file claims for its buffers.

Polars allocates the size that precedes each compressed buffer, and a failed allocation ends the process. So the sizes are read here
first. The metadata of an Arrow file are FlatBuffers; see "Arrow Columnar Format", sections "IPC File Format" and "Compression".
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from tabapp.files import open_to_read

_MAGIC = b"ARROW1"
_CONTINUATION = 0xFFFFFFFF
_BLOCK = struct.Struct("<qi4xq")
_BUFFER = struct.Struct("<qq")
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_NOT_COMPRESSED = -1
_UNREADABLE = {
    11: "intervals", 14: "a union of types", 22: "run-end encoded values", 25: "views of lists", 26: "views of lists",
}  # fmt: skip
"""Types of the enumeration `Type` that polars does not read."""


class _Table:
    """A FlatBuffers table at a position; its fields are addressed by their numbers."""

    def __init__(self, data: mmap.mmap, position: int) -> None:
        self._data, self._position = data, position
        (distance,) = struct.unpack_from("<i", data, position)
        self._fields = position - distance
        (self._n_bytes,) = struct.unpack_from("<H", data, self._fields)

    def _place(self, field: int) -> int | None:
        if 4 + 2 * field >= self._n_bytes:
            return None
        (distance,) = struct.unpack_from("<H", self._data, self._fields + 4 + 2 * field)
        return self._position + distance if distance else None

    def byte(self, field: int) -> int:
        place = self._place(field)
        return 0 if place is None else self._data[place]

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return None if place is None else _Table(self._data, place + struct.unpack_from("<I", self._data, place)[0])

    def text(self, field: int) -> str:
        place = self._place(field)
        if place is None:
            return ""
        start = place + struct.unpack_from("<I", self._data, place)[0]
        (n_bytes,) = struct.unpack_from("<I", self._data, start)
        return self._data[start + 4 : start + 4 + n_bytes].decode(errors="replace")

    def tables(self, field: int) -> Iterator[_Table]:
        """The items of a vector of tables."""
        place = self._place(field)
        if place is None:
            return
        start = place + struct.unpack_from("<I", self._data, place)[0]
        (count,) = struct.unpack_from("<I", self._data, start)
        for item in range(start + 4, start + 4 + 4 * count, 4):
            yield _Table(self._data, item + struct.unpack_from("<I", self._data, item)[0])

    def structs(self, field: int, layout: struct.Struct) -> list[tuple[int, ...]]:
        """The items of a vector of structs."""
        place = self._place(field)
        if place is None:
            return []
        start = place + struct.unpack_from("<I", self._data, place)[0]
        (count,) = struct.unpack_from("<I", self._data, start)
        content = self._data[start + 4 : start + 4 + count * layout.size]
        if len(content) < count * layout.size:
            raise ValueError("a list of its metadata is longer than the file")
        return list(layout.iter_unpack(content))


def unreadable_columns(path: Path) -> dict[str, str]:
    """The columns of an Arrow file that polars does not read, with a word for what they hold.

    Raises:
        OSError: the file cannot be read.
        ValueError: the metadata are damaged.
    """
    with open_to_read(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, _damage_as_errors():
        schema = _footer(data).table(1)
        fields = () if schema is None else schema.tables(1)
        return {field.text(0): _UNREADABLE[field.byte(2)] for field in fields if field.byte(2) in _UNREADABLE}


def claimed_bytes(path: Path) -> int:
    """Bytes of all buffers of an Arrow file after decompression, as the file claims them.

    Raises:
        ValueError: the metadata are damaged, or a buffer is outside the file or has a negative size.
    """
    with open_to_read(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, _damage_as_errors():
        return sum(_batch_bytes(data, batch, body) for batch, body in _batches(data))


@contextmanager
def _damage_as_errors() -> Generator[None]:
    try:
        yield
    except (struct.error, IndexError) as error:
        raise ValueError(f"its metadata are damaged: {error}") from None


def _footer(data: mmap.mmap) -> _Table:
    if data[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("its end is missing")
    end = len(data) - len(_MAGIC) - 4
    start = end - struct.unpack_from("<i", data, end)[0]
    if not 0 < start < end:
        raise ValueError("the length of its metadata is wrong")
    return _Table(data, start + struct.unpack_from("<I", data, start)[0])


def _batches(data: mmap.mmap) -> Iterator[tuple[_Table, int]]:
    """The record batches, those of dictionaries included, each with the position of its buffers."""
    footer = _footer(data)
    for offset, n_metadata, _ in (*footer.structs(2, _BLOCK), *footer.structs(3, _BLOCK)):
        if offset < 0 or n_metadata < 0:
            raise ValueError("a batch has a negative position")
        (first,) = struct.unpack_from("<I", data, offset)
        begin = offset + (8 if first == _CONTINUATION else 4)
        message = _Table(data, begin + struct.unpack_from("<I", data, begin)[0])
        batch = message.table(2)
        if batch is not None and message.byte(1) == _DICTIONARY_BATCH:
            batch = batch.table(1)
        elif message.byte(1) != _RECORD_BATCH:
            batch = None
        if batch is None:
            raise ValueError("a batch has no content")
        yield batch, offset + n_metadata


def _batch_bytes(data: mmap.mmap, batch: _Table, body: int) -> int:
    compressed = batch.table(3) is not None
    total = 0
    for offset, length in batch.structs(2, _BUFFER):
        if offset < 0 or length < 0 or body + offset + length > len(data):
            raise ValueError("a buffer is outside the file")
        size = length
        if compressed and length:
            (claimed,) = struct.unpack_from("<q", data, body + offset)
            size = length if claimed == _NOT_COMPRESSED else claimed
        if size < 0:
            raise ValueError("a buffer has a negative size")
        total += size
    return total
