"""Attention as importance: how much each data column is looked at.

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

    A model's attention is already the mean over its heads and layers (`FittedModel.attention`); here the features made from one
    column are summed.

    NOTE[DIFF] the paper averages over training rows; here each fold's model looks at the rows held out from it, the same ones that
    permutation importance uses, so that the two can be compared.

    Returns:
        A share for every column asked for, 0 for one that no feature is made from; None when a model has no attention.
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
