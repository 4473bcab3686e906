"""Ordered categories: common rating scales and ranges of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SCALES: tuple[tuple[str, ...], ...] = (
    ("lowest", "very low", "low", "medium", "high", "very high", "highest"),
    ("low", "moderate", "high"),
    ("low", "average", "high"),
    ("none", "mild", "moderate", "severe", "critical"),
    ("never", "rarely", "sometimes", "often", "usually", "always"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"),
    ("very poor", "poor", "fair", "average", "good", "very good", "premium", "excellent", "ideal"),
    ("po", "fa", "ta", "gd", "ex"),
    ("xxs", "xs", "s", "m", "l", "xl", "xxl", "xxxl"),
    ("tiny", "small", "medium", "large", "huge"),
    ("i3", "i2", "i1", "si2", "si1", "vs2", "vs1", "vvs2", "vvs1", "if", "fl"),
    ("bronze", "silver", "gold", "platinum", "diamond"),
    ("primary", "secondary", "tertiary"),
    ("first", "second", "third", "fourth", "fifth", "sixth", "seventh"),
    ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("freshman", "sophomore", "junior", "senior"),
)  # fmt: skip
_SCALES_WITH = {step: [scale for scale in _SCALES if step in scale] for scale in _SCALES for step in scale}
_OUTSIDE = frozenset({"unknown", "other", "undefined", "not known", "n/k", "refused", "don't know"})
_MIN_LEVELS, _MAX_LEVELS = 3, 60
_RANGE = re.compile(
    r"(?P<below><|≤|<=|under |below |less than |up to )?\s*(?P<above>>|≥|>=|over |above |more than )?\s*"
    r"(?P<low>\d[\d.]*)\s*(?:(?P<to>-|–|\.\.| to )\s*\d[\d.]*|(?P<plus>\+| and (?:over|above|more)))?\s*[a-z%$€]{0,6}"
)


def order_of(levels: Sequence[str]) -> tuple[str, ...]:
    """Sort levels that have a natural order, lowest first; empty if they have none.

    All levels must belong to one scale, or all must be numeric ranges. Levels such as "unknown" are omitted.
    """
    if not _MIN_LEVELS <= len(levels) <= _MAX_LEVELS:
        return ()
    lowest = levels[0].casefold()
    # Most columns of a wide table end here, which takes a tenth of the time.
    if lowest not in _SCALES_WITH and lowest not in _OUTSIDE and _RANGE.fullmatch(lowest.strip()) is None:
        return ()
    inside = [level for level in levels if level.casefold() not in _OUTSIDE]
    folded = {level.casefold(): level for level in inside}
    if len(folded) < max(_MIN_LEVELS, len(inside)):
        return ()
    for scale in _SCALES_WITH.get(next(iter(folded)), ()):
        if folded.keys() <= set(scale):
            return tuple(folded[step] for step in scale if step in folded)
    return _ranges(inside)


def _ranges(levels: Sequence[str]) -> tuple[str, ...]:
    keys: dict[tuple[float, int], str] = {}
    n_ranges = 0
    for level in levels:
        found = _RANGE.fullmatch(level.strip().casefold())
        if found is None:
            return ()
        try:
            low = float(found["low"])
        except ValueError:
            return ()
        keys[low, 1 if found["above"] or found["plus"] else -1 if found["below"] else 0] = level
        n_ranges += any(found[part] for part in ("below", "above", "to", "plus"))
    if len(keys) < len(levels) or n_ranges < 2:
        return ()
    return tuple(keys[key] for key in sorted(keys))
