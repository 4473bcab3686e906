"""Columns that are mostly empty."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.schema import DataWarning, leave_out

_MOST = 0.5


@check(
    "missing",
    description="More than half of a column's cells are missing.",
    remedy="Leave the column out with --ignore if its gaps carry no information.",
    rank=50,
)
def missing(evidence: Evidence) -> Iterator[DataWarning]:
    """Features of which more than half of the cells are missing."""
    for column in evidence.judged_features:
        if column.overridden or column.kind in ("constant", "identifier"):
            continue
        if column.missing > _MOST * evidence.n_rows:
            message = f"{column.missing / evidence.n_rows:.0%} of the cells are missing."
            action = "kept; models treat missing as a value of its own"
            yield DataWarning(
                check="missing", column=column.name, message=message, action=action, remedies=(leave_out(column.name),)
            )
