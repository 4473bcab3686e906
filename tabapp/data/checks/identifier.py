"""Columns that name rows instead of describing them."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.kinds.names import looks_like_id
from tabapp.data.schema import Column, DataWarning, as_kind, leave_out
from tabapp.data.small import contains
from tabapp.errors import option

_MOSTLY_DISTINCT = 0.5
_FEWEST_VALUES = 50


@check(
    "identifier",
    description="A column identifies rows, or nearly does: an ID, a row number, a code, a name.",
    remedy="If the column is an identifier, do nothing. Otherwise, use --kind COLUMN=numeric or --kind COLUMN=categorical.",
    rank=40,
)
def identifier(evidence: Evidence) -> Iterator[DataWarning]:
    """Columns that were judged identifiers, and features that nearly are."""
    for column in evidence.columns:
        if (
            column.marks_of is not None
            or column.role not in ("feature", "ignore")
            or column.overridden
            or column.name in evidence.copies
        ):
            continue
        if column.kind == "identifier":
            digits = contains(evidence.values[column.name].uniques, r"^\d+$").all()
            kind = "numeric" if digits else "categorical"
            action = f"left out; {option('kind', {column.name: kind})} keeps it"
            yield DataWarning(
                check="identifier",
                column=column.name,
                message=column.reason,
                action=action,
                remedies=(as_kind(column.name, kind),),
            )
        elif _nearly_identifies(column, evidence.n_rows):
            present = evidence.n_rows - column.missing
            message = f"{column.unique:,} of {present:,} values are distinct, so the column nearly identifies the rows."
            action = f"kept as {column.kind}; {option('ignore', column.name)} leaves it out"
            yield DataWarning(
                check="identifier",
                column=column.name,
                message=message,
                action=action,
                remedies=(leave_out(column.name),),
            )


def _nearly_identifies(column: Column, n_rows: int) -> bool:
    """Categories that are mostly distinct, and texts that are all distinct and named like an ID or a name.

    Few values are no evidence: a column that is mostly missing does not identify rows.
    """
    present = n_rows - column.missing
    if column.role != "feature" or present < _FEWEST_VALUES:
        return False
    if column.kind == "text":
        return column.unique == present and (looks_like_id(column.name) or column.name.casefold().endswith("name"))
    return column.kind == "categorical" and column.unique > _MOSTLY_DISTINCT * present and present > 0.5 * n_rows
