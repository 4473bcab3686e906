"""The tables inside a bundle, sample rows and their predictions, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

import polars as pl

_LONGEST_CELL = 2**31 - 1


class SampleError(ValueError):
    """A stored table cannot be read; the message says why."""


def write_sample(frame: pl.DataFrame) -> bytes:
    """A table as CSV in UTF-8, which `read_sample` reads back."""
    return frame.write_csv().encode()


def read_sample(content: bytes) -> pl.DataFrame:
    """Read a stored table as text; empty cells are null.

    The reader of polars leaves quotes in column names doubled, and drops a byte order mark that is part of a name.

    Raises:
        SampleError: the content is not a table.
    """
    csv.field_size_limit(_LONGEST_CELL)
    try:
        # A blank line is an empty cell of a table with one column.
        rows = [row or [""] for row in csv.reader(io.StringIO(content.decode(), newline=""), strict=True)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SampleError(str(error)) from None
    if not rows:
        raise SampleError("it is empty")
    header = rows.pop(0)
    if len(set(header)) < len(header):
        raise SampleError("two columns have the same name")
    if any(len(row) != len(header) for row in rows):
        raise SampleError("a row has more or fewer cells than the header")
    columns: Iterable[Iterable[str]] = zip(*rows, strict=True) if rows else [()] * len(header)
    cells = {name: [cell or None for cell in column] for name, column in zip(header, columns, strict=True)}
    return pl.DataFrame(cells, schema=dict.fromkeys(header, pl.String))
