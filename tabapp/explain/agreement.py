"""Permutation importance and attention together, and their rank correlation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    return rank_correlation(
        [(row.attention, row.permutation) for row in rows if row.attention is not None and not row.unstable]
    )


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation of pairs; None as in `agreement`."""
    values = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    if len(values) < MIN_COLUMNS or np.ptp(values[:, 0]) == 0 or np.ptp(values[:, 1]) == 0:
        return None
    found = float(pl.DataFrame(values, schema=["a", "b"]).select(pl.corr("a", "b", method="spearman")).item())
    return found if np.isfinite(found) else None
