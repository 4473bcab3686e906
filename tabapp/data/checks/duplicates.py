"""Columns and rows that occur more than once."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.duplicates import mistaken_copies
from tabapp.data.schema import DataWarning


@check(
    "duplicate_column",
    description="A column repeats another one cell by cell.",
    remedy="Nothing: the copy is left out.",
    rank=20,
)
def duplicate_column(evidence: Evidence) -> Iterator[DataWarning]:
    """Copies of a feature. The leak check reports copies of the target."""
    for name, original in evidence.copies.items():
        if original != evidence.target:
            message = f"It repeats the column {original!r} cell by cell."
            yield DataWarning(check="duplicate_column", column=name, message=message, action="left out")


@check(
    "duplicate_rows",
    description="Some rows are equal to another row in every column.",
    remedy="Remove copies that entered by mistake; keep different observations with equal values.",
    rank=100,
)
def duplicate_rows(evidence: Evidence) -> Iterator[DataWarning]:
    """Rows that repeat another row in every column."""
    n_rows = evidence.frame.height
    repeated = n_rows - evidence.frame.hash_rows().n_unique()
    if repeated == 0:
        return
    message = f"{repeated:,} of {n_rows:,} rows repeat another row in every column."
    is_class = evidence.goal.task != "regression"
    how = mistaken_copies(evidence.frame, evidence.frame[evidence.target] if is_class else None)
    if how is None:
        action = "kept; equal rows may land in different folds, as they would in new data"
    else:
        action = f"kept; equal rows always land in the same fold, because {how}"
    yield DataWarning(check="duplicate_rows", message=message, action=action)
