"""Spellings of boolean values."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.data.counts import Values
from tabapp.data.forms.truth import FALSE_SPELLINGS, TRUE_SPELLINGS, are_truth_values

_MAX_SPELLINGS = 6


def is_boolean(values: Values) -> bool:
    """Whether all values of a column are spellings of one pair, such as yes and no, ignoring case."""
    return values.n_unique <= _MAX_SPELLINGS and are_truth_values(map(str, values.uniques))


def false_and_true(levels: Sequence[str]) -> tuple[str, str]:
    """The two levels of a boolean column, false first. For unknown spellings, the alphabetically last one is true."""
    known = sorted(levels, key=lambda level: (_truth(level), level))
    return known[0], known[-1]


def _truth(level: str) -> int:
    """-1 for a spelling of false, 1 for one of true, 0 for any other."""
    folded = level.casefold()
    return (folded in TRUE_SPELLINGS) - (folded in FALSE_SPELLINGS)


def boolean_levels(values: Values) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The two values of a boolean column and their counts; spellings that differ only in case are merged into the most frequent."""
    spelling: dict[str, str] = {}
    counts: dict[str, int] = {}
    for text, count in zip(values.uniques.to_list(), values.counts.to_list(), strict=True):
        level = spelling.setdefault(text.casefold(), text)
        counts[level] = counts.get(level, 0) + count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(level for level, _ in ordered), tuple(count for _, count in ordered)
