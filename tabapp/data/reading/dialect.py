"""Detect the layout of a text table: delimiter, lines before the header, and the header itself."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tabapp.data.reading.headers import Header, are_units, judge_header
from tabapp.data.reading.known import NOTHING, Known
from tabapp.data.reading.layout import Layout
from tabapp.data.reading.layouts import find_aligned, find_arff, find_doubled, find_drawn, find_pairs
from tabapp.data.reading.quotes import find_loose_quotes, find_single_quotes

DELIMITERS = (",", ";", "\t", "|")

_SAMPLE_CHARACTERS = 262_144
_SAMPLE_RECORDS = 500
MAX_LINE = 8 << 20
"""Longest header line in bytes."""
MAX_COLUMNS = 100_000
"""A wider header is cut after one more name, so that its width costs nothing before the table is rejected."""

ROW_NAMES = "row_names"
"""Name of the column that R writes without one."""
_INDEX_NAMES = frozenset(
    {"", "id", "index", "key", "nr", "no", "no.", "#", "number", "row", "rowid", "row_id", "rownames"}
)
_GOOD_SHARE = 0.9
"""Smallest share of records with the same number of fields for which no other layout is tried."""


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
        header_lines: number of records with names, or with units and types below them.
        header_rows: cells of these records.
        preamble_texts: first cells of the records before the header.
        row_names: the first column has no name in the header.
        ruler: a line of dashes follows the header.
        doubtful_header: the names look like the rows below them.
        layout: what rewrites the text before it is split; None for plain delimited text.
    """

    delimiter: str
    names: tuple[str, ...]
    skipped_lines: int
    preamble: int = 0
    renamed: tuple[tuple[int, str], ...] = ()
    header: bool = True
    header_lines: int = 1
    header_rows: tuple[tuple[str, ...], ...] = ()
    preamble_texts: tuple[str, ...] = ()
    row_names: bool = False
    ruler: bool = False
    doubtful_header: bool = False
    layout: Layout | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Units, types or titles in the rows below the names, by column."""
        below = zip(*self.header_rows[1:], strict=False)
        texts = [", ".join(filter(None, map(str.strip, cells))) for cells in below]
        return {name: text for name, text in zip(self.names, texts, strict=False) if text and text not in name}

    @property
    def shown_delimiter(self) -> str:
        """The delimiter in the file."""
        return self.delimiter if self.layout is None else self.layout.shown

    @property
    def below_the_header(self) -> Dialect:
        """The same for a text that begins with rows."""
        return replace(self, skipped_lines=0)


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


def sniff(data: bytes, delimiter: str | None, known: Known = NOTHING) -> Dialect | None:
    """Detect the layout of a table from its first 256 KiB of UTF-8 text; None if there are no fields.

    The best delimiter splits the most records, including the header, into the same number of fields. Ties go to the one with
    more fields. Where none does, the table may be drawn or aligned; `Dialect.layout` then rewrites it.

    Args:
        known: the schema for which a file is read.
    """
    text = _sample(data)
    declared, text, offset = _declared_delimiter(text)
    given = delimiter or declared
    layout = find_arff(text) or (find_drawn(text) if given in (None, "|") else None)
    if layout is None and given != " ":
        delimiters = [given] if given else list(DELIMITERS)
        layout = find_single_quotes(text, delimiters, known) or find_loose_quotes(text, delimiters, known)
    chosen = None if layout else _best_delimiter(text, [given] if given else list(DELIMITERS))
    if layout is None and chosen is not None:
        layout = _other_layout(text, chosen, given, known)
    if layout is not None:
        text = layout.rewrite(text.encode()).data.decode()
        chosen = _best_delimiter(text, [layout.delimiter])
    if chosen is None:
        return None
    return _with_header(chosen, offset, known, text, layout)


@dataclass(frozen=True)
class _Split:
    """The records of a sample, split at a delimiter; `share` of them has `width` fields."""

    delimiter: str
    records: list[_Record]
    share: float
    width: int

    @property
    def rank(self) -> tuple[float, int]:
        if self.width == 1:
            return 0.0, 1
        lacking = self.width - len(self.records[0].fields)
        # A header that lacks one name is that of R.
        return self.share * (1.0 if lacking == 0 else 0.95 if lacking == 1 and self.width > 2 else 0.7), self.width

    @property
    def has_gaps(self) -> bool:
        """Whether nearly all records have a field with words that are far apart, as in columns aligned with spaces."""
        gaps = sum(any("  " in field.strip() for field in record.fields) for record in self.records)
        return gaps >= _GOOD_SHARE * len(self.records)

    @property
    def header(self) -> list[str]:
        return [field.strip() for field in self.records[0].fields]


def _sample(data: bytes) -> str:
    """The begin of a text, up to the end of a line."""
    sample = data[:_SAMPLE_CHARACTERS]
    if len(data) > len(sample) and b"\n" not in sample:
        # A wide header: the sample begins after its line.
        sample = data[: max(0, data.find(b"\n", len(sample), MAX_LINE)) + _SAMPLE_CHARACTERS]
    text = sample.decode("utf-8", "ignore")
    if len(data) > len(sample) and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    return text


def _best_delimiter(text: str, delimiters: Sequence[str]) -> _Split | None:
    splits: list[_Split] = []
    for delimiter in delimiters:
        records = _records(text, delimiter)
        if records:
            splits.append(_Split(delimiter, records, *_agreement(records)))
    return max(splits, key=lambda split: split.rank, default=None)


def _other_layout(text: str, best: _Split, given: str | None, known: Known) -> Layout | None:
    """The layout of a table that the best delimiter does not split into columns of its own."""
    if given != " ":
        doubled = find_doubled([record.fields for record in best.records], text, best.delimiter)
        fits = best.rank[0] >= _GOOD_SHARE and not best.has_gaps
        if doubled is not None or fits or any(name in known for name in best.header):
            return doubled
    if given is None and (pairs := find_pairs(text, ("::", "||"))) is not None:
        return pairs
    return find_aligned(text, known, best.width) if given in (None, " ") else None


def _declared_delimiter(text: str) -> tuple[str | None, str, int]:
    """Parse a first line such as `sep=;` of Excel: the delimiter, the remaining text, and the number of lines removed."""
    match = re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE)
    return (match.group(1), text[match.end() :], 1) if match else (None, text, 0)


def _with_header(split: _Split, offset: int, known: Known, text: str, layout: Layout | None) -> Dialect:
    records, width = split.records, split.width
    position = _header_position(records, width, known)
    first = records[position]
    if ROW_NAMES in known and position + 1 < len(records):
        # One row does not show which number of fields is common.
        width = max(width, len(records[position + 1].fields))
    rows = [record.fields for record in records[position:]]
    before = records[position - 1].end_line if position else 0
    preamble = tuple(record.fields[0].strip() for record in records[:position])
    has_row_names = len(rows[0]) == width - 1 > 0 and _are_row_names(rows, width, split.delimiter, text, known)
    if has_row_names:
        names = rows[0]
        name = ROW_NAMES
        while name in names:
            name += "_"
        rows[0] = (name, *names)
    groups = _below_groups(rows[0], rows[1]) if known and len(rows) > 1 else None
    if groups is not None and _n_known(groups[0], known) > _n_known(rows[0], known):
        header = Header(is_there=True, labels=(rows[1],))
    else:
        header = judge_header(rows, width, known)
    if not header.is_there:
        n_names = min(len(first.fields), MAX_COLUMNS + 1)
        names = known.numbered(n_names)
        return Dialect(split.delimiter, names, before + offset, preamble=position, header=False, layout=layout)
    names, renamed = unique_names(rows[0][: MAX_COLUMNS + 1])
    if renamed and header.labels and not any(name in known for name in names):
        names, renamed = groups or _below_groups(rows[0], header.labels[0]) or (names, renamed)
    joined = [" ".join(filter(None, map(str.strip, pair))) for pair in zip(rows[0], *header.labels, strict=False)]
    if header.labels and any(name in known and name not in names for name in joined):
        # A bundle of an earlier version has the names with their units.
        names, renamed = unique_names(joined)
    last = records[position + header.n_rows - 1]
    return Dialect(
        split.delimiter,
        names,
        _over_blank_lines(text, last.end_line) + offset,
        preamble=position,
        renamed=renamed,
        header_lines=1 + len(header.labels),
        header_rows=(tuple(cell.strip() for cell in rows[0]), *map(tuple, header.labels)),
        preamble_texts=preamble,
        row_names=has_row_names,
        ruler=header.ruler,
        doubtful_header=header.doubtful,
        layout=layout,
    )


def _header_position(records: Sequence[_Record], width: int, known: Known) -> int:
    """The number of records above the header: titles and comments, which have one or two fields, or are filled up with empty ones.

    A header that lacks a few names has more and is kept.
    """
    for position, record in enumerate(records[:50] if known else ()):
        names = [field.strip() for field in record.fields]
        if len(names) > 1 and sum(name in known for name in names) > len(names) / 2:
            return position
    if width == 1:
        return 0
    if len(records[0].fields) >= width:
        return _below_titles(records, width, known)
    first_wide = next((i for i, record in enumerate(records[:50]) if len(record.fields) == width), 0)
    return first_wide if all(len(record.fields) <= max(1, width // 3) for record in records[:first_wide]) else 0


def _n_known(names: Sequence[str], known: Known) -> int:
    return sum(name.strip() in known for name in names)


def _below_groups(
    groups: Sequence[str], below: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]] | None:
    """The names of columns below those of groups of columns, as in spreadsheets: ",2023,,2024," above "shop,sold,price".

    Returns:
        As `unique_names`; None if the rows are something else, such as names and units.
    """
    above, names = "", list[str]()
    for group, name in zip(map(str.strip, groups), map(str.strip, below), strict=False):
        above = group or above
        names.append(f"{above} {name}".strip())
        if not group and not name:
            return None
    if len(names) < len(groups) or len(set(names)) < len(names) or are_units(below):
        return None
    changed = ((number, name) for number, name in enumerate(names, start=1) if name != groups[number - 1].strip())
    return tuple(names), tuple(changed)


def _below_titles(records: Sequence[_Record], width: int, known: Known) -> int:
    """The number of titles that are as wide as the table, as spreadsheets save them, above a row that can only be the header."""
    most = width // 3
    first = next((i for i, record in enumerate(records[:50]) if _n_filled(record) > most), 0)
    if not first or _n_filled(records[first]) < width:
        return 0
    header = judge_header([record.fields for record in records[first:]], width, known)
    return first if header.is_there and not header.doubtful else 0


def _n_filled(record: _Record) -> int:
    """The number of the last field that is not empty."""
    return max((number for number, field in enumerate(record.fields, start=1) if field.strip()), default=0)


def _are_row_names(rows: Sequence[Sequence[str]], width: int, delimiter: str, text: str, known: Known) -> bool:
    """Whether the rows have one field more than the header because they begin with names, as R writes them: all are different."""
    below = [row for row in rows[1:] if len(row) == width]
    names = [row[0].strip() for row in below]
    if len(below) < _GOOD_SHARE * len(rows[1:]) or not all(names) or len(set(names)) < len(names):
        return False
    if rows[0][0].strip().casefold() in _INDEX_NAMES or sum(not row[-1].strip() for row in below) > len(below) / 2:
        # The last name is absent instead, or there is a delimiter at the end of each row.
        return False
    # Decimal commas in a table with commas give one field too many as well, but no decimal points.
    return delimiter != "," or ROW_NAMES in known or '\n"' in text or any("." in cell for row in below for cell in row)


def _over_blank_lines(text: str, line: int) -> int:
    """The number of a line, or of the last of the blank lines that follow it."""
    lines = text.split("\n", line + 8)
    while line < len(lines) - 1 and not lines[line].strip():
        line += 1
    return line


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
