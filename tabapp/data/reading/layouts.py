"""Tables that are written for people, or by other programs: drawn with bars, aligned with spaces, ARFF, doubled delimiters."""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence

from tabapp.data.reading.known import Known
from tabapp.data.reading.layout import Layout
from tabapp.data.reading.looks import looks_of
from tabapp.data.reading.quotes import requoted, unescaped
from tabapp.data.reading.remarks import is_row_count
from tabapp.errors import DataError

_CORNERS = "┌┐└┘├┤┬┴┼╞╡╪╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋┡┩╇╈╰╯╭╮╤╧╟╢╫╥╨"
_BOXES = str.maketrans(dict.fromkeys("│┃║┆┊╎", "|") | dict.fromkeys("─━═┄┈╌", "-") | dict.fromkeys(_CORNERS, "+"))
_DASHES = re.compile(r"--|==|:-|-:|\|-")
_TOP = 50
"""Lines in which the first ruler of a drawn table is searched."""
_AGREE = 0.95
"""Smallest share of lines with the same number of cells."""
_PREAMBLE = 20
_LONGEST_LINE = 4_000
_TOKEN = re.compile(r'"((?:[^"\\]|\\.|"")*)"(?=\s|$)|(\S+)')
_GAP = re.compile(r"\s{2,}|\t")
_ARFF = re.compile(r"(\s|%[^\n]*\n)*@relation\b", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""(?i)\s*@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s{]+))""")


def find_arff(text: str) -> Layout | None:
    """The format of Weka: names and types in `@attribute` lines, and rows below `@data`. None for other texts."""
    if _ARFF.match(text) is None:
        return None
    return Layout(
        "The file is in the ARFF format of Weka.",
        "names taken from its @attribute lines; columns judged by their values",
        ",",
        whole=_from_arff,
    )


def _from_arff(text: str) -> str:
    """An ARFF text as CSV with the same number of lines."""
    lines = text.split("\n")
    names: list[str] = []
    for number, line in enumerate(lines):
        attribute = _ATTRIBUTE.match(line)
        if attribute is not None:
            names.append(unescaped(attribute[1] or attribute[2] or attribute[3]))
        lines[number] = ""
        if re.match(r"\s*@data\b", line, re.IGNORECASE):
            lines[number] = ",".join('"' + name.replace('"', '""') + '"' for name in names)
            rows = ["" if row.lstrip().startswith("%") else row for row in lines[number + 1 :]]
            if any(row.lstrip().startswith("{") for row in rows):
                raise DataError("The ARFF file is sparse: its rows are in braces. Save it as CSV.")
            return "\n".join([*lines[: number + 1], requoted("\n".join(rows), ",")])
    return "\n".join(lines)


def find_drawn(text: str) -> Layout | None:
    """A table with bars between cells and ruler lines, as psql, mysql, Markdown and box drawing have it; None if it is none."""
    if "|" not in text and "│" not in text and "┃" not in text and "║" not in text:
        return None
    lines = [line.translate(_BOXES).rstrip() for line in text.split("\n", 600)[:500] if line.strip()]
    ruler = next((line for line in lines[:_TOP] if _is_ruler(line) and ("|" in line or "+" in line)), None)
    body = [line for line in lines if not (_is_ruler(line) or is_row_count(line.strip(" |")))]
    barred = [line.strip() for line in body if "|" in line]
    if not barred:
        return None
    outer = sum(line.startswith("|") and line.endswith("|") and len(line) > 1 for line in barred) >= _AGREE * len(
        barred
    )
    if len(barred) < (0.5 if ruler else _AGREE) * len(body) or (ruler is None and not (outer and len(barred) > 1)):
        return None
    width, count = Counter(len(_between_bars(line, outer)) for line in barred).most_common(1)[0]
    if width < 2 or count < _AGREE * len(barred):
        return None
    if ruler is not None and len(re.split(r"[|+]", ruler.strip().strip("|+"))) != width:
        return None
    known_ruler = (ruler or "").strip()

    def cells(line: str) -> list[str] | None:
        plain = line.translate(_BOXES).strip()
        if _is_ruler(plain) and ("+" in plain or plain == known_ruler):
            return []
        if outer and not plain.startswith("|"):
            return None
        found = _between_bars(plain, outer)
        return [] if all(re.fullmatch(r"…|\.{2,3}|·", cell) for cell in found) else found

    return Layout("The table is drawn with bars or ruler lines.", "read as the cells between the bars", "|", cells)


def _is_ruler(line: str) -> bool:
    return re.fullmatch(r"[\s|+:=-]+", line) is not None and _DASHES.search(line) is not None


def _between_bars(line: str, outer: bool) -> list[str]:
    inner = line.removeprefix("|").removesuffix("|") if outer else line
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def find_aligned(text: str, known: Known, wider_than: int) -> Layout | None:
    """A table whose columns are separated by spaces: words, texts two or more spaces apart, or columns at fixed places.

    Args:
        wider_than: number of columns that another reading has.
    """
    lines = [line.rstrip() for line in text.split("\n", 600)[:500]]
    lines = [line for line in lines if line.strip() and not is_row_count(line)]
    if len(lines) < 2 or lines[0].strip() in known or max(map(len, lines)) > _LONGEST_LINE:
        return None
    if (ruled := _ruled(lines)) is not None:
        return ruled
    gaps = _gaps(lines)
    gaps = gaps if len(gaps) >= wider_than else ()
    if (
        _by_width(lines, wider_than, lacking=0) is None
        and gaps
        and not any(" " in name for name in _placed(lines[0], gaps))
    ):
        return _aligned(lambda line: _placed(line, gaps))
    found = _by_width(lines, wider_than, lacking=0) or _by_width(lines, wider_than, lacking=1)
    if found is not None:
        split, width = found
        return _aligned(lambda line: _of_width(line, split, width))
    return _aligned(lambda line: _placed(line, gaps)) if gaps else None


def _by_width(lines: Sequence[str], wider_than: int, lacking: int) -> tuple[Callable[[str], list[str]], int] | None:
    """The split that gives most lines the same number of cells below a header that lacks so many, and that number."""
    for split in (_words, _texts):
        width = _common_width([split(line) for line in lines], lacking)
        if width > wider_than:
            return split, width
    return None


def _aligned(cells: Callable[[str], list[str] | None]) -> Layout:
    return Layout(
        "The columns are aligned with spaces.", "split at the spaces; give --delimiter if that is wrong", " ", cells
    )


def _of_width(line: str, split: Callable[[str], list[str]], width: int) -> list[str]:
    if is_row_count(line):
        return [line.strip()]
    cells = split(line)
    return cells[1:] if len(cells) == width + 1 and cells[0] == "#" else cells


def _words(line: str) -> list[str]:
    return [unescaped(word[1]) if word[2] is None else word[2] for word in _TOKEN.finditer(line.strip())]


def _texts(line: str) -> list[str]:
    return [cell.strip('"') if cell.count('"') == 2 else cell for cell in _GAP.split(line.strip())]


def _common_width(rows: Sequence[Sequence[str]], lacking: int) -> int:
    """The number of cells of most lines if the first of them, below a title, is a header that lacks so many names; else 0."""
    width = Counter(map(len, rows)).most_common(1)[0][0] if len(rows) > 3 else len(rows[-1])
    if rows[0][:1] == ["#"] and len(rows[0]) == width + 1:
        rows = [rows[0][1:], *rows[1:]]
    first = next((i for i, row in enumerate(rows[:_PREAMBLE]) if len(row) == width - lacking), None)
    if width < 2 + lacking or first is None or any(len(row) > max(1, width // 3) for row in rows[:first]):
        return 0
    below = rows[first + 1 :]
    fitting = [row for row in below if len(row) == width]
    if not fitting or len(fitting) < _AGREE * len(below):
        return 0
    if lacking and len({row[0] for row in fitting}) < len(fitting):
        return 0
    # Two words in every line may be a text; numbers are none.
    return 0 if width == 2 and not any(look.is_typed for look in looks_of(fitting, width)) else width


def _ruled(lines: Sequence[str]) -> Layout | None:
    """Columns below a line of dashes and spaces, as sqlcmd, SQL*Plus and sqlite3 print them."""
    at = next((i for i, line in enumerate(lines[:_PREAMBLE]) if re.fullmatch(r"\s*([-=]+\s+)+[-=]+", line)), None)
    if at is None or len(lines) < 3:
        return None
    spans = [match.span() for match in re.finditer(r"[-=]+", lines[at])]
    gaps = tuple((end, start) for (_, end), (start, _) in itertools.pairwise(spans))
    rows = [line for i, line in enumerate(lines) if i != at and not _is_dashes(line)]
    if sum(len(_placed(line, gaps)) == len(spans) for line in rows) < 0.8 * len(rows):
        return None
    return _aligned(lambda line: [] if _is_dashes(line) else _placed(line, gaps))


def _is_dashes(line: str) -> bool:
    return re.fullmatch(r"[\s=-]+", line) is not None and (_DASHES.search(line) is not None or line.strip(" ") == "-")


def _gaps(lines: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """The places that are blank in all lines, as (begin, end); none if they do not separate a cell of each column in most lines."""
    if any("\t" in line for line in lines):
        return ()
    width = max(map(len, lines))
    used = [False] * width
    for line in lines:
        for place, character in enumerate(line):
            used[place] = used[place] or character != " "
    text = "".join("x" if each else " " for each in used)
    gaps = tuple(match.span() for match in re.finditer(" +", text) if match.start() > 0)
    rows = [_placed(line, gaps) for line in lines]
    full = [sum(bool(row[index]) for row in rows if len(row) > index) for index in range(len(gaps) + 1)]
    if not gaps or not all(rows[0]) or min(full) < len(lines) / 5:
        return ()
    return gaps if any(look.is_typed for look in looks_of(rows[1:], len(gaps) + 1)) else ()


def _placed(line: str, gaps: Sequence[tuple[int, int]]) -> list[str]:
    """The cells between gaps; the whole line as one cell if it crosses them."""
    cells: list[str] = []
    start = 0
    for begin, end in gaps:
        blank = line.rfind(" ", begin, end) if len(line) > begin else begin
        if blank < 0:
            return [line.strip()]
        cells.append(line[start:blank].strip())
        start = blank
    return [*cells, line[start:].strip()] if not is_row_count(line) else [line.strip()]


def find_doubled(records: Sequence[Sequence[str]], text: str, delimiter: str) -> Layout | None:
    """Fields with two delimiters between them, in every line or in some; None if the empty fields may be missing cells."""
    header = [cell.strip() for cell in records[0]]
    if len(records) < 2 or not any("" in row[1:-1] for row in records):
        return None
    if len(header) > 2 and len(header) % 2 and all(bool(cell) == (i % 2 == 0) for i, cell in enumerate(header)):
        if all(len(row) == len(header) and not any(map(str.strip, row[1::2])) for row in records):
            return find_pairs(text, (2 * delimiter,))
        return None
    width = Counter(map(len, records)).most_common(1)[0][0]
    longer = [row for row in records if len(row) > width]
    filled = [sum(1 for cell in row if cell.strip()) for row in records]
    if not longer or any(count != width for count in filled):
        return None

    def cells(line: str) -> list[str]:
        try:
            found = next(csv.reader([line.replace("\r", " ")], delimiter=delimiter))
        except csv.Error:
            return [line]
        kept = [cell for cell in found if cell.strip()]
        return kept if len(found) > width and len(kept) == width else found

    return Layout("Some delimiters are doubled.", "read as one delimiter", delimiter, cells)


def find_pairs(text: str, delimiters: Sequence[str]) -> Layout | None:
    """Fields separated by two characters, such as `::`."""
    lines = [line for line in text.split("\n", 600)[:500] if line.strip() and not is_row_count(line)]
    for delimiter in delimiters if lines else ():
        counts = Counter(line.count(delimiter) for line in lines)
        count, n = counts.most_common(1)[0]
        if count and n >= _AGREE * len(lines):
            return Layout(
                f"Fields are separated by {delimiter!r}.",
                "split there",
                delimiter[0],
                lambda line, delimiter=delimiter: [cell.strip() for cell in line.split(delimiter)],
            )
    return None
