"""Other texts of the same cells: what pandas and databases make of the columns of a training file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tabapp.data.forms.missing import MISSING
from tabapp.data.kinds.booleans import FALSE_SPELLINGS, TRUE_SPELLINGS, false_and_true
from tabapp.data.schema import Column

Value = TypeVar("Value")

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_OF_PANDAS = ("nan", "NaN", "None", "<NA>", "NaT")
"""Texts of missing cells after `astype(str)`."""


def with_other_texts(values: Mapping[str, Value], column: Column) -> dict[str, Value]:
    """The values by level, also under the other texts that tabapp takes for the level: true and 1 for True, and 205.0 for 205,
    which pandas has where a column of whole numbers has a gap."""
    found = dict(values)
    if column.kind == "boolean" and len(column.levels) == 2:
        false, true = false_and_true(column.levels)
        for level, spellings in ((false, FALSE_SPELLINGS), (true, TRUE_SPELLINGS)):
            for text in sorted(spellings | {level.casefold()}):
                for other in (text, text.capitalize(), text.upper()):
                    if level in values:
                        found.setdefault(other, values[level])
    for level, value in values.items():
        if _WHOLE.fullmatch(level):
            found.setdefault(f"{level}.0", value)
    return found


def booleans_of_databases(levels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The texts of true and false that databases compare with truth values and with 1 and 0, by level; empty for other levels."""
    texts = {"true": ("True", "true", "1"), "false": ("False", "false", "0")}
    return {level: texts[level.casefold()] for level in levels} if {*map(str.casefold, levels)} == {*texts} else {}


def missing_texts(column: Column) -> tuple[str, ...]:
    """The texts of a missing cell of a column, which no level has."""
    spellings = ("", *column.missing_spellings, *(text for text in _OF_PANDAS if text.lower() in MISSING))
    return tuple(spelling for spelling in dict.fromkeys(spellings) if spelling not in column.levels)
