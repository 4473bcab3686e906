"""Check a schema that was read from a file, whose author chose its values."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

from tabapp.data.forms.moments import MOST_OPEN_ENDS, is_date_format
from tabapp.data.forms.numbers import is_number_format
from tabapp.data.schema import Column, Schema
from tabapp.data.target import format_of

_SHOWN = 80
_UNIQUE_ROLES = ("group", "time", "weight")


def schema_problem(schema: Schema) -> str | None:
    """What `infer_schema` cannot have inferred, as the end of a sentence; None if there is no contradiction."""
    roles = Counter(column.role for column in schema.columns)
    if [column.name for column in schema.columns if column.role == "target"] != [schema.target]:
        return "the roles in its schema do not fit the target"
    if any(roles[role] > 1 for role in _UNIQUE_ROLES):
        return "its schema has more than one column of groups, times or weights"
    if min(schema.rows, schema.rows_without_target) < 0:
        return "its schema has a negative number of rows"
    for column in schema.columns:
        if problem := _column_problem(column) or _companion_problem(column, schema):
            return f"the column {column.name[:_SHOWN]!r} of its schema has {problem}"
    if len(schema.companions) < sum(column.marks_of is not None for column in schema.columns):
        return "its schema has two companions of one column"
    return None


def _companion_problem(column: Column, schema: Schema) -> str | None:
    if column.marks_of is None:
        return None
    features = {each.name for each in schema.inputs if each.kind in ("numeric", "datetime")}
    return None if column.kind == "categorical" and column.marks_of in features else "marks of no feature with marks"


def _column_problem(column: Column) -> str | None:
    if not is_number_format(format_of(column)):
        return "an unknown format of numbers"
    if column.kind == "datetime" and column.datetime_format is None:
        return "no format of dates"
    if column.datetime_format is not None and not is_date_format(column.datetime_format):
        return "an unknown format of dates"
    if len(column.open_ends) > MOST_OPEN_ENDS:
        return "too many open ends"
    if len(column.levels) != len(column.level_counts) or len(set(column.levels)) < len(column.levels):
        return "levels that are not distinct or do not fit their counts"
    if not set(column.order) <= set(column.levels) or len(set(column.order)) < len(column.order):
        return "an order of other levels"
    if min(column.missing, column.unique, *column.level_counts, *column.histogram) < 0 or not 0 <= column.support <= 1:
        return "a count or share out of range"
    low, high = column.low or 0.0, column.high or 0.0
    if (column.low is None) != (column.high is None) or not -math.inf < low <= high < math.inf:
        return "no valid range"
    ordered = (low, *column.quartiles, high)
    if len(column.quartiles) not in (0, 3) or not all(a <= b for a, b in pairwise(ordered)):
        return "no valid quartiles"
    return None
