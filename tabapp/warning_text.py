"""Warnings about data in words: every view says a warning in the same sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

MOST_LINES = 10
"""Sentences that a run prints on stderr; `tabapp report` lists the others."""
_MOST_ALONE = 3
"""Columns with the same problem that get a sentence each."""
_MOST_NAMED = 5


class Warned(Protocol):
    """A warning about data: `DataWarning` of a schema, or `WarningView` of an event."""

    @property
    def check(self) -> str: ...
    @property
    def column(self) -> str | None: ...
    @property
    def message(self) -> str: ...
    @property
    def action(self) -> str: ...


WarnedT = TypeVar("WarnedT", bound=Warned)


def parts(warning: Warned) -> tuple[str, str, str]:
    """The column, unless the message names it; what was found; and what is done about it, with the option that changes that."""
    named = f"{warning.column}: " if warning.column and repr(warning.column) not in warning.message else ""
    return named, warning.message.rstrip("."), f" → {warning.action.rstrip('.')}" if warning.action else ""


def sentence(warning: Warned) -> str:
    """A warning as one sentence without its full stop."""
    return "".join(parts(warning))


def sentences(warnings: Iterable[Warned]) -> list[str]:
    """Warnings in their order, as `sentences_of_group` says them."""
    return [text for group in grouped(warnings) for text in sentences_of_group(group)]


def sentences_of_group(group: Sequence[Warned]) -> list[str]:
    """Warnings of one group of `grouped`: a sentence each, or one for more than `_MOST_ALONE` columns."""
    if len(group) <= _MOST_ALONE:
        return list(map(sentence, group))
    first = group[0]
    action = f" → {general_action(first)}" if first.action else ""
    names = listed([str(warning.column) for warning in group])
    return [
        f"{len(group):,} columns ({names}), such as {first.column}: {first.message.rstrip('.')}{action.rstrip('.')}"
    ]


def grouped(warnings: Iterable[WarnedT]) -> list[list[WarnedT]]:
    """Warnings of the same check that have the same remedy for different columns, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[WarnedT]] = {}
    for number, warning in enumerate(warnings):
        key = (warning.check, general_action(warning)) if warning.column is not None else (number,)
        groups.setdefault(key, []).append(warning)
    return list(groups.values())


def general_action(warning: Warned) -> str:
    """The action of a warning with COLUMN in place of its column in options."""
    if warning.column is None:
        return warning.action
    # As `tabapp.errors.option` spells options: --ignore 'a b', --kind 'a b=numeric', ignore='a b', kind={'a b': 'numeric'}.
    column = re.escape(warning.column)
    return re.sub(rf"(--[a-z-]+ '?|\b[a-z_]+=\{{?')({column})(?=[='\s;,.]|$)", r"\1COLUMN", warning.action)


def listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """The first names of a list, and the number of the others."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def first_lines(lines: Sequence[str], rest: str) -> list[str]:
    """At most `MOST_LINES` lines, and one that says how many more there are.

    Args:
        rest: what shows the others.
    """
    if len(lines) <= MOST_LINES:
        return list(lines)
    return [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES:,} more; {rest}"]
