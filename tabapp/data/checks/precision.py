"""Integers with more digits than a number holds exactly."""

from __future__ import annotations

from collections.abc import Iterator

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.forms.numbers import EXACT_INTEGER, parse_numbers
from tabapp.data.schema import DataWarning, as_kind
from tabapp.data.target import format_of
from tabapp.errors import option


@check(
    "precision",
    description="Different integers of a column become equal numbers, because they have more digits than a number holds exactly.",
    remedy="Leave out --kind COLUMN=numeric: such integers are codes or identifiers; or subtract a constant in the file.",
    rank=55,
)
def precision(evidence: Evidence) -> Iterator[DataWarning]:
    """Columns of numbers, which only the user can have declared: tabapp takes such integers for codes."""
    for column in evidence.columns:
        largest = max(abs(column.low or 0.0), abs(column.high or 0.0))
        if column.kind != "numeric" or column.role == "ignore" or largest <= EXACT_INTEGER:
            continue
        texts = evidence.values[column.name].uniques
        numbers = parse_numbers(texts, format_of(column))
        n_numbers = numbers.drop_nulls().n_unique()
        if n_numbers < len(texts) - numbers.null_count():
            message = f"{len(texts):,} distinct texts such as {texts[0]!r} become {n_numbers:,} numbers, rounded to 16 digits."
            action = f"read as numbers; {option('kind', {column.name: 'categorical'})} keeps the texts"
            yield DataWarning(
                check="precision",
                column=column.name,
                message=message,
                action=action,
                remedies=(as_kind(column.name, "categorical"),),
            )
