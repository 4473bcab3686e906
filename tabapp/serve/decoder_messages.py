"""Messages between the server and the process that decodes bodies, as MessagePack with an 8-byte length before each."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import polars as pl

from tabapp.data.schema import Schema
from tabapp.serve.bodies import Body
from tabapp.serve.limits import Limits

LENGTH_BYTES = 8
MESSAGE_LENGTH = 1_000
"""Longest sentence of an error in characters."""
_MISSING = -1


class Decode(msgspec.Struct, frozen=True):
    """Decode a body, which is in a file; the answer is `Columns` or `Refused`.

    `bundle` numbers the schema, which is sent only the first time.
    """

    path: str
    kind: str
    bundle: int
    schema: Schema | None
    limits: Limits


class Text(msgspec.Struct, frozen=True):
    """A column: its texts in UTF-8 without a separator, and their lengths in bytes as little-endian int32, -1 for missing cells."""

    texts: bytes
    lengths: bytes


class Reply(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Base of what the process answers. `is_last`: it must be replaced, since too much memory is left over from earlier bodies."""

    is_last: bool = False


class Started(Reply, frozen=True, tag=True):
    """The process is confined and waits for bodies; sent once, before any request."""


class Columns(Reply, frozen=True, tag=True):
    """A table, and sentences about repairs. Columns that the bundle does not know have names only."""

    n_rows: int
    columns: dict[str, Text | None]
    notes: tuple[str, ...]


class Refused(Reply, frozen=True, tag=True):
    """An error as an HTTP status and a sentence."""

    status: int
    message: str


def encode(message: msgspec.Struct) -> bytes:
    """A message with its length."""
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(LENGTH_BYTES, "little") + content


def packed(body: Body, schema: Schema) -> Columns:
    """A table as a message."""
    known = {column.name for column in schema.columns_of_file}
    columns = {name: _packed(body.frame[name]) if name in known else None for name in body.frame.columns}
    return Columns(body.frame.height, columns, tuple(note[:MESSAGE_LENGTH] for note in body.notes))


def _packed(column: pl.Series) -> Text:
    lengths = column.alias("").str.len_bytes().cast(pl.Int32).fill_null(_MISSING)
    texts = "".join(text for text in column.to_list() if text is not None)
    return Text(texts.encode(), lengths.to_numpy().astype("<i4").tobytes())


def unpacked(found: Columns) -> Body:
    """The table of a message.

    Raises:
        ValueError: its columns have different lengths, or are no text.
    """
    nothing = pl.Series([None] * found.n_rows, dtype=pl.String)
    columns = [
        nothing.alias(name) if text is None else pl.Series(name, list(_cells(text, found.n_rows)), dtype=pl.String)
        for name, text in found.columns.items()
    ]
    return Body(pl.DataFrame(columns), found.notes)


def _cells(text: Text, n_rows: int) -> Iterator[str | None]:
    lengths = np.frombuffer(text.lengths, dtype="<i4").astype(np.int64)
    if len(lengths) != n_rows or lengths.min(initial=0) < _MISSING or lengths.clip(0).sum() != len(text.texts):
        raise ValueError("the lengths of a column do not fit")
    start = 0
    for length in lengths.tolist():
        yield None if length == _MISSING else text.texts[start : start + length].decode()
        start += max(length, 0)
