"""The schema as an event."""

from __future__ import annotations

import msgspec

from tabapp.data.schema import Column, Schema
from tabapp.run.record import events as ev


def _summary(column: Column) -> str:
    if column.levels:
        total = max(1, sum(column.level_counts))
        return f"{column.level_counts[0] / total:.0%} {column.levels[0]}"
    if column.low is not None and column.high is not None:
        return f"{_plain(column.low)} … {_plain(column.high)}"
    return " … ".join(column.first_and_last or ())


def _plain(value: float) -> str:
    """A number of six digits; a large one has all of them rather than an exponent."""
    return f"{value:.15g}" if 1e6 <= abs(value) < 1e15 else f"{value:g}"


def schema_event(schema: Schema, n_more: int = 0) -> ev.SchemaInferred:
    """The schema as an event; `n_more` is the number of rows of `--unlabelled`."""
    return ev.SchemaInferred(
        columns=tuple(
            ev.ColumnView(
                name=column.name,
                kind=column.kind,
                role=column.role,
                reason=column.reason,
                missing=column.missing,
                unique=column.unique,
                summary=_summary(column),
                histogram=column.histogram,
                overridden=column.overridden,
            )
            for column in schema.columns_of_file
        ),
        warnings=tuple(msgspec.convert(warning, ev.WarningView, from_attributes=True) for warning in schema.warnings),
        rows=schema.rows,
        rows_without_target=schema.rows_without_target,
        rows_unlabelled=n_more,
    )
