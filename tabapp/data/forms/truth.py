"""Spellings of truth values."""

from __future__ import annotations

from collections.abc import Iterable

TRUE_SPELLINGS = frozenset({"1", "1.0", "true", "t", "yes", "y", "on"})
FALSE_SPELLINGS = frozenset({"0", "0.0", "false", "f", "no", "n", "off"})
_PAIRS = (
    {"1", "0"}, {"1.0", "0.0"}, {"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"}, {"on", "off"},
)  # fmt: skip


def are_truth_values(texts: Iterable[str]) -> bool:
    """Whether texts are spellings of one pair, such as yes and no, ignoring case."""
    return {text.casefold() for text in texts} in _PAIRS
