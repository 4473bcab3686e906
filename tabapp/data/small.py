"""String operations on short columns in plain Python.

Each operation on a Series is a query of polars with a fixed cost of about 0.2 ms. A table of 50,000 columns would spend minutes on
the 30 operations that judge a column, so columns of at most `SMALL` rows or distinct values are processed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl

SMALL = 1_000
"""Largest length of a Series for which Python takes less time than a query."""

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What polars strips; Python alone would strip U+001C to U+001F, too."""

_WORD = re.compile(f"[^{WHITE_SPACE}]+")


@cache
def _compiled(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern).search


def contains(texts: pl.Series, pattern: str) -> npt.NDArray[np.bool_]:
    """Which texts contain a match of a regular expression; False for null."""
    if len(texts) > SMALL:
        return texts.str.contains(pattern).fill_null(False).to_numpy()
    search = _compiled(pattern)
    return np.array([text is not None and search(text) is not None for text in texts.to_list()], dtype=np.bool_)


def words_and_characters(texts: pl.Series) -> tuple[float, float]:
    """Mean numbers of words and of characters of the first 5,000 texts, none of which is null."""
    if len(texts) > SMALL:
        sample = texts.head(5000)
        return (
            float(sample.str.count_matches(r"\S+").to_numpy().mean()),
            float(sample.str.len_chars().to_numpy().mean()),
        )
    cells: list[str] = texts.to_list()
    return sum(len(_WORD.findall(cell)) for cell in cells) / len(cells), sum(map(len, cells)) / len(cells)


def first(texts: pl.Series, count: int) -> list[str]:
    """The first texts of a Series without nulls."""
    return (texts if len(texts) <= count else texts.head(count)).to_list()
