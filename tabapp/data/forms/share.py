"""The share of the values of a column that a form reads."""

from __future__ import annotations

import polars as pl


def share(mask: pl.Series, counts: pl.Series, total: float) -> float:
    """The share of the rows whose distinct values are in the mask.

    Args:
        mask: for each distinct value.
        counts: number of occurrences of each.
        total: number of rows.
    """
    return float(counts.filter(mask).sum() or 0) / total if total else 0.0
