"""Lines at the end of a text table that are no rows: counts of rows, totals, sources, and what else stands alone below a table."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from functools import cached_property

from tabapp.data.reading.dialect import Dialect
from tabapp.data.reading.headers import is_ruler
from tabapp.data.reading.known import NOTHING, Known
from tabapp.data.reading.looks import OTHER_FORM, KnownLook, Look, is_blank
from tabapp.data.reading.remarks import is_remark, is_row_count, is_rule, is_total
from tabapp.data.schema import DataWarning

_MOST = 40
_LONGEST = 4_096
_SAMPLE_ROWS = 500
_SAMPLE_BYTES = 131_072
_ENOUGH_ROWS = 3
_NAMED = 3
_SUMMED_BYTES = 50_000_000
"""Below the total of a longer table, no column is added up."""
_CLOSE = 1e-3
"""Relative difference of a sum and a total; numbers are rounded."""


class Footers:
    """Separates the rows of a table from the lines below it.

    Args:
        dialect: of the table.
        first_cells: returns stripped cells of the first column, when they are needed.
        known: the schema for which a file is read, whose levels are never taken for a footer.
    """

    def __init__(self, dialect: Dialect, first_cells: Callable[[], Sequence[str]], known: Known = NOTHING) -> None:
        self._width, self._column = len(dialect.names), known.get(dialect.names[0])
        self._first_cells, self._known = first_cells, known

    @cached_property
    def _first(self) -> Look:
        look = Look(self._first_cells())
        return KnownLook(self._column) if look.n < _ENOUGH_ROWS and self._column is not None else look

    def include(
        self,
        cells: Sequence[str],
        totals_above: Callable[[], bool],
        is_sum: Callable[[Sequence[str]], bool] = lambda cells: False,
    ) -> bool:
        """Whether a record is a footer.

        Args:
            cells: stripped, and not all empty.
            totals_above: returns whether an earlier row begins with a word such as "Total".
            is_sum: returns whether a number of the record, or of totals directly above it, is the sum of those above them.
        """
        filled = [cell for cell in cells if cell]
        text = filled[0]
        if self._width == 1:
            return text.startswith("(") and is_row_count(text) and text not in self._known.texts
        if text in self._known.texts:
            return False
        if len(filled) == 1:
            return self._stands_alone(text, is_first=bool(cells[0]), is_short=len(cells) < self._width)
        if len(cells) < self._width:
            line = ", ".join(cells)
            return is_row_count(line) or is_remark(line)
        if is_ruler(filled) and any(len(cell) > 3 for cell in filled):
            return True
        if not is_total(text) or self._first.is_typed:
            return is_total(text)
        # A word such as "Total" may be a level among other texts.
        return not totals_above() and (len(filled) < self._width or is_sum(cells))

    def _stands_alone(self, text: str, *, is_first: bool, is_short: bool) -> bool:
        if is_row_count(text) or (is_rule(text) and (is_short or len(text) > 3)):
            return True
        if is_blank(text) or not re.search(r"[^\W\d_]{2}", text) or text in self._first.values:
            return is_short and text == "\\."
        has_texts = any(" " in value for value in self._first.values)
        if is_total(text) or (is_remark(text) and (is_short or not has_texts)):
            return True
        is_other = self._first.compare(text) == OTHER_FORM
        if is_short:
            return is_other or (" " in text and not has_texts and self._first.n >= _ENOUGH_ROWS)
        return is_first and is_other and len(re.findall(r"[^\W\d_]{2,}", text)) > 1


def drop_footers(data: bytes, dialect: Dialect, warnings: list[DataWarning], known: Known = NOTHING) -> bytes:
    """A text without the lines at its end that are no rows, and the blank ones above them."""
    begin = start_of_rows(data, dialect)
    found: list[str] = []
    cut = at = start = len(data)
    footers = Footers(dialect, lambda: _first_cells(data, begin, start, dialect), known)

    def totals_above() -> bool:
        return _has_total(data[begin : _first_total(data, begin, start, dialect)], dialect.delimiter)

    def is_sum(cells: Sequence[str]) -> bool:
        top = _first_total(data, begin, start, dialect)
        above = (_cells(line, dialect.delimiter) for line in data[top:start].splitlines(keepends=True))
        rows = data[begin:top] if top - begin <= _SUMMED_BYTES else b""
        return any(_is_sum(each, rows, dialect.delimiter) for each in (cells, *above) if each is not None)

    first_total = len(data)
    for _ in range(_MOST):
        start = max(begin, data.rfind(b"\n", begin, max(begin, at - 1)) + 1)
        cells = _cells(data[start:at], dialect.delimiter) if begin <= start < at else None
        if cells is None:
            cut = at
            break
        if any(cells):
            text = next(filter(None, cells))
            if not (first_total <= start and text not in known.texts) and not footers.include(
                cells, totals_above, is_sum
            ):
                cut = at
                break
            if is_total(text):
                # Those directly above it are totals, too.
                first_total = _first_total(data, begin, start, dialect)
            found.append(text)
            cut = start
        at = start
    if not found:
        return data
    warn_about_footers(list(reversed(found)), warnings)
    return data[:cut]


def warn_about_footers(texts: Sequence[str], warnings: list[DataWarning]) -> None:
    """Report lines that were dropped because they are no rows."""
    shown = ", ".join(repr(text[:40]) for text in texts[:_NAMED]) + (" …" if len(texts) > _NAMED else "")
    rows = "One row has" if len(texts) == 1 else f"{len(texts):,} rows have"
    message = f"{rows} totals or remarks ({shown})."
    action = "dropped; fill in the other cells of a line that is a row"
    warnings.append(DataWarning(check="repaired_rows", message=message, action=action))


def start_of_rows(data: bytes, dialect: Dialect) -> int:
    """The place where the first row below the header begins."""
    start = 0
    for _ in range(dialect.skipped_lines):
        end = data.find(b"\n", start) + 1
        if not end:
            return len(data)
        start = end
    return start


def _cells(line: bytes, delimiter: str) -> list[str] | None:
    """The stripped cells of a line; None if it is too long for a footer, or quotes make it a part of a record."""
    if len(line) > _LONGEST or line.count(b'"') % 2:
        return None
    text = line.decode("utf-8", "replace").strip("\r\n")
    if "\r" in text:
        return None
    return [cell.strip() for cell in next(csv.reader([text], delimiter=delimiter), [])] or [""]


def _first_cells(data: bytes, begin: int, end: int, dialect: Dialect) -> list[str]:
    """The first cells of some rows at the begin and at the end."""
    early = data[begin : min(end, begin + _SAMPLE_BYTES)].split(b"\n")
    late = data[max(begin + _SAMPLE_BYTES, end - _SAMPLE_BYTES) : end].split(b"\n")[1:]
    found: list[str] = []
    for line in [*early[:_SAMPLE_ROWS], *late[-_SAMPLE_ROWS:]]:
        cells = _cells(line, dialect.delimiter)
        # A line that lacks cells may be a footer, too.
        if cells is not None and sum(map(bool, cells)) > 1:
            found.append(cells[0])
    return found


def _first_total(data: bytes, begin: int, end: int, dialect: Dialect) -> int:
    """The start of the lines directly above a place that begin with a word such as "Total"; that place without any."""
    for _ in range(_MOST):
        start = max(begin, data.rfind(b"\n", begin, max(begin, end - 1)) + 1)
        cells = _cells(data[start:end], dialect.delimiter) if begin <= start < end else None
        if not is_total(next(filter(None, cells or ()), "")):
            break
        end = start
    return end


def _is_sum(cells: Sequence[str], data: bytes, delimiter: str) -> bool:
    """Whether a cell is the sum of those above it, and larger than each of them."""
    # Imported here: the first rows of a file are shown before polars is loaded.
    import polars as pl

    from tabapp.data.forms.numbers import number_format, parse_numbers

    lines = io.StringIO(data.decode("utf-8", "replace"), newline="")
    try:
        records = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        # A text of more than 128 KiB.
        return False
    for place, cell in enumerate(cells):
        above = (record[place].strip() for record in records if place < len(record))
        texts = pl.Series("text", [cell, *filter(None, above)])
        counted = texts.value_counts(name="n")
        numbers = parse_numbers(texts, number_format(counted["text"], counted["n"])[0])
        total, others = numbers[0], numbers[1:].drop_nulls()
        if total is None or len(others) < _ENOUGH_ROWS:
            continue
        if (others.abs() < abs(total)).all() and math.isclose(others.sum(), total, rel_tol=_CLOSE):
            return True
    return False


def _has_total(data: bytes, delimiter: str) -> bool:
    """Whether a row begins with a word such as "Total"."""
    firsts = re.finditer(rb'(?im)^\s*"?([a-z -]{3,20}):?"?\s*' + re.escape(delimiter.encode()), data)
    return any(is_total(match[1].decode()) for match in firsts)
