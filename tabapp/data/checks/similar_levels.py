"""Levels that probably mean the same: they differ only in case, white space, hyphens or a dot at the end."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.forms.missing import show
from tabapp.data.schema import DataWarning

_SHOWN = 3


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
        yield from _warnings(evidence.target, pl.Series(goal.classes), pl.Series(goal.counts), "classes")
    for column in evidence.judged_features:
        if column.kind == "categorical":
            values = evidence.values[column.name]
            yield from _warnings(column.name, values.uniques, values.counts, "levels")


def _warnings(name: str, levels: pl.Series, counts: pl.Series, what: str) -> Iterator[DataWarning]:
    table = pl.DataFrame({"level": levels, "count": counts})
    folded = pl.col("level").str.to_lowercase().str.replace_all(r"(\w)[\s_-]+(\w)", "$1 $2").str.strip_chars_end(". ")
    groups = table.group_by(folded.alias("same"), maintain_order=True).agg("level", "count")
    groups = groups.filter(pl.col("level").list.len() > 1)
    if groups.is_empty():
        return
    first = groups.sort(pl.col("count").list.sum(), descending=True, maintain_order=True)
    shown = [f"{show(level)} ({count:,})" for level, count in zip(first["level"][0], first["count"][0], strict=True)]
    some = ", ".join(shown[:_SHOWN]) + (" …" if len(shown) > _SHOWN else "")
    n_alike = int(groups["level"].list.len().sum())
    message = f"{n_alike:,} of {len(levels):,} {what} differ from another only in case, spaces or punctuation, such as {some}."
    action = f"kept as different {what}; give them one spelling in the file if they mean the same"
    yield DataWarning(check="similar_levels", column=name, message=message, action=action)
