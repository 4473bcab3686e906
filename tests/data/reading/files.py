"""Small tables for the tests of readers, and files made of them."""

from __future__ import annotations

from pathlib import Path

from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import Reading, read_table
from tabapp.data.schema import Column

NAMES = ("a", "g", "b", "y")
COLORS = ("red", "green", "blue")
ROWS = [(f"{i * 7 % 11}.{i % 10}", COLORS[i % 3], f"{i * 3 % 17}.25", ("no", "yes")[i % 2]) for i in range(40)]


def lines(rows: object = None, delimiter: str = ",") -> str:
    """The rows of the table, or others, as text without a header."""
    return "".join(delimiter.join(row) + "\n" for row in (ROWS if rows is None else rows))  # type: ignore[union-attr]


PLAIN = lines([NAMES]) + lines()


def read(folder: Path, text: str | bytes, columns: tuple[Column, ...] = ()) -> Reading:
    """What the reader makes of a text, for training or for a schema."""
    path = folder / "table.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(path, allow_no_rows=True, columns=columns)


def schema_of(reading: Reading, target: str = "y") -> tuple[Column, ...]:
    return infer_schema(reading.frame, target=target, labels=reading.labels).columns


def messages(reading: Reading) -> str:
    """All warnings with their actions as one text."""
    return "\n".join(f"{warning.message} {warning.action}" for warning in reading.warnings)
