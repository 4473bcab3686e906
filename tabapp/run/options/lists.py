"""Lists of names as the value of an option: a line of CSV, so that a name with a comma is in double quotes."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO


def split_list(text: str) -> tuple[str, ...]:
    """The items of a value, without whitespace around them and without empty ones."""
    # A reader of several lines also takes line breaks outside quotes.
    rows = csv.reader(StringIO(text, newline=""), skipinitialspace=True)
    return tuple(item.strip() for row in rows for item in row if item.strip())


def join_list(items: Iterable[str]) -> str:
    """A value that `split_list` reads as these items."""
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(items)
    return line.getvalue()
