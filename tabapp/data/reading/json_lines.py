"""Read JSON objects whose keys are the names of columns: one in each line, or an array of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from tabapp.data.limits import CELL, PYTHON_CELL, MemoryLimit
from tabapp.data.reading.dialect import MAX_COLUMNS, unique_names
from tabapp.data.reading.looks import NUMBER
from tabapp.data.schema import Column
from tabapp.data.stored import spelled_number
from tabapp.errors import DataError

_MISSING_CELL = 8
_DECODED = 6
_START = 65_536


class _Digits(str):
    """A JSON number with a fraction or an exponent, as it is written: cells of a CSV file keep their digits, too."""


_ROW = msgspec.json.Decoder(dict[str, Any], float_hook=_Digits)
_ROWS = msgspec.json.Decoder(list[dict[str, Any]], float_hook=_Digits)
_ARRAY = re.compile(rb"\s*\[\s*\{")


@dataclass(frozen=True)
class Records:
    """The rows of a file as text.

    Attributes:
        renamed: names that were changed to be unique, as in `Dialect.renamed`.
        left_out: columns of lists and objects, with a word for what they hold.
    """

    frame: pl.DataFrame
    renamed: tuple[tuple[int, str], ...]
    left_out: dict[str, str]


def is_json_array(data: bytes) -> bool:
    """Whether a text begins as an array of objects."""
    return _ARRAY.match(data[:_START]) is not None


def is_json_lines(data: bytes) -> bool:
    """Whether the first line of a text is a JSON object."""
    line = data[:_START].lstrip().partition(b"\n")[0].strip()
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return False
    try:
        return any(not isinstance(value, dict | list) for value in _ROW.decode(line).values())
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False


def read_objects(data: bytes, path: Path, memory: MemoryLimit, columns: Sequence[Column] = ()) -> Records:
    """Parse JSON lines, or an array of objects.

    Args:
        columns: of the schema to read for, in whose formats numbers are written.

    Raises:
        DataError: a line or the array is not valid, or the table has too many columns or needs too much memory.
    """
    memory.require(_DECODED * len(data) + PYTHON_CELL * data.count(b":"))
    rows = _rows_of_array(data, path) if is_json_array(data) else _rows_of_lines(data, path)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    if len(keys) > MAX_COLUMNS:
        raise DataError(f"{path}: has more than {MAX_COLUMNS:,} columns. Give fewer columns.")
    # Each line may have keys of its own, so that cells are many more than values.
    memory.require((CELL + _MISSING_CELL) * len(keys) * len(rows) + _DECODED * len(data))
    held = {key: word for key in keys if (word := _held(rows, key))}
    kept = [key for key in keys if key not in held]
    names, renamed = unique_names(kept)
    known = {column.name: column for column in columns}
    texts = [
        pl.Series(name, [_cell(row.get(key), known.get(name)) for row in rows], dtype=pl.String)
        for key, name in zip(kept, names, strict=True)
    ]
    frame = pl.DataFrame(texts) if texts else pl.DataFrame(height=len(rows))
    return Records(frame, renamed, held)


def _rows_of_lines(data: bytes, path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(_ROW.decode(line))
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise DataError(
                f"{path}: line {number:,} is not a JSON object. JSON lines have one in each line."
            ) from None
    return rows


def _rows_of_array(data: bytes, path: Path) -> list[dict[str, Any]]:
    try:
        return _ROWS.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise DataError(
            f"{path}: begins as a JSON array of objects, and is not one. Check that the file is complete."
        ) from None


def _held(rows: Sequence[dict[str, Any]], key: str) -> str:
    """What a column that cannot be used holds; empty for one that can."""
    values = (row.get(key) for row in rows)
    return next((("lists" if isinstance(v, list) else "structures") for v in values if isinstance(v, list | dict)), "")


def _cell(value: object, like: Column | None) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    is_number = isinstance(value, int | _Digits) and like is not None and like.kind == "numeric"
    return spelled_number(text, like) if is_number and like is not None and NUMBER.fullmatch(text) else text
