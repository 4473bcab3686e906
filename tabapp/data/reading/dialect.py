"""Detect the layout of a text table: delimiter, lines before the header, and the header itself."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

DELIMITERS = (",", ";", "\t", "|")

_SAMPLE_CHARACTERS = 262_144
_SAMPLE_RECORDS = 500
MAX_LINE = 8 << 20
"""Longest header line in bytes."""
MAX_COLUMNS = 100_000
"""A wider header is cut after one more name, so that its width costs nothing before the table is rejected."""

_ROWS_BELOW_UNITS = 3
_UNIT = re.compile(r"[\[(]?[A-Za-zµ°%€$£²³/·*^_ .-][\w%°µ²³/·*^ .-]*[\])]?")
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Dialect:
    """How to split a text into rows and columns.

    Attributes:
        delimiter: the character between fields.
        names: column names, stripped and made unique.
        skipped_lines: number of lines before the first data row, including the header.
        preamble: number of non-blank lines before the header.
        renamed: header cells that were empty or not unique, as (column number from 1, name given).
        header: whether the names come from the file.
        header_lines: number of records that the names were joined from.
    """

    delimiter: str
    names: tuple[str, ...]
    skipped_lines: int
    preamble: int = 0
    renamed: tuple[tuple[int, str], ...] = ()
    header: bool = True
    header_lines: int = 1


@dataclass(frozen=True)
class _Record:
    fields: tuple[str, ...]
    end_line: int


def _records(text: str, delimiter: str) -> list[_Record]:
    """The first records of a text, without blank lines and without a record that the end of the sample truncates."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    found: list[_Record] = []
    try:
        for fields in reader:
            if fields and any(field.strip() for field in fields):
                found.append(_Record(tuple(fields), reader.line_num))
            if len(found) == _SAMPLE_RECORDS:
                break
    except csv.Error:
        pass
    return found


def _agreement(records: Sequence[_Record]) -> tuple[float, int]:
    """Share of records with the most common number of fields, and that number."""
    if not records:
        return 0.0, 1
    width, count = Counter(len(record.fields) for record in records).most_common(1)[0]
    return count / len(records), width


def sniff(data: bytes, delimiter: str | None) -> Dialect | None:
    """Detect the layout of a table from its first 256 KiB of UTF-8 text; None if there are no fields.

    The best delimiter splits the most records, including the header, into the same number of fields. Ties go to the one with
    more fields.
    """
    sample = data[:_SAMPLE_CHARACTERS]
    if len(data) > len(sample) and b"\n" not in sample:
        # A wide header: the sample begins after its line.
        sample = data[: max(0, data.find(b"\n", len(sample), MAX_LINE)) + _SAMPLE_CHARACTERS]
    text = sample.decode("utf-8", "ignore")
    if len(data) > len(sample) and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    declared, text, offset = _declared_delimiter(text)
    candidates = [delimiter or declared] if delimiter or declared else list(DELIMITERS)
    best: tuple[float, int] | None = None
    chosen: tuple[str, list[_Record], int] | None = None
    for candidate in candidates:
        records = _records(text, str(candidate))
        if not records:
            continue
        share, width = _agreement(records)
        header_fits = any(len(record.fields) == width for record in records[:1])
        rank = (share * (1.0 if header_fits else 0.7) if width > 1 else 0.0, width)
        if best is None or rank > best:
            best, chosen = rank, (str(candidate), records, width)
    if chosen is None:
        return None
    return _with_header(*chosen, offset)


def _declared_delimiter(text: str) -> tuple[str | None, str, int]:
    """Parse a first line such as `sep=;` of Excel: the delimiter, the remaining text, and the number of lines removed."""
    match = re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE)
    return (match.group(1), text[match.end() :], 1) if match else (None, text, 0)


def _with_header(delimiter: str, records: list[_Record], width: int, offset: int) -> Dialect:
    position = 0
    if width > 1 and len(records[0].fields) < width:
        # Titles and comments above a table have one or two fields; a header that lacks a few names has more and is kept.
        wide = (i for i, record in enumerate(records[:50]) if len(record.fields) == width)
        first_wide = next(wide, 0)
        if all(len(record.fields) <= max(1, width // 3) for record in records[:first_wide]):
            position = first_wide
    header = records[position]
    before = records[position - 1].end_line if position else 0
    if _is_data(header.fields, [record.fields for record in records[position + 1 :]]):
        names = tuple(f"column_{i}" for i in range(1, min(len(header.fields), MAX_COLUMNS + 1) + 1))
        return Dialect(delimiter, names, before + offset, preamble=position, header=False)
    fields, last, lines = header.fields, header, 1
    below = records[position + 1 :]
    if below and _is_second_header(below[0].fields, [record.fields for record in below[1:]], width):
        fields = tuple(
            " ".join(filter(None, map(str.strip, pair))) for pair in zip(fields, below[0].fields, strict=False)
        )
        last, lines = below[0], 2
    names, renamed = unique_names(fields[: MAX_COLUMNS + 1])
    return Dialect(delimiter, names, last.end_line + offset, preamble=position, renamed=renamed, header_lines=lines)


def _is_second_header(row: Sequence[str], rest: Sequence[Sequence[str]], width: int) -> bool:
    """Whether a row belongs to the header, such as a row of units: it has no numbers, above columns with only numbers."""
    whole = [fields for fields in rest if len(fields) == width]
    if (
        len(row) != width
        or width < 2
        or len(whole) < _ROWS_BELOW_UNITS
        or any(_NUMBER.fullmatch(c.strip()) for c in row)
    ):
        return False
    numeric = [i for i in range(width) if all(_NUMBER.fullmatch(fields[i].strip()) for fields in whole)]
    return len(numeric) >= max(2, width / 2) and all(_UNIT.fullmatch(row[i].strip()) for i in numeric)


def _is_data(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether the first record is data instead of names: all of its cells are numbers.

    Years and consecutive integers count as names, because tables have such headers.
    """
    cells = [cell.strip() for cell in first]
    if not rest or not all(cells) or not all(_NUMBER.fullmatch(cell) for cell in cells):
        return False
    whole = [int(cell) for cell in cells if cell.isdecimal()]
    if len(whole) == len(cells):
        consecutive = len(cells) > 1 and all(b - a == 1 for a, b in itertools.pairwise(whole))
        if consecutive or all(1900 <= number <= 2100 for number in whole):
            return False
    return True


def unique_names(header: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]]:
    """Strip column names and make them unique: an empty name becomes `column_3`, a second `a` becomes `a_2`.

    Returns:
        The names, and those that were empty or repeated as (column number from 1, name given).
    """
    wanted = [" ".join(name.split()) for name in header]
    taken = set(wanted)
    seen: set[str] = set()
    next_count: dict[str, int] = {}
    names: list[str] = []
    renamed: list[tuple[int, str]] = []
    for number, name in enumerate(wanted, start=1):
        final = name
        if not name or name in seen:
            stem, count = (name, next_count.get(name, 2)) if name else ("column", number)
            while (final := f"{stem}_{count}") in taken:
                count += 1
            next_count[name] = count + 1
            taken.add(final)
            renamed.append((number, final))
        seen.add(final)
        names.append(final)
    return tuple(names), tuple(renamed)
