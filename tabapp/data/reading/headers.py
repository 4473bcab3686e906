"""Judge the first rows of a table: names, rows of units and types below them, ruler lines, or already data."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tabapp.data.reading.known import Known
from tabapp.data.reading.looks import (
    IN_RANGE,
    NUMBER,
    OTHER_FORM,
    OTHER_VALUE,
    SAME,
    KnownLook,
    Look,
    as_number,
    is_blank,
    looks_of,
)

Row = Sequence[str]

_ENOUGH_ROWS = 3
"""Rows that show how a column looks."""
_ROWS_OF_VALUES = 10
"""Rows below the first one that show whether its texts are values rather than names."""
_SAMPLE_ROWS = 100
_MOST_LABEL_ROWS = 2

_NUMERIC = frozenset("0123456789+-.,")
_RULER = re.compile(r":?[-=]+:?")
_TYPES = frozenset(
    {
        "int", "int8", "int16", "int32", "int64", "integer", "long", "bigint", "smallint", "tinyint", "i8", "i16", "i32",
        "i64", "u8", "u16", "u32", "u64", "uint8", "uint16", "uint32", "uint64", "hugeint", "float", "float32", "float64",
        "f32", "f64", "double", "real", "decimal", "number", "numeric", "continuous", "num", "dbl", "chr", "lgl", "fct",
        "dttm", "str", "string", "text", "varchar", "char", "character", "object", "date", "datetime", "datetime64[ns]",
        "time", "timestamp", "bool", "boolean", "logical", "factor", "category", "categorical", "nominal", "ordinal",
        "discrete", "enum", "class", "meta",
    }
)  # fmt: skip
_UNITS = frozenset(
    {
        "m", "cm", "mm", "km", "µm", "μm", "um", "nm", "in", "inch", "inches", "ft", "yd", "mi", "mile", "miles", "kg", "g",
        "mg", "µg", "μg", "ug", "t", "lb", "lbs", "oz", "l", "ml", "cl", "dl", "gal", "m2", "m²", "cm2", "cm²", "km2", "km²",
        "m3", "m³", "cm3", "cm³", "ha", "s", "sec", "secs", "second", "seconds", "ms", "µs", "μs", "us", "ns", "min", "mins",
        "minute", "minutes", "h", "hr", "hrs", "hour", "hours", "d", "day", "days", "week", "weeks", "month", "months", "y",
        "yr", "yrs", "year", "years", "hz", "khz", "mhz", "ghz", "n", "kn", "pa", "kpa", "mpa", "hpa", "bar", "mbar", "psi",
        "j", "kj", "mj", "kcal", "cal", "w", "kw", "mw", "kwh", "v", "mv", "kv", "a", "ma", "k", "c", "f", "°c", "°f", "deg",
        "degc", "degf", "rad", "%", "‰", "percent", "pct", "ppm", "ppb", "mol", "mmol", "µmol", "mol/l", "mmol/l", "mg/l",
        "g/l", "mg/dl", "g/dl", "ug/l", "µg/l", "u/l", "m/s", "km/h", "mph", "rpm", "m/s2", "m/s²", "kg/m2", "kg/m²", "kg/m3",
        "kg/m³", "g/cm3", "g/cm³", "eur", "usd", "gbp", "chf", "jpy", "$", "€", "£", "¥", "count", "no.", "pcs",
    }
)  # fmt: skip
_BRACKETS = "<>[]()"
_BRACKETED = re.compile(r"\[[^\]]{1,20}\]|\([^)]{1,20}\)|<[a-z0-9]{2,12}>")


@dataclass(frozen=True)
class Header:
    """The rows at the top that are no data.

    Attributes:
        is_there: whether the first row holds names.
        doubtful: the first row is taken for names although it looks like the rows below.
        labels: rows of units, types or titles below the names.
        ruler: whether a row of dashes follows.
    """

    is_there: bool
    doubtful: bool = False
    labels: tuple[Row, ...] = ()
    ruler: bool = False

    @property
    def n_rows(self) -> int:
        return int(self.is_there) + len(self.labels) + int(self.ruler)


def judge_header(rows: Sequence[Row], width: int, known: Known) -> Header:
    """Find the header of a table.

    Args:
        rows: the first row and a sample of those below it.
        width: the number of fields of most rows.
        known: the schema for which a file is read; its names decide whether the first row is a header.
    """
    first, below = _stripped(rows[0]), [_stripped(row) for row in rows[1 : _SAMPLE_ROWS + 1]]
    named = any(cell in known for cell in first)
    ruler = bool(below) and is_ruler(below[0])
    if not (named or ruler):
        if known.without_header:
            is_data, doubtful = not any(look == OTHER_FORM for look in _by_schema(first, known)), False
        else:
            is_data, doubtful = _is_data(first, below)
        if is_data:
            return Header(is_there=False)
        if doubtful:
            return Header(is_there=True, doubtful=not known)
    below = below[int(ruler) :]
    labels = tuple(below[: _n_labels(first, below, width, known)])
    if not ruler and len(below) > len(labels) and is_ruler(below[len(labels)]):
        ruler = True
    return Header(is_there=True, labels=labels, ruler=ruler)


def is_ruler(row: Row) -> bool:
    """Whether the stripped cells of a row are dashes, of which one cell at least has three."""
    cells = [cell for cell in row if cell]
    return bool(cells) and all(map(_RULER.fullmatch, cells)) and any(len(cell) > 2 for cell in cells)


def _stripped(row: Row) -> list[str]:
    return [cell.strip() for cell in row]


def _by_schema(first: Row, known: Known) -> list[int]:
    names = known.numbered(len(first))
    columns = [known.get(name) for name in names]
    return [
        KnownLook(column).compare(cell)
        for cell, column in zip(first, columns, strict=True)
        if column is not None and column.kind == "numeric"
    ]


def _is_data(first: Row, below: Sequence[Row]) -> tuple[bool, bool]:
    """Whether the first row is data instead of names, and whether that is possible.

    It is data if its cells occur among the values of their columns, or look like them, and hardly any cell looks different.
    """
    rows = [row for row in below if len(row) == len(first) and row != first]
    numbers = [cell for cell in first if NUMBER.fullmatch(cell)]
    if len(numbers) == len(first):
        # One row below is enough to tell numbers from names.
        return bool(below) and not (_are_names(numbers, first) or _is_scale(numbers, first, rows)), False
    if len(rows) < _ROWS_OF_VALUES or _are_letters(first):
        return False, False
    n_filled = sum(not is_blank(cell) for cell in first)
    columns = zip(*rows, strict=True)
    possible = sum(
        cell[:1] in _NUMERIC or " " in cell or cell in column for cell, column in zip(first, columns, strict=True)
    )
    if 2 * possible < n_filled:
        return False, False
    found = [look.compare(cell) for look, cell in zip(looks_of(rows, len(first)), first, strict=True)]
    same, alike = found.count(SAME), found.count(IN_RANGE)
    if _are_names(numbers, first) or _ascend(numbers):
        alike = 0
    against = 2 * found.count(OTHER_FORM) + found.count(OTHER_VALUE)
    if same + alike <= 2 * against or 2 * (same + alike) < n_filled:
        return False, False
    # A name may be one of the values of its column, such as "spam".
    return 2 * (same + alike) > n_filled, True


def _are_names(numbers: Sequence[str], first: Row) -> bool:
    """Whether the numbers of a first row are names: years, or consecutive integers."""
    whole = [int(cell) for cell in numbers if cell.isdecimal()]
    if not whole or len(whole) < len(numbers):
        return False
    if len(whole) == 1 < len(first):
        # Such as the name 0 that pandas gives to a column.
        return whole[0] <= 1 or 1900 <= whole[0] <= 2100
    consecutive = len(whole) > 1 and all(b - a == 1 for a, b in itertools.pairwise(whole))
    return consecutive or all(1900 <= number <= 2100 for number in whole)


def _ascend(numbers: Sequence[str]) -> bool:
    return len(numbers) > _ENOUGH_ROWS and all(a < b for a, b in itertools.pairwise(map(as_number, numbers)))


def _is_scale(numbers: Sequence[str], first: Row, rows: Sequence[Row]) -> bool:
    """Whether the numbers are names such as wavelengths: they ascend, and are unlike the values below them."""
    if not rows or not _ascend(numbers):
        return False
    found = [look.compare(cell) for look, cell in zip(looks_of(rows, len(first)), first, strict=True)]
    return 2 * found.count(IN_RANGE) < len(found)


def _are_letters(first: Row) -> bool:
    """Whether the cells are consecutive letters such as a, b, c: names, even above columns of letters."""
    codes = [ord(cell) for cell in first if len(cell) == 1 and cell.isalpha()]
    return len(codes) == len(first) > 1 and all(b - a == 1 for a, b in itertools.pairwise(codes))


def _n_labels(first: Row, below: Sequence[Row], width: int, known: Known) -> int:
    """The number of rows of units, types or titles below the names."""
    columns = list(map(known.get, first))
    labels = (
        [cell or None if column is None else column.label for column, cell in zip(columns, below[0], strict=False)]
        if below
        else []
    )
    if any(column and column.label for column in columns) and labels == [cell or None for cell in below[0]]:
        return 1
    if not below or any(map(NUMBER.fullmatch, below[0])):
        return 0
    for count in range(_MOST_LABEL_ROWS, 0, -1):
        above = (first, *below[:count])
        rows = [row for row in below[count:] if len(row) == width and row not in above and not is_ruler(row)]
        if len(rows) >= _ENOUGH_ROWS:
            if any(cell in column for cell, column in zip(below[0], zip(*rows, strict=True), strict=False) if cell):
                continue
            looks = looks_of(rows, width)
        elif known:
            looks = [Look(()) if column is None else KnownLook(column) for column in columns]
        else:
            continue
        if len(below) >= count and all(_are_labels(row, looks) for row in below[:count]):
            return count
    return 0


def are_units(row: Row) -> bool:
    """Whether all cells of a row that are not empty are units, types, or in brackets."""
    cells = [(cell, cell.casefold().strip(_BRACKETS)) for cell in row if not is_blank(cell)]
    return all(word in _UNITS or word in _TYPES or _BRACKETED.fullmatch(cell) for cell, word in cells)


def _are_labels(row: Row, looks: Sequence[Look]) -> bool:
    """Whether a row is no data: it has no numbers, and texts above columns of numbers or dates."""
    if len(row) != len(looks) or len(row) < 2 or any(map(NUMBER.fullmatch, row)):
        return False
    cells = [cell for cell in row if not is_blank(cell)]
    found = [look.compare(cell) for look, cell in zip(looks, row, strict=True)]
    if not cells or SAME in found:
        return False
    against = found.count(OTHER_FORM)
    if all(cell.casefold().strip(_BRACKETS) in _TYPES for cell in cells):
        return len(cells) > 1 or against > 0 or OTHER_VALUE in found
    if are_units(cells):
        return against > 0
    typed = sum(look.is_typed for look in looks)
    distinct = {cell for cell, look in zip(row, found, strict=True) if look == OTHER_FORM}
    return len(distinct) > 1 and against >= max(2, typed / 2) and 4 * typed >= len(looks)
