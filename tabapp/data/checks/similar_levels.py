"""Levels that probably mean the same: they differ only in case, white space, hyphens or a dot at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.forms.missing import show
from tabapp.data.schema import DataWarning

_SHOWN = 3
_BETWEEN_WORDS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")


@check(
    "similar_levels",
    description="Classes or categories differ only in case, white space, hyphens, underscores or a dot at the end.",
    remedy="Give them one spelling in the file if they mean the same.",
    rank=17,
)
def similar_levels(evidence: Evidence) -> Iterator[DataWarning]:
    """Different spellings of the same class of the target, or of the same category of a feature."""
    goal = evidence.goal
    if goal.task != "regression":
        yield from _warnings(evidence.target, goal.classes, goal.counts, "classes")
    for column in evidence.judged_features:
        if column.kind == "categorical":
            values = evidence.values[column.name]
            yield from _warnings(column.name, list(values.distinct), values.count_array.tolist(), "levels")


def _warnings(name: str, levels: Sequence[str], counts: Sequence[int], what: str) -> Iterator[DataWarning]:
    alike: dict[str, list[tuple[str, int]]] = {}
    for level, count in zip(levels, counts, strict=True):
        alike.setdefault(_folded(level), []).append((level, count))
    if len(alike) == len(levels):
        return
    groups = [group for group in alike.values() if len(group) > 1]
    first = max(groups, key=lambda group: sum(count for _, count in group))
    shown = ", ".join(f"{show(level)} ({count:,})" for level, count in first[:_SHOWN])
    some = shown + (" …" if len(first) > _SHOWN else "")
    n_alike = sum(map(len, groups))
    message = f"{n_alike:,} of {len(levels):,} {what} differ from another only in case, spaces or punctuation, such as {some}."
    action = f"kept as different {what}; give them one spelling in the file if they mean the same"
    yield DataWarning(check="similar_levels", column=name, message=message, action=action)


def _folded(level: str) -> str:
    return _BETWEEN_WORDS.sub(" ", level.casefold()).rstrip(". ")
