"""Do predictions depend on other rows? Corruption and deletion of the rows that a model predicts from.

Kossen et al.: "Self-Attention Between Datapoints: Going Beyond Individual Input-Output Pairs in Deep Learning", NeurIPS
2021, sections 4.3 and 4.4, Algorithms 1 and 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tabapp.explain.between_rows.folds import Float64, FoldRows, differences, distances
from tabapp.features.arrays import Table
from tabapp.models.contract import Floats, StoredRows

MOST_CHANGE = 0.1
"""Δ_max of Algorithm 2."""
FIRST_CHANGE, MORE_CHANGE, MOST_RETRIES = 0.01, 1.1, 50
"""Δ_it, its factor after repeated failures, and N_max-retry."""
LEAST_LEFT = 0.02
"""ε: the share of rows at which deletion ends."""

Places = npt.NDArray[np.int64]


def corrupted_predictions(
    stored: StoredRows, table: Table, seed: int, *, together: int = 1, deadline: float | None = None
) -> Floats:
    """Predictions from uninformative rows: Algorithm 1. Each attribute of all other rows is permuted independently.

    NOTE[DIFF]: the other rows are those that the model has stored, because predicted rows do not see each other.

    Args:
        together: rows that are predicted from the same permutation; the paper draws one for each row.
        deadline: `time.monotonic()` after which no further permutation is drawn; the predictions are then those of the
            first rows.

    Returns:
        At least those of the first `together` rows.
    """
    parts: list[Floats] = []
    for first in range(0, len(table), together):
        if first and deadline is not None and time.monotonic() > deadline:
            break
        seeds = np.random.SeedSequence([seed, first]).generate_state(1)
        parts.append(stored.permuted(int(seeds[0])).predict(table.take(slice(first, first + together))))
    return np.concatenate(parts) if parts else stored.predict(table)


def delete_rows(
    stored: StoredRows,
    row: Table,
    scale: float,
    seed: int,
    *,
    most_tries: int | None = None,
    deadline: float | None = None,
) -> Places | None:
    """Delete rows that hardly change a prediction: Algorithm 2.

    NOTE[DIFF]: changes are relative to `scale` instead of the prediction, which may be negative, zero or a list of probabilities.

    Args:
        row: one row.
        scale: of the changes: |ŷ| in the paper.
        most_tries: predictions after which it ends; None for no limit, as in the paper.
        deadline: `time.monotonic()` after which it gives up.

    Returns:
        The places of the rows that are left; None if the time did not suffice.
    """
    generator = np.random.default_rng(seed)
    left = np.arange(len(stored))
    original = stored.predict(row)
    allowed, retries, tries = FIRST_CHANGE, 0, 0
    while len(left) > max(1, LEAST_LEFT * len(stored)) and (most_tries is None or tries < most_tries):
        tries += 1
        if deadline is not None and time.monotonic() > deadline:
            return None
        proposal = np.delete(left, int(generator.integers(len(left))))
        change = float(differences(stored.take(proposal).predict(row), original)[0]) / scale
        if change < allowed:
            if change >= MOST_CHANGE:
                break
            left, retries = proposal, 0
        else:
            retries += 1
        if retries >= MOST_RETRIES:
            allowed, retries = allowed * MORE_CHANGE, 0
    return left


def kept_distances(left: Places, distance: Float64, seed: int) -> tuple[float, float, float]:
    """The mean distance of one row to the rows that Algorithm 2 left, to as many random ones, and to those that it deleted;
    NaN without any.

    Args:
        distance: (n,) to each stored row.
    """
    is_left = np.zeros(len(distance), dtype=bool)
    is_left[left] = True
    random = np.random.default_rng(seed).permutation(len(distance))[: len(left)]
    deleted = distance[~is_left].mean() if not is_left.all() else float("nan")
    return float(distance[is_left].mean()), float(distance[random].mean()), float(deleted)


def predictions_from_few(
    fold: FoldRows, number: int, shares: Sequence[float], seed: int
) -> tuple[list[Floats], list[Floats]]:
    """The prediction of a held-out row from the stored rows with the largest weights only, and from as many random ones.

    Args:
        number: of the row in the fold.
        shares: how many of the stored rows are left; at least one is.
    """
    row = fold.table.take(slice(number, number + 1))
    generator = np.random.default_rng([seed, number])
    order = np.argsort(-fold.stored.shares(row)[0], kind="stable")
    by_weight: list[Floats] = []
    at_random: list[Floats] = []
    for share in shares:
        n_left = max(1, round(share * len(order)))
        by_weight.append(fold.stored.take(np.sort(order[:n_left])).predict(row))
        at_random.append(fold.stored.take(np.sort(generator.permutation(len(order))[:n_left])).predict(row))
    return by_weight, at_random


def deletion_distances(
    fold: FoldRows,
    number: int,
    scale: Callable[[Floats], float],
    seed: int,
    *,
    most_tries: int | None = None,
    deadline: float | None = None,
) -> tuple[int, tuple[float, float, float]] | None:
    """Algorithm 2 for a held-out row: how many rows are left, and `kept_distances`; None if the time did not suffice."""
    row = fold.table.take(slice(number, number + 1))
    size = scale(fold.stored.predict(row))
    left = delete_rows(fold.stored, row, size, seed, most_tries=most_tries, deadline=deadline)
    if left is None:
        return None
    return len(left), kept_distances(left, distances(row, fold.known)[0], seed)
