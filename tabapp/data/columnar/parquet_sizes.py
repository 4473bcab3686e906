"""Sizes that a Parquet file claims for its pages.

Polars allocates the size that the header of each compressed page claims, and a failed allocation ends the process. So the headers
are read here first. Metadata are structures of the Thrift compact protocol; see "Parquet File Format", sections "Metadata" and
"Encodings".
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabapp.files import open_to_read

_MAGIC = b"PAR1"
_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _TEXT, _LISTS, _MAP, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11, 12
_BYTES_OF_PAGE = 8
"""Fewest bytes of a page with its header. Pages of more than the file has are shared by columns, which no writer does."""
_TEXT_COLUMN, _DELTA_TEXT = 6, 7
"""The physical type BYTE_ARRAY, and the encoding DELTA_BYTE_ARRAY, whose texts share their start with the text before."""

_Fields = dict[int, Any]
_PAGE: _Fields = {5: {}, 7: {}, 8: {}}
_GROUPS: _Fields = {2: {4: {}}, 4: {1: {3: {}}}}
"""The structures and texts to read, by the numbers of their fields; others are skipped. Of a list, each item is read."""


@dataclass(frozen=True)
class Chunk:
    """A part of a column in some rows.

    Attributes:
        column: name of the column; parts of a nested column have the name of the whole.
        n_bytes: bytes of all pages after decompression, as the file claims them.
        delta_page: bytes of the largest page of texts that are stored as their difference to the text before; 0 without such
            texts. Each text of the page may be as long.
    """

    column: str
    n_bytes: int
    delta_page: int = 0


@dataclass(frozen=True)
class RowGroup:
    """Consecutive rows of a file, with all chunks of their columns."""

    n_rows: int
    chunks: tuple[Chunk, ...]

    def size(self, without: Collection[str] = ()) -> tuple[int, int]:
        """Bytes of the pages, and of the largest page of delta-encoded texts, of all but some columns."""
        used = [chunk for chunk in self.chunks if chunk.column not in without]
        return sum(chunk.n_bytes for chunk in used), max((chunk.delta_page for chunk in used), default=0)


class _Reader:
    """Structures of the compact protocol from a position on."""

    def __init__(self, data: mmap.mmap | bytes, position: int) -> None:
        self._data, self.position = data, position

    def _unsigned(self) -> int:
        byte = self._data[self.position]
        if byte < 128:
            self.position += 1
            return byte
        value = shift = 0
        while True:
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("an integer of its metadata is too long")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def struct(self, wanted: _Fields) -> _Fields:
        """The fields of a structure: integers, and the structures that are wanted."""
        found: _Fields = {}
        number = 0
        while head := self._data[self.position]:
            self.position += 1
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            if kind in _INTEGERS:
                found[number] = self._signed()
            elif kind not in _BOOLEANS:
                found[number] = self._value(kind, wanted.get(number))
        self.position += 1
        return found

    def _value(self, kind: int, wanted: _Fields | None) -> Any:
        if kind in _INTEGERS:
            return self._signed()
        if kind == _TEXT:
            n_bytes = self._unsigned()
            self._skip(n_bytes)
            if wanted is not None:
                return bytes(self._data[self.position - n_bytes : self.position])
        elif kind == _STRUCT:
            return self.struct(wanted or {})
        elif kind in _LISTS:
            return self._list(wanted)
        elif kind == _MAP:
            raise ValueError("its metadata have a field of an unknown kind")
        elif kind in (_BYTE, *_BOOLEANS):
            self._skip(1)
        elif kind == _DOUBLE:
            self._skip(8)
        else:
            raise ValueError("its metadata have a field of an unknown kind")
        return None

    def _list(self, wanted: _Fields | None) -> list[Any]:
        head = self._data[self.position]
        self.position += 1
        count = head >> 4 if head >> 4 < 15 else self._unsigned()
        kind = head & 15
        if wanted is not None:
            return [self._value(kind, wanted) for _ in range(count)]
        for _ in range(count):
            self._value(kind, None)
        return []

    def _skip(self, n_bytes: int) -> None:
        self.position += n_bytes


def row_groups(path: Path) -> list[RowGroup]:
    """The row groups of a Parquet file with the sizes that their pages claim.

    Raises:
        OSError: the file cannot be read.
        ValueError: the metadata are damaged, or a page is outside the file or has a negative size.
    """
    with open_to_read(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, _damage_as_errors():
        end = len(data) - len(_MAGIC) - 4
        if data[-len(_MAGIC) :] != _MAGIC or end < len(_MAGIC):
            raise ValueError("its end is missing")
        start = end - int.from_bytes(data[end : end + 4], "little")
        if start < len(_MAGIC):
            raise ValueError("the length of its metadata is wrong")
        metadata = _Reader(data[start:end], 0).struct(_GROUPS)
        names = _names_of_chunks(metadata.get(2) or [])
        groups: list[_Fields] = metadata.get(4) or []
        pages = _Pages(data)
        return [_row_group(group, names, pages) for group in groups]


def _names_of_chunks(schema: list[_Fields]) -> list[str]:
    """The column of each chunk of a row group, from the elements of the schema: each is followed by its children."""
    names: list[str] = []
    place = 1
    while place < len(schema):
        name = schema[place][4].decode(errors="replace")
        n_open = 1
        while n_open > 0:
            n_children = schema[place].get(5, 0)
            if n_children == 0:
                names.append(name)
            n_open += n_children - 1
            place += 1
    return names


@contextmanager
def _damage_as_errors() -> Generator[None]:
    try:
        yield
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its metadata are damaged: {type(error).__name__}") from None


class _Pages:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._n_left = len(data) // _BYTES_OF_PAGE

    def sizes(self, column: _Fields) -> tuple[int, int]:
        """Bytes of the pages of a column in a row group after decompression, and of its largest page of delta-encoded texts."""
        begin = min(column[9], column.get(11) or column[9])
        end, n_left = begin + column[7], column[5]
        if not 0 < begin <= end <= len(self._data):
            raise ValueError("a column is outside the file")
        total = delta = 0
        while begin < end and n_left > 0:
            self._n_left -= 1
            if self._n_left < 0:
                raise ValueError("columns share pages")
            reader = _Reader(self._data, begin)
            page = reader.struct(_PAGE)
            size, packed = page[2], page[3]
            if size < 0 or packed < 0 or reader.position + packed > len(self._data):
                raise ValueError("a page is outside the file")
            total += size
            begin = reader.position + packed
            values, encoding = page.get(5) or page.get(8), {5: 2, 8: 4}
            if values is not None:
                n_left -= values[1]
                is_delta = values[encoding[5 if 5 in page else 8]] == _DELTA_TEXT and column[1] == _TEXT_COLUMN
                delta = max(delta, size if is_delta else 0)
        return total, delta


def _row_group(group: _Fields, names: list[str], pages: _Pages) -> RowGroup:
    if len(names) != len(group[1]):
        raise ValueError("its rows have other columns than its schema")
    chunks = [Chunk(name, *pages.sizes(chunk[3])) for name, chunk in zip(names, group[1], strict=True)]
    return RowGroup(group[3], tuple(chunks))
