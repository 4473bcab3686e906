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
_OUTSIDE = frozenset(
    {
        "unknown",
        "other",
        "undefined",
        "not known",
        "n/k",
        "refused",
        "don't know",
        "prefer not to say",
        "prefer not to answer",
    }
)
_MIN_LEVELS, _MAX_LEVELS = 3, 60
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?"
_RANGE = re.compile(
    rf"""(?x:
        (?P<below> < | ≤ | <= | (?:under|below|less\ than|fewer\ than|younger\ than|up\ to|at\ most)\  )? \s*
        (?P<above> > | ≥ | >= | (?:over|above|more\ than|older\ than|at\ least)\  )? \s*
        [$€£]?\s? (?P<digits> {_DIGITS} ) (?: \s?(?P<power>[kmb])(?![a-z]) )?
        (?: [\s-]? (?P<unit> (?!(?:or|and|to)\b)[a-z%$€]{{1,9}} | out\ of\ \d+(?:\ [a-z]+)? ) )?
        (?: (?P<to> \s*(?:-|–|\.\.|to\ )\s* ) [$€£]?\s?{_DIGITS}(?:\s?[kmb](?![a-z]))? )?
        (?: (?P<plus> \s*\+ | \ (?:and|or)\ (?:over|above|more|older|up|greater) ) |
            (?P<minus> \ (?:and|or)\ (?:under|below|less|fewer|younger) ) )?
        \s* [a-z%$€]{{0,9}} (?:\ old)?
    )"""
)
_NONE = re.compile(r"(?:non|no|zero|without|none)(?:[\s-]([a-z]{2,}))?")
"""Before a word, or alone: the step below "1 stop"."""
_POWERS = {None: 1.0, "k": 1e3, "m": 1e6, "b": 1e9}
_ORDINALS = frozenset({"st", "nd", "rd", "th"})


def order_of(levels: Sequence[str]) -> tuple[str, ...]:
    """Sort levels that have a natural order, lowest first; empty if they have none.

    All levels must belong to one scale, or all must be ranges of numbers, or numbers with the same word after them. Levels such as
    "unknown" are omitted.
    """
    if not _MIN_LEVELS <= len(levels) <= _MAX_LEVELS:
        return ()
    lowest = levels[0].casefold()
    # Most columns of a wide table end here, which takes a tenth of the time.
    if (
        lowest not in _SCALES_WITH
        and lowest not in _OUTSIDE
        and not any(form.fullmatch(lowest.strip()) for form in (_RANGE, _NONE))
    ):
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
    units: set[str] = set()
    n_ranges = n_open = 0
    for level in levels:
        text = level.strip().casefold()
        if none := _NONE.fullmatch(text):
            keys[0.0, 0] = level
            units |= {none[1].removesuffix("s")} if none[1] else set()
            continue
        found = _RANGE.fullmatch(text)
        if found is None:
            return ()
        low = float(found["digits"].replace(",", "")) * _POWERS[found["power"]]
        is_open, is_below = found["above"] or found["plus"], found["below"] or found["minus"]
        keys[low, 1 if is_open else -1 if is_below else 0] = level
        n_open += bool(is_open or is_below)
        n_ranges += bool(is_open or is_below or found["to"])
        units.add("th" if found["unit"] in _ORDINALS else (found["unit"] or "").removesuffix("s"))
    are_alike = len(units) == 1 and (n_open > 0 or "" not in units)
    if len(keys) < len(levels) or (n_ranges < 2 and not are_alike):
        return ()
    return tuple(keys[key] for key in sorted(keys))
