"""Spellings of a missing cell."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection

import polars as pl

from tabapp.data.schema import Column
from tabapp.data.small import FEW, WHITE_SPACE

MISSING = frozenset(
    {
        "", "?", "??", "na", "n/a", "n.a.", "#n/a", "#na", "#n/a n/a", "<na>", "nan", "-nan", "#nan", "nat", "null", "(null)",
        "<null>", "#null!", "nil", "none", "missing", "-", "--", "---", "—", "–", ".", "..", "...", "\\n", "1.#qnan", "-1.#qnan",
        "1.#ind", "-1.#ind", "#value!", "#ref!", "#div/0!",
    }
)  # fmt: skip
"""Spellings of a missing cell, in lower case and stripped of white space."""

_MOST_NAMED = 5
_LONGEST_SHOWN = 40


def stripped_cell(text: str) -> str:
    """A text as `strip` reads it, which may be empty."""
    text = text.strip(WHITE_SPACE)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def strip(texts: pl.Series) -> pl.Series:
    """Strip white space at both ends, including no-break spaces, and compose letters (NFC); empty texts become null."""
    if len(texts) <= FEW:
        cells: list[str | None] = texts.to_list()
        short = {cell: cell and (stripped_cell(cell) or None) for cell in dict.fromkeys(cells)}
        if all(cell == kept for cell, kept in short.items()):
            return texts
        return pl.Series(texts.name, [short[cell] for cell in cells], dtype=pl.String)
    stripped = texts.str.strip_chars()
    if (stripped.str.len_bytes() == texts.str.len_bytes()).all():
        # Nothing to strip: keep the original column instead of a copy, to save memory.
        stripped = texts
    if stripped.str.len_bytes().sum() != stripped.str.len_chars().sum():
        stripped = stripped.str.normalize("NFC")
    return stripped.set(stripped == "", None) if (stripped == "").any() else stripped


def counted_texts(texts: pl.Series, most: int = _MOST_NAMED) -> str:
    """The most frequent of stripped texts with their counts, such as "6 'NA', 2 '?'"; empty cells are left out."""
    found = Counter[str](texts.drop_nulls().to_list())
    words = [f"{count:,} {show(text)}" for text, count in found.most_common(most)]
    more = [f"{len(found) - most:,} other texts"] if len(found) > most else []
    return ", ".join([*words, *more])


def show(value: object) -> str:
    """A value of a cell in quotes, shortened."""
    text = str(value)
    return repr(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…")


def missing_cells(texts: pl.Series, column: Column) -> pl.Series:
    """Which stripped texts are missing cells of a column: spellings that it knows as such, and the usual ones that are none of its
    values."""
    kept = (*column.kept_spellings, *(level for level in column.levels if level.lower() in MISSING))
    return is_missing(texts, kept, column.missing_spellings)


def is_missing(texts: pl.Series, kept: Collection[str] = (), spellings: Collection[str] = ()) -> pl.Series:
    """Which stripped texts mean a missing cell: `spellings`, and the usual ones except those in `kept`."""
    if len(texts) <= FEW:
        cells: list[str | None] = texts.to_list()
        values, missing = {*kept} - {*spellings}, {*spellings}
        gone = {
            text
            for text in dict.fromkeys(cells)
            if text is None or text in missing or (text.lower() in MISSING and text not in values)
        }
        return pl.Series(texts.name, [text in gone for text in cells], dtype=pl.Boolean)
    known = texts.str.to_lowercase().is_in(list(MISSING))
    if kept:
        known = known & ~texts.is_in(list(kept))
    if spellings:
        known = known | texts.is_in(list(spellings))
    return known.fill_null(True)
