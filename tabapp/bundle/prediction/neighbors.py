"""The training rows on which predictions rest, of models that predict from training rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tabapp.bundle.files.records import Ensemble, TrainingRows
from tabapp.data.schema import Schema
from tabapp.models.contract import RowNeighbors

N_NEIGHBORS = 5
MOST_NEIGHBORS = 20
"""Neighbors of each fold model, before they are merged."""


@dataclass(frozen=True)
class Neighbor:
    """A training row: its number in the training file, from 0, its share in the prediction, and its target."""

    row: int
    weight: float
    target: str | float


def is_valid(found: RowNeighbors, n_rows: int, n_stored: int) -> bool:
    """Whether neighbors have the promised shapes, stored positions, and weights in [0, 1]."""
    index, weight = found.index, found.weight
    return (
        index.ndim == 2
        and index.shape == weight.shape
        and len(index) == n_rows
        and bool(((index >= 0) & (index < n_stored)).all())
        and bool((np.isfinite(weight) & (weight >= 0) & (weight <= 1 + 1e-4)).all())
    )


def merged(
    found: dict[str, RowNeighbors], ensemble: Ensemble, rows: TrainingRows, schema: Schema, n: int = N_NEIGHBORS
) -> list[list[Neighbor]]:
    """The n training rows with the largest weights in each prediction.

    A weight is the mean over the fold models that predict from training rows, weighted as in the ensemble.

    Args:
        found: valid neighbors by folder of the fold model.
    """
    shares = {
        fold.model: candidate.weight / len(candidate.folds)
        for candidate in ensemble.candidates
        for fold in candidate.folds
        if fold.model in found
    }
    total = sum(shares.values())
    n_rows = len(next(iter(found.values())).index) if found else 0
    return [_of_row(row, found, shares, total, rows, schema.classes, n) for row in range(n_rows)]


def _of_row(
    row: int,
    found: dict[str, RowNeighbors],
    shares: dict[str, float],
    total: float,
    rows: TrainingRows,
    classes: Sequence[str],
    n: int,
) -> list[Neighbor]:
    weights: defaultdict[int, float] = defaultdict(float)
    for model, share in shares.items():
        numbers, each = rows.numbers[model], found[model]
        for position, weight in zip(each.index[row].tolist(), each.weight[row].tolist(), strict=True):
            weights[numbers[position]] += share / total * weight
    largest = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:n]
    return [
        Neighbor(number, weight, classes[int(rows.targets[number])] if classes else rows.targets[number])
        for number, weight in largest
        if weight > 0
    ]
