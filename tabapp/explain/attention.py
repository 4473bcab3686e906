"""Attention as feature importance: the share that each data column receives.

Gorishniy, Rubachev, Khrulkov, Babenko: "Revisiting Deep Learning Models for Tabular Data", NeurIPS 2021, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tabapp.explain.fold_model import FoldModel, at_most


def mean_attention(
    models: Sequence[FoldModel], columns: Sequence[str], *, seed: int, max_rows: int = 2_000
) -> dict[str, float] | None:
    """Share of attention that each data column receives, averaged over held-out rows; the shares sum to 1.

    A model's attention is already the mean over its heads and layers (`FittedModel.attention`); here the features of one
    column are summed.

    NOTE[DIFF] the paper averages over training rows; here each fold model uses its held-out rows, like permutation importance, so
    that the two can be compared.

    Returns:
        A share for each of `columns`, 0 for a column without features; None if a model has no attention.
    """
    shares = dict.fromkeys(columns, 0.0)
    for fold in at_most(models, max_rows, seed):
        attention = fold.model.attention(fold.table)
        if attention is None:
            return None
        by_feature = np.asarray(attention, dtype=np.float64).sum(axis=0)
        for column in columns:
            shares[column] += float(by_feature[fold.features_of(column)].sum())
    total = sum(shares.values())
    return {column: share / total for column, share in shares.items()} if total > 0 else None
