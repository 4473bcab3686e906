"""What the fitted models of a leaderboard row report about themselves, as text for every view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

LONGEST = 400
"""Characters of a value."""
NAMES = {"parameters": "weights", "prompt_selection": "products combine", "refit": "trained again on all rows"}
"""Facts with another name for readers."""


def summary_rows(summary: object) -> list[tuple[str, str]]:
    """Each fact of a summary with its value. A bundle that others wrote may have anything in place of a summary."""
    if not isinstance(summary, Mapping):
        return []
    found = cast("Mapping[object, object]", summary)
    return [(NAMES.get(str(name), str(name).replace("_", " ")), value_text(value)) for name, value in found.items()]


def value_text(value: object) -> str:
    """A value in words: columns with their shares, lists separated by semicolons, numbers rounded."""
    text = _text(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _text(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value)
        return ", ".join(f"{name} {_text(each)}" for name, each in pairs.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = cast("Sequence[object]", value)
        mark = "; " if any(isinstance(each, Mapping) for each in items) else ", "
        return mark.join(_text(each) for each in items)
    return str(value)
