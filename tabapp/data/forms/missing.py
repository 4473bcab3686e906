"""Spellings of a missing cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import polars as pl

from tabapp.data.small import FEW, WHITE_SPACE

MISSING = frozenset(
    {
        "", "?", "??", "na", "n/a", "n.a.", "#n/a", "#na", "#n/a n/a", "<na>", "nan", "-nan", "#nan", "nat", "null", "(null)",
        "<null>", "#null!", "nil", "none", "missing", "-", "--", "---", "—", "–", ".", "..", "...", "\\n", "1.#qnan", "-1.#qnan",
        "1.#ind", "-1.#ind", "#value!", "#ref!", "#div/0!",
    }
)  # fmt: skip
"""Spellings of a missing cell, in lower case and stripped of white space."""

DOUBTFUL_MISSING = frozenset({"none", "nil", "missing", "-", "--", "---", "—", "–", ".", "..", "..."})
"""Spellings that are often labels in a target of classes: "none", or "-" next to "+"."""


_MOST_NAMED = 5
_LONGEST_SHOWN = 40


def strip(texts: pl.Series) -> pl.Series:
    """Strip white space at both ends, including no-break spaces; empty texts become null."""
    if len(texts) <= FEW:
        cells: list[str | None] = texts.to_list()
        short = {cell: cell and (cell.strip(WHITE_SPACE) or None) for cell in dict.fromkeys(cells)}
        if all(cell == kept for cell, kept in short.items()):
            return texts
        return pl.Series(texts.name, [short[cell] for cell in cells], dtype=pl.String)
    stripped = texts.str.strip_chars()
    if (stripped.str.len_bytes() == texts.str.len_bytes()).all():
        # Nothing to strip: keep the original column instead of a copy, to save memory.
        stripped = texts
    return stripped.set(stripped == "", None) if (stripped == "").any() else stripped


def counted_texts(texts: pl.Series, most: int = _MOST_NAMED) -> str:
    """The most frequent of stripped texts with their counts, such as "60 empty, 6 'NA'"; null is an empty cell."""
    found = Counter[str | None](texts.to_list())
    words = [f"{count:,} {'empty' if text is None else show(text)}" for text, count in found.most_common(most)]
    more = [f"{len(found) - most:,} other texts"] if len(found) > most else []
    return ", ".join([*words, *more])


def show(value: object) -> str:
    """A value of a cell in quotes, shortened."""
    text = str(value)
    return repr(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…")


def is_missing(texts: pl.Series, levels: Collection[str], spellings: Collection[str]) -> pl.Series:
    """Which stripped texts mean a missing cell: known spellings that are not levels of the column, and `spellings`."""
    if len(texts) <= FEW:
        cells: list[str | None] = texts.to_list()
        values, missing = {*levels} - {*spellings}, {*spellings}
        gone = {
            text
            for text in dict.fromkeys(cells)
            if text is None or text in missing or (text.lower() in MISSING and text not in values)
        }
        return pl.Series(texts.name, [text in gone for text in cells], dtype=pl.Boolean)
    known = texts.str.to_lowercase().is_in(list(MISSING))
    doubtful = [level for level in levels if level.casefold() in MISSING]
    if doubtful:
        known = known & ~texts.is_in(doubtful)
    if spellings:
        known = known | texts.is_in(list(spellings))
    return known.fill_null(True)
