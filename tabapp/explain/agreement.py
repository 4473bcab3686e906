"""Permutation importance and attention together, and their rank correlation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tabapp.explain.attention import AttentionShare
from tabapp.explain.permutation import PermutationImportance

MIN_COLUMNS = 3


@dataclass(frozen=True)
class Importance:
    """Importance of one data column: its share of attention (None without a model that has attention), and how much the metric
    worsens when the column is shuffled, with its 95 % interval; `unstable` as in `ColumnImportance`."""

    feature: str
    attention: AttentionShare | None
    permutation: float
    low: float
    high: float
    unstable: bool = False


def combine(permutation: PermutationImportance, attention: Mapping[str, AttentionShare] | None) -> list[Importance]:
    """One row per column, most important first and unstable ones last; ties keep the order of the columns."""
    rows = [
        Importance(
            feature=column.column,
            attention=None if attention is None else attention.get(column.column),
            permutation=column.mean,
            low=column.low,
            high=column.high,
            unstable=column.unstable,
        )
        for column in permutation.columns
    ]
    return sorted(rows, key=lambda row: (row.unstable, -row.permutation))


def agreement(rows: list[Importance]) -> float | None:
    """Spearman's rank correlation of attention and stable permutation importance over columns that have both, in [-1, 1].

    None with fewer than three such columns, or if one of the two is constant.
    """
    pairs = np.array(
        [(row.attention.share, row.permutation) for row in rows if row.attention is not None and not row.unstable],
        dtype=np.float64,
    )
    if len(pairs) < MIN_COLUMNS or np.ptp(pairs[:, 0]) == 0 or np.ptp(pairs[:, 1]) == 0:
        return None
    frame = pl.DataFrame(pairs, schema=["attention", "permutation"])
    return float(frame.select(pl.corr("attention", "permutation", method="spearman")).item())
