"""Which rows are learned from and which are scored: stratified, grouped or by time, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tabapp.data.schema import Task
from tabapp.errors import DataError

Target = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Folds = npt.NDArray[np.int16]

_MAX_BINS = 20
_MAX_EARLY_STOPPING_ROWS = 5_000
_MOSTLY_ALONE = 0.5
"""Where groups are this many of the rows or more, as for copies of rows, each group goes where its first row is dealt."""


def make_folds(
    target: Target, task: Task, n_folds: int, seed: int, groups: npt.NDArray[np.generic] | None = None
) -> Folds:
    """Cut rows into folds of nearly equal size with like targets: by class, or by quantile bins of a number.

    A group is never on both sides. Where there are fewer rows or groups than folds, there are fewer folds; a class with fewer
    rows than folds is absent from some.

    Args:
        target: (rows,) class codes, or numbers.
        groups: (rows,) whatever names a row's group.

    Returns:
        (rows,) the fold that scores each row, from 0.

    Raises:
        DataError: two folds cannot be made.
    """
    n_rows = len(target)
    n_folds = min(n_folds, n_rows)
    if n_folds < 2:
        raise DataError(f"{n_rows} rows cannot be cut into folds")
    if groups is None:
        return _dealt(_strata(target, task, n_folds), n_folds, np.random.default_rng(seed))
    firsts, codes = np.unique(groups, return_index=True, return_inverse=True)[1:]
    n_folds = min(n_folds, len(firsts))
    if n_folds < 2:
        raise DataError("all rows belong to one group, so no rows can be held apart; choose another --group column")
    if len(firsts) > _MOSTLY_ALONE * n_rows:
        strata = _strata(target[firsts], task, n_folds)
        return _dealt(strata, n_folds, np.random.default_rng(seed))[codes]
    # Imported here: most tables have no groups, and importing scikit-learn takes a second of the time before the first fit.
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    strata = _merge_small(_strata(target, task, n_folds), n_folds)
    splitter = GroupKFold if len(np.unique(strata)) == 1 else StratifiedGroupKFold
    fold = np.zeros(n_rows, dtype=np.int16)
    for number, (_, scored) in enumerate(
        splitter(n_folds, shuffle=True, random_state=seed).split(strata, strata, codes)
    ):
        fold[scored] = number
    # Few groups can leave a fold empty; the numbers stay without gaps.
    return np.unique(fold, return_inverse=True)[1].astype(np.int16)


def _dealt(strata: npt.NDArray[np.intp], n_folds: int, generator: np.random.Generator) -> Folds:
    """Deal shuffled rows, stratum after stratum, to the folds in turn: each stratum's counts differ by at most one.

    scikit-learn's `StratifiedKFold` refuses or warns about strata smaller than the number of folds; dealing has no such case.
    """
    shuffled = generator.permutation(len(strata))
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
    """Set one part of the rows aside to be scored: the latest ones where there is a time, else a draw like the whole.

    Args:
        fraction: share of rows to score, in (0, 1).
        groups: (rows,) groups that stay together; a time goes before them.
        time: (rows,) numbers or datetimes; rows without one are learned from. A single moment counts as no time.

    Returns:
        (rows,) 0 for scored rows, -1 for rows that are only learned from.
    """
    scored = _apart(target, task, max(1, round(fraction * len(target))), seed, groups, time)
    return np.where(scored, 0, -1).astype(np.int16)


def early_stopping_rows(
    target: Target,
    task: Task,
    rows: npt.NDArray[np.integer],
    seed: int,
    groups: npt.NDArray[np.generic] | None = None,
    time: npt.NDArray[np.generic] | None = None,
) -> npt.NDArray[np.bool_]:
    """Which of a fold's training rows are kept from training, to stop it early.

    15 % of them below 2,000 rows, 10 % above, at most 5,000; drawn like the folds. A class with very few rows stays in training
    whole.

    Args:
        target, groups, time: of all rows of the table.
        rows: the training rows' positions.

    Returns:
        (len(rows),) true for the rows kept apart.
    """
    share = 0.15 if len(rows) < 2_000 else 0.10
    count = min(_MAX_EARLY_STOPPING_ROWS, max(1, round(share * len(rows))))
    return _apart(
        target[rows],
        task,
        count,
        seed,
        None if groups is None else groups[rows],
        None if time is None else time[rows],
    )


def _apart(
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
        if len(firsts) > _MOSTLY_ALONE * len(codes):
            wanted = max(1, round(count * len(firsts) / len(codes)))
            strata = _strata(target[firsts], task, max(2, len(firsts) // wanted))
            return _stratified_draw(strata, wanted, generator)[codes]
        if codes.max() > 0:
            return _whole_groups(codes, count, generator)
    return _stratified_draw(_strata(target, task, max(2, len(target) // max(count, 1))), count, generator)


def _latest(time: npt.NDArray[np.generic], count: int) -> npt.NDArray[np.bool_] | None:
    """About the latest `count` rows; rows of one moment are never on both sides. None where there is only one moment."""
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
    """Groups in random order until `count` rows are reached, passing over those that overshoot by more than they help."""
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
    """Draw rows so that every stratum gives its share.

    Each row gets its random position within its stratum as a number in (0, 1); the lowest `count` are drawn. A stratum with
    one row has 0.5, so that it is drawn last.
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
    """Class codes without gaps; for numbers the quantile bin, with at least `n_parts` rows in each."""
    if task != "regression":
        return np.unique(target, return_inverse=True)[1]
    n_bins = int(np.clip(len(target) // max(n_parts, 1), 1, _MAX_BINS))
    edges = np.quantile(target, np.linspace(0, 1, n_bins + 1)[1:-1])
    return np.unique(np.searchsorted(edges, target, side="right"), return_inverse=True)[1]


def _merge_small(strata: npt.NDArray[np.intp], n_folds: int) -> npt.NDArray[np.intp]:
    """Strata too small for every fold become one; if that is still too small it joins the largest."""
    sizes = np.bincount(strata)
    small = sizes < n_folds
    if not small.any():
        return strata
    into = int(np.argmax(sizes))
    if sizes[small].sum() >= n_folds:
        into = int(np.flatnonzero(small)[0])
    merged = np.where(small[strata], into, strata)
    return np.unique(merged, return_inverse=True)[1]
