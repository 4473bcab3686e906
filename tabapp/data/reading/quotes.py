"""Texts in quotes by other rules than CSV: in single quotes, after spaces, or with quotes after a backslash."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial

from tabapp.data.reading.known import Known
from tabapp.data.reading.layout import Layout

_TOP = 50
"""Quoted texts of which the character before is looked at."""
_QUOTED = re.compile(r"'(?<=[\n,;\t| ]')((?:[^'\n\\]|\\.|'')*)'(?=[ ]*[,;\t|\r\n])")
_ESCAPED = re.compile(r"\\(.)|''|\"\"", re.DOTALL)


def find_single_quotes(text: str, delimiters: Sequence[str], known: Known) -> Layout | None:
    """Texts in single quotes, as ARFF tools write them; None unless a quoted text needs its quotes, or is known without them."""
    needed = [match for match in _QUOTED.finditer(text) if any(c in " ,;\t|\\'" for c in match[1])]
    if len(needed) < (1 if known else 2):
        return None
    before = {text[: match.start()].rstrip(" ")[-1:] for match in needed[:_TOP]}
    best: tuple[tuple[float, int], str] | None = None
    for delimiter in delimiters:
        if not before & {delimiter, "\n"}:
            continue
        mark = "\2"
        try:
            rows = list(csv.reader(io.StringIO(requoted(text, delimiter, mark), newline=""), delimiter=delimiter))
        except csv.Error:
            # A text of more than 128 KiB.
            continue
        rows = [row for row in rows if any(cell.strip() for cell in row)]
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        if width < 2 or not _are_quoted([row for row in rows[1:] if len(row) == width], delimiter, mark, known):
            continue
        rank = (count / len(rows), width)
        if best is None or rank > best[0]:
            best = rank, delimiter
    if best is None:
        return None
    delimiter = best[1]
    return Layout(
        "Texts are in single quotes.",
        "quotes removed",
        delimiter,
        whole=lambda text: requoted(text, delimiter),
        delimiter=delimiter,
    )


def _are_quoted(rows: Sequence[Sequence[str]], delimiter: str, mark: str, known: Known) -> bool:
    needed = 0
    for column in zip(*rows, strict=True):
        quoted = [cell[1:] for cell in column if cell.startswith(mark)]
        if not quoted:
            continue
        if any(" " in cell.strip() for cell in column if not cell.startswith(mark)):
            return False
        if any(f"'{cell}'" in known.texts for cell in quoted):
            return False
        needed += sum(any(c in " '\\\n" or c == delimiter for c in cell) for cell in quoted)
    return needed > (0 if known else 1)


def requoted(text: str, delimiter: str, mark: str = "") -> str:
    """A text with double quotes where it has single ones."""
    d = re.escape(delimiter)
    fields = re.compile(
        rf"""[^\S\n{d}]*(?:("(?:[^"]|"")*")|'((?:[^'\\]|\\.|'')*)'(?=\s*(?:{d}|\n|\Z))|([^{d}\n]*))([^\S\n{d}]*(?:{d}|\n|\Z)|)""",
        re.DOTALL,
    )

    def replace(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        content = mark + unescaped(match[2])
        if mark or any(c in '"\n\r' or c == delimiter for c in content):
            content = '"' + content.replace('"', '""') + '"'
        return content + match[4]

    return fields.sub(replace, text)


def unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: match[1] or match[0][0], text)


def find_loose_quotes(text: str, delimiters: Sequence[str], known: Known) -> Layout | None:
    """Texts in double quotes against RFC 4180: after spaces, or with quotes after a backslash; None if there are none."""
    fewest = 1 if known else 2
    for delimiter in delimiters if '"' in text else ():
        d = re.escape(delimiter)
        n_spaced = len(re.findall(rf'(?:^|{d})[^\S\n{d}]+"', text, re.MULTILINE))
        n_escaped = len(re.findall(rf'\\"(?![^\S\n{d}]*(?:{d}|\n|\Z))', text))
        rewrite = partial(_with_tight_quotes, delimiter=delimiter, escaped=n_escaped >= fewest)
        if max(n_spaced, n_escaped) < fewest or not _splits_better(text, rewrite(text), delimiter):
            continue
        found = "Quotes in texts follow a backslash." if n_escaped >= fewest else "Texts in quotes are after spaces."
        return Layout(found, "read as quotes of CSV", delimiter, whole=rewrite, delimiter=delimiter)
    return None


def _with_tight_quotes(text: str, delimiter: str, *, escaped: bool) -> str:
    d = re.escape(delimiter)
    content = r'(?:[^"\\]|\\.|"")*' if escaped else r'(?:[^"]|"")*'
    fields = re.compile(rf'(?<![^\n{d}])[^\S\n{d}]*"({content})"(?=[^\S\n{d}]*(?:{d}|\r?\n|\Z))', re.DOTALL)

    def replace(match: re.Match[str]) -> str:
        inner = re.sub(r'\\(["\\])', lambda pair: pair[1] * (1 + (pair[1] == '"')), match[1]) if escaped else match[1]
        return f'"{inner}"'

    return fields.sub(replace, text)


def _splits_better(text: str, rewritten: str, delimiter: str) -> bool:
    """Whether more lines have the same number of fields, or as many lines and no field begins with a quote or has one after a
    backslash."""

    def rank(each: str) -> tuple[float, float]:
        try:
            rows = [
                row for row in csv.reader(io.StringIO(each, newline=""), delimiter=delimiter) if "".join(row).strip()
            ]
        except csv.Error:
            return 0.0, 0.0
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        loose = sum(cell.lstrip().startswith('"') or "\\" in cell for row in rows for cell in row)
        return (count / len(rows) if width > 1 else 0.0), -loose

    return rank(rewritten) > rank(text)
