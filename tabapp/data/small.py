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

FEW = 5_000
"""Largest length of a Series for which one pass in Python takes less time than the several queries of a longer one."""

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What polars strips; Python alone would strip U+001C to U+001F, too."""

_WORD = re.compile(f"[^{WHITE_SPACE}]+")


@cache
def _compiled(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern).search


def contains(texts: pl.Series | list[str], pattern: str) -> npt.NDArray[np.bool_]:
    """Which texts contain a match of a regular expression; False for null."""
    if isinstance(texts, pl.Series) and len(texts) > SMALL:
        return texts.str.contains(pattern).fill_null(False).to_numpy()
    search = _compiled(pattern)
    cells: list[str | None] = texts if isinstance(texts, list) else texts.to_list()  # pyright: ignore[reportAssignmentType]
    return np.array([text is not None and search(text) is not None for text in cells], dtype=np.bool_)


def all_contain(texts: pl.Series | list[str], pattern: str) -> bool:
    """Whether all texts, none of which is null, contain a match of a regular expression."""
    if isinstance(texts, pl.Series) and len(texts) > SMALL:
        return bool(texts.str.contains(pattern).all())
    return all(map(_compiled(pattern), _listed(texts)))


def any_contains(texts: pl.Series | list[str], pattern: str) -> bool:
    """Whether one of the texts, none of which is null, contains a match of a regular expression."""
    if isinstance(texts, pl.Series) and len(texts) > SMALL:
        return bool(texts.str.contains(pattern).any())
    return any(map(_compiled(pattern), _listed(texts)))


def words_and_characters(texts: pl.Series | list[str]) -> tuple[float, float]:
    """Mean numbers of words and of characters of the first 5,000 texts, none of which is null."""
    if isinstance(texts, pl.Series) and len(texts) > SMALL:
        sample = texts.head(5000)
        return (
            float(sample.str.count_matches(r"\S+").to_numpy().mean()),
            float(sample.str.len_chars().to_numpy().mean()),
        )
    cells = _listed(texts)
    return sum(len(_WORD.findall(cell)) for cell in cells) / len(cells), sum(map(len, cells)) / len(cells)


def first(texts: pl.Series | list[str], count: int) -> list[str]:
    """The first of some texts without nulls."""
    return _listed(texts if len(texts) <= count else texts[:count])


def _listed(texts: pl.Series | list[str]) -> list[str]:
    return texts if isinstance(texts, list) else texts.to_list()
