"""Columns with a single value."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.schema import DataWarning


@check(
    "constant",
    description="Every row has the same value, or the column is empty.",
    remedy="Nothing: a constant column is left out, because models cannot learn from it.",
    rank=30,
)
def constant(evidence: Evidence) -> Iterator[DataWarning]:
    """Columns that were judged constant, unless the user gave their role."""
    for column in evidence.columns:
        if column.kind != "constant" or column.role not in ("feature", "ignore") or column.overridden:
            continue
        if column.name not in evidence.copies:
            yield DataWarning(check="constant", column=column.name, message=column.reason, action="left out")
