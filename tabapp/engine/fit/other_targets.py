"""The other targets of a run of one of several targets: what its models may learn beside their own target, and never see of a row
that they predict."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.fit.run_data import RunData
from tabapp.features.arrays import OtherTarget, Table
from tabapp.models.contract import FitContext, Plugin


def described(others: pl.DataFrame) -> tuple[OtherTarget, ...]:
    """The columns of `tabapp.data.other_targets.encoded`."""
    return tuple(OtherTarget(name=each.name, n_classes=_n_classes(each)) for each in others)


def _n_classes(codes: pl.Series) -> int:
    """The number of classes of a column of codes; 1 for numbers."""
    return 1 if codes.dtype == pl.Float64 else max(2, int(codes.fill_null(0).to_numpy().max(initial=0)) + 1)


def with_other_targets(
    table: Table, context: FitContext, plugin: Plugin, data: RunData, rows: UsableRows | None = None
) -> Table:
    """The training rows with their other targets, if the model uses them and there are any.

    Args:
        table: features and target of training rows.
        rows: which rows they are; None means all of them.
    """
    if data.others is None or not plugin.uses_other_targets:
        return table
    context.other_targets = described(data.others)
    values = data.others.select(pl.all().cast(pl.Float64).fill_null(float("nan"))).to_numpy()
    return replace(table, others=(data.all if rows is None else rows).of(values))
