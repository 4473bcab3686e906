"""A table of text that views and reports show alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DiagnosisTable:
    """A title, sentences on the result, and a table; columns of numbers are in `right`.

    `shades` are, by row, how strongly a page shades the cells after the first, from 0 to 1; empty for none.
    """

    title: str
    sentences: tuple[str, ...]
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    right: tuple[int, ...] = ()
    shades: tuple[tuple[float, ...], ...] = ()
