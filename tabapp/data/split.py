"""Split rows into training and scoring parts: stratified, grouped or by time, reproducible for a seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tabapp.errors import DataError, option
from tabapp.task import Task

Target = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Folds = npt.NDArray[np.int16]

_MAX_BINS = 20
_MAX_EARLY_STOPPING_ROWS = 5_000
_MANY_GROUPS = 0.5
"""With more groups than this share of the rows, for example groups of duplicate rows, groups are assigned by their first row."""

_LEAST_COMPARED_GROUPS = 10
"""Rows of fewer groups than this number do not show how the models of two folds differ."""


def make_folds(
    target: Target,
    task: Task,
    n_folds: int,
    seed: int,
    groups: npt.NDArray[np.generic] | None = None,
    copies: npt.NDArray[np.generic] | None = None,
) -> Folds:
    """Split rows into folds of nearly equal size, stratified by class or by quantile bins of a numeric target.

    All rows of a group are in one fold. With fewer rows or groups than folds, there are fewer folds; a class with fewer rows
    than folds is absent from some.

    Args:
        target: (rows,) class codes, or numbers.
        groups: (rows,) group labels of any type.
        copies: (rows,) a label that equal rows share. Those of a class go to different folds: a row that is scored has then its
            copies among the training rows, as a new row has. Ignored if there are groups.

    Returns:
        (rows,) number of the fold that scores each row, from 0.

    Raises:
        DataError: there are fewer than two rows or groups.
    """
    n_rows = len(target)
    n_folds = min(n_folds, n_rows)
    if n_folds < 2:
        raise DataError(f"{n_rows} rows cannot be split into folds")
    if groups is None:
        return _stratified_folds(_strata(target, task, n_folds), n_folds, np.random.default_rng(seed), copies)
    firsts, codes = np.unique(groups, return_index=True, return_inverse=True)[1:]
    n_folds = min(n_folds, len(firsts))
    if n_folds < 2:
        raise DataError(
            f"all rows belong to one group, so no rows can be set aside for scoring. Choose another {option('group')} column."
        )
    if len(firsts) > _MANY_GROUPS * n_rows:
        strata = _strata(target[firsts], task, n_folds)
        return _stratified_folds(strata, n_folds, np.random.default_rng(seed))[codes]
    # Imported here because most tables have no groups and importing scikit-learn delays the first fit by a second.
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    strata = _merge_small(_strata(target, task, n_folds), n_folds)
    splitter = GroupKFold if len(np.unique(strata)) == 1 else StratifiedGroupKFold
    fold = np.zeros(n_rows, dtype=np.int16)
    for number, (_, scored) in enumerate(
        splitter(n_folds, shuffle=True, random_state=seed).split(strata, strata, codes)
    ):
        fold[scored] = number
    # With few groups a fold can be empty; renumber the folds without gaps.
    return np.unique(fold, return_inverse=True)[1].astype(np.int16)


def _stratified_folds(
    strata: npt.NDArray[np.intp],
    n_folds: int,
    generator: np.random.Generator,
    copies: npt.NDArray[np.generic] | None = None,
) -> Folds:
    """Assign shuffled rows, stratum by stratum, to the folds in rotation: the counts of a stratum differ by at most one. Copies
    follow each other.

    scikit-learn's `StratifiedKFold` rejects or warns about strata smaller than the number of folds; this works for any size.
    """
    shuffled = generator.permutation(len(strata))
    if copies is not None:
        firsts, codes = np.unique(copies[shuffled], return_index=True, return_inverse=True)[1:]
        shuffled = shuffled[np.argsort(firsts[codes], kind="stable")]
    order = shuffled[np.argsort(strata[shuffled], kind="stable")]
    fold = np.empty(len(strata), dtype=np.int16)
    fold[order] = generator.permutation(n_folds)[np.arange(len(strata)) % n_folds]
    return fold


def make_holdout(
    target: Target,
    task: Task,
    fraction: float,
    seed: int,
    groups: npt.NDArray[np.generic] | None = None,
    time: npt.NDArray[np.generic] | None = None,
) -> Folds:
    """Set aside rows for scoring: the latest ones if there is a time column, else a stratified sample.

    Args:
        fraction: share of rows to score, in (0, 1).
        groups: (rows,) groups that stay together; ignored if there is a time.
        time: (rows,) numbers or datetimes. Rows without one are training rows; a constant time is ignored.

    Returns:
        (rows,) 0 for scored rows, -1 for rows that are only used for training.
    """
    scored = _held_out(target, task, max(1, round(fraction * len(target))), seed, groups, time)
    return np.where(scored, 0, -1).astype(np.int16)


def second_folds(
    fold: Folds, target: Target, task: Task, count: int, seed: int, groups: npt.NDArray[np.generic] | None = None
) -> Folds:
    """Choose rows that the models of two folds do not train on, so that two models predict them like new rows.

    Args:
        fold: (rows,) the fold that scores each row, all of them at least 0.
        count: about how many rows, fewer than all.
        groups: (rows,) groups that stay together.

    Returns:
        (rows,) the second fold that does not train on the row, -1 for rows that only their own fold holds out. All are -1 with
        fewer than three folds, and with groups so large that the rows would be of a few of them.
    """
    n_folds = int(fold.max()) + 1
    second = np.full(len(fold), -1, dtype=np.int16)
    codes = np.arange(len(fold)) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_groups = int(codes.max()) + 1
    if n_folds < 3 or count * n_groups < _LEAST_COMPARED_GROUPS * len(fold):
        return second
    drawn = _held_out(target, task, count, seed, None if groups is None else codes, None)
    steps = np.random.default_rng(seed).integers(1, n_folds, n_groups)
    second[drawn] = ((fold + steps[codes]) % n_folds)[drawn]
    return second


def early_stopping_rows(
    target: Target,
    task: Task,
    rows: npt.NDArray[np.integer],
    seed: int,
    groups: npt.NDArray[np.generic] | None = None,
    time: npt.NDArray[np.generic] | None = None,
) -> npt.NDArray[np.bool_]:
    """Choose validation rows for early stopping among the training rows of a fold.

    They are 15 % of fewer than 2,000 rows, else 10 %, at most 5,000, sampled like the holdout. Classes with very few rows stay
    in training completely.

    Args:
        target, groups, time: of all rows of the table.
        rows: the training rows' positions.

    Returns:
        (len(rows),) true for the validation rows.
    """
    share = 0.15 if len(rows) < 2_000 else 0.10
    count = min(_MAX_EARLY_STOPPING_ROWS, max(1, round(share * len(rows))))
    return _held_out(
        target[rows],
        task,
        count,
        seed,
        None if groups is None else groups[rows],
        None if time is None else time[rows],
    )


def _held_out(
    target: Target,
    task: Task,
    count: int,
    seed: int,
    groups: npt.NDArray[np.generic] | None,
    time: npt.NDArray[np.generic] | None,
) -> npt.NDArray[np.bool_]:
    generator = np.random.default_rng(seed)
    if time is not None and (latest := _latest(time, count)) is not None:
        return latest
    if groups is not None:
        firsts, codes = np.unique(groups, return_index=True, return_inverse=True)[1:]
        if len(firsts) > _MANY_GROUPS * len(codes):
            wanted = max(1, round(count * len(firsts) / len(codes)))
            strata = _strata(target[firsts], task, max(2, len(firsts) // wanted))
            return _stratified_draw(strata, wanted, generator)[codes]
        if codes.max() > 0:
            return _whole_groups(codes, count, generator)
    return _stratified_draw(_strata(target, task, max(2, len(target) // max(count, 1))), count, generator)


def _latest(time: npt.NDArray[np.generic], count: int) -> npt.NDArray[np.bool_] | None:
    """About the latest `count` rows; rows of equal time stay together. None if the time is constant or always missing."""
    is_date = np.issubdtype(time.dtype, np.datetime64)
    known = ~(np.isnat(time) if is_date else np.isnan(time.astype(np.float64)))
    order = time.astype("datetime64[us]").astype(np.int64) if is_date else time.astype(np.float64)
    moments = np.sort(order[known])
    if len(moments) == 0 or moments[0] == moments[-1]:
        return None
    cut = moments[-min(count, len(moments))]
    if cut == moments[0]:
        cut = moments[np.searchsorted(moments, cut, side="right")]
    return known & (order >= cut)


def _whole_groups(codes: npt.NDArray[np.intp], count: int, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Choose whole groups in random order while each brings the number of rows closer to `count`; at least one group."""
    sizes = np.bincount(codes)
    chosen = np.zeros(len(sizes), dtype=bool)
    taken = 0
    for group in generator.permutation(len(sizes)):
        if abs(taken + sizes[group] - count) < abs(taken - count):
            chosen[group] = True
            taken += sizes[group]
    if not chosen.any():
        chosen[int(np.argmin(sizes))] = True
    return chosen[codes]


def _stratified_draw(strata: npt.NDArray[np.intp], count: int, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Sample rows so that each stratum contributes its share.

    Each row gets its random position within its stratum as a number in (0, 1), and the lowest `count` are sampled. The row of a
    stratum of size one has 0.5, so it is rarely sampled.
    """
    shuffled = generator.permutation(len(strata))
    order = shuffled[np.argsort(strata[shuffled], kind="stable")]
    sizes = np.bincount(strata)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    position = np.empty(len(strata))
    position[order] = (np.arange(len(strata)) - starts[strata[order]] + 0.5) / sizes[strata[order]]
    drawn = np.zeros(len(strata), dtype=bool)
    drawn[np.lexsort((np.argsort(shuffled), position))[: min(count, len(strata) - 1)]] = True
    return drawn


def _strata(target: Target, task: Task, n_parts: int) -> npt.NDArray[np.intp]:
    """Class codes without gaps, or quantile bins of a numeric target, with at least `n_parts` rows per bin."""
    if task != "regression":
        return np.unique(target, return_inverse=True)[1]
    n_bins = int(np.clip(len(target) // max(n_parts, 1), 1, _MAX_BINS))
    edges = np.quantile(target, np.linspace(0, 1, n_bins + 1)[1:-1])
    return np.unique(np.searchsorted(edges, target, side="right"), return_inverse=True)[1]


def _merge_small(strata: npt.NDArray[np.intp], n_folds: int) -> npt.NDArray[np.intp]:
    """Merge all strata smaller than the number of folds; if the result is still too small, merge it with the largest."""
    sizes = np.bincount(strata)
    small = sizes < n_folds
    if not small.any():
        return strata
    into = int(np.argmax(sizes))
    if sizes[small].sum() >= n_folds:
        into = int(np.flatnonzero(small)[0])
    merged = np.where(small[strata], into, strata)
    return np.unique(merged, return_inverse=True)[1]
