"""Entities with several rows, such as patients with several visits."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.kinds.names import names_entity
from tabapp.data.schema import Column, DataWarning, Remedy
from tabapp.data.small import contains
from tabapp.errors import option

_FEWEST_ENTITIES = 20
_ROWS_PER_ENTITY = 1.5
_SMALLEST_SHARE = 0.001


@check(
    "group",
    description="A column names entities, such as patients or customers, that have several rows each.",
    remedy="Use --group COLUMN if predictions are for new entities; no entity is then in two folds.",
    rank=80,
)
def group(evidence: Evidence) -> Iterator[DataWarning]:
    """Columns of entities. A random split trains on some rows of an entity and scores on the others, which is optimistic."""
    if any(column.role == "group" for column in evidence.columns):
        return
    for column in evidence.judged_features:
        present = evidence.n_rows - column.missing
        several = _FEWEST_ENTITIES <= column.unique <= present / _ROWS_PER_ENTITY
        if several and column.unique >= _SMALLEST_SHARE * evidence.n_rows and _holds_entities(column, evidence):
            message = f"Each of the {column.unique:,} values has {present / column.unique:.1f} rows on average."
            as_group = Remedy(label="keep its rows in one fold", option="group", value=column.name)
            action = f"kept; if you predict for new ones, validate on new ones with {option('group', column.name)}"
            yield DataWarning(check="group", column=column.name, message=message, action=action, remedies=(as_group,))


def _holds_entities(column: Column, evidence: Evidence) -> bool:
    """Whether name and values are those of entities: texts or whole numbers, never fractions, shares or amounts with a unit."""
    if not names_entity(column.name):
        return False
    if column.kind != "numeric":
        return column.kind in ("categorical", "identifier")
    return column.unit is None and bool(contains(evidence.values[column.name].uniques, r"^\d+$").all())
