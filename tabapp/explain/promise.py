"""The order in which columns are examined when the time may end before all of them are: the most promising ones first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.explain.fold_model import FoldModel
from tabapp.features.arrays import Table

Float64 = npt.NDArray[np.float64]


def promising_order(
    models: Sequence[FoldModel], columns: Sequence[str], is_class: bool, training_rows: Callable[[], Table]
) -> list[int]:
    """Positions of the columns, the most promising first; ties keep the order of the columns.

    What the models know of their use of the features decides. Models that know nothing of it use the association of each feature
    with the target instead.

    Args:
        is_class: the target is a class code.
        training_rows: rows with a target, called only where it is needed.
    """
    known = [_known_use(fold) for fold in models]
    used = [use for use in known if use is not None]
    if len(used) < len(known) or not used:
        used = [association(training_rows(), is_class)] * len(models)
    scores = np.zeros(len(columns))
    for fold, use in zip(models, used, strict=True):
        scores += [use[fold.features_of(column)].sum() for column in columns]
    return np.argsort(-scores, kind="stable").tolist()


def _known_use(fold: FoldModel) -> Float64 | None:
    """(n_features,) the use of the features with a sum of 1; None if the model does not know it."""
    found = fold.model.use_of_features()
    n_features = fold.table.numeric.shape[1] + fold.table.categorical.shape[1]
    if found is None or len(found) > n_features:
        return None
    use = np.zeros(n_features)
    # Trees do not know features after the last one that they use.
    use[: len(found)] = np.nan_to_num(np.abs(found))
    return use / use.sum() if use.sum() > 0 else None


def association(table: Table, is_class: bool) -> Float64:
    """(n_features,) the share of the variance of one variable that the other explains, in [0, 1].

    For a number, that of its ranks that the classes explain; in a regression, the squared correlation with the ranks of the target,
    of its ranks or of their distance from the middle, whichever is larger. For categories, that of the target that the levels
    explain, adjusted for their number.
    """
    assert table.target is not None
    ranks, codes = _ranks(table.numeric), table.target.astype(np.int64)
    outputs = np.eye(int(codes.max(initial=0)) + 1)[codes] if is_class else _ranks(table.target[:, None])
    if is_class:
        of_numbers = _explained(codes, ranks)
    else:
        of_numbers = np.maximum(_correlated(ranks, outputs), _correlated(np.abs(ranks), outputs))
    of_levels = [float(_explained(levels, outputs).max(initial=0.0)) for levels in table.categorical.T]
    return np.concatenate([of_numbers, of_levels])


def _ranks(values: npt.NDArray[Any]) -> Float64:
    """(rows, columns) ranks with mean 0; those of missing numbers are in the middle."""
    filled = values.astype(np.float64)
    for column in filled.T:
        missing = np.isnan(column)
        column[missing] = 0.0 if missing.all() else np.median(column[~missing])
    return pl.from_numpy(filled).select(pl.all().rank()).to_numpy() - (len(filled) + 1) / 2


def _correlated(a: Float64, b: Float64) -> Float64:
    """(columns of a,) the squared correlation with the single column of b; 0 for a constant."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    spread = (a**2).sum(axis=0) * (b**2).sum()
    return (a * b).sum(axis=0) ** 2 / np.where(spread > 0, spread, 1.0)


def _explained(codes: npt.NDArray[Any], values: Float64) -> Float64:
    """(columns,) the share of the variance of the values between codes, adjusted for the number of codes; 0 for a constant."""
    _, codes = np.unique(codes, return_inverse=True)
    members = np.eye(int(codes.max(initial=0)) + 1)[codes]
    n, k = members.shape
    if n <= k or k < 2:
        return np.zeros(values.shape[1])
    values = values - values.mean(axis=0)
    total = (values**2).sum(axis=0)
    between = ((members.T @ values) ** 2 / members.sum(axis=0)[:, None]).sum(axis=0)
    within = np.where(total > 0, (total - between) / np.where(total > 0, total, 1.0), 1.0)
    return np.clip(1 - within * (n - 1) / (n - k), 0.0, 1.0)
