"""Permutation importance and attention together, and their rank correlation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from tabapp.explain.attention import AttentionShare
from tabapp.explain.permutation import PermutationImportance
from tabapp.findings import ImportanceRow

MIN_COLUMNS = 3


def combine(permutation: PermutationImportance, attention: Mapping[str, AttentionShare] | None) -> list[ImportanceRow]:
    """One row per column, most important first and unstable ones last; ties keep the order of the columns."""
    rows: list[ImportanceRow] = []
    for column in permutation.columns:
        share = None if attention is None else attention.get(column.column)
        row = ImportanceRow(
            feature=column.column,
            attention=None if share is None else share.share,
            permutation=column.mean,
            low=column.low,
            high=column.high,
            attention_low=None if share is None else share.low,
            attention_high=None if share is None else share.high,
            attention_raw=None if share is None else share.raw,
            unstable=column.unstable,
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (row.unstable, -row.permutation))


def agreement(rows: list[ImportanceRow]) -> float | None:
    """Spearman's rank correlation of attention and stable permutation importance over columns that have both, in [-1, 1].

    None with fewer than three such columns, or if one of the two is constant.
    """
    pairs = np.array(
        [(row.attention, row.permutation) for row in rows if row.attention is not None and not row.unstable],
        dtype=np.float64,
    )
    if len(pairs) < MIN_COLUMNS or np.ptp(pairs[:, 0]) == 0 or np.ptp(pairs[:, 1]) == 0:
        return None
    frame = pl.DataFrame(pairs, schema=["attention", "permutation"])
    return float(frame.select(pl.corr("attention", "permutation", method="spearman")).item())
