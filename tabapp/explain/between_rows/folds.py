"""Held-out rows with the stored rows that a fold's model predicts them from, and distances between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import MISSING, Table
from tabapp.models.contract import Floats, StoredRows

Float64 = npt.NDArray[np.float64]

CELLS_AT_ONCE = 500_000
"""Pairs of a held-out and a stored row that are in memory together."""


@dataclass(frozen=True)
class FoldRows:
    """The stored rows of a fold's model, and held-out rows that it predicts.

    Attributes:
        stored: the rows that the model predicts from.
        known: (n,) the same rows as encoded features with their targets.
        table: encoded held-out rows with their targets.
        anchor: one encoded row, the same of the file in every fold; maps order rows by their distance to it.
        rows: numbers of the held-out rows among the usable rows of the run; `known_rows` are those of the stored rows.
    """

    stored: StoredRows
    known: Table
    table: Table
    anchor: Table
    rows: npt.NDArray[np.intp]
    known_rows: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.table)

    def with_some(self, most: int, seed: int) -> FoldRows:
        """The same with a random sample of `most` stored rows."""
        if len(self.stored) <= most:
            return self
        places = np.sort(np.random.default_rng(seed).choice(len(self.stored), most, replace=False))
        known = self.known.take(places)
        return FoldRows(self.stored.take(places), known, self.table, self.anchor, self.rows, self.known_rows[places])

    def parts(self) -> Iterator[slice]:
        """Held-out rows whose weights and distances fit in memory together."""
        n_rows = max(1, CELLS_AT_ONCE // max(1, len(self.stored)))
        for first in range(0, len(self.table), n_rows):
            yield slice(first, first + n_rows)


def distances(table: Table, known: Table) -> Float64:
    """(rows, known rows) Σ over features of (x - x')², or of 1 for different levels: section 4.4 of Kossen et al. 2021. A
    feature that is missing in one of both rows adds nothing.
    """
    total = np.zeros((len(table), len(known)))
    for values, others in zip(table.numeric.T.astype(np.float64), known.numeric.T.astype(np.float64), strict=True):
        total += np.nan_to_num(np.square(values[:, None] - others[None, :]))
    for codes, others in zip(table.categorical.T, known.categorical.T, strict=True):
        differ = codes[:, None] != others[None, :]
        total += differ & (codes != MISSING)[:, None] & (others != MISSING)[None, :]
    return total


def differences(one: Floats, other: Floats) -> Float64:
    """(rows,) how much predictions differ: the absolute difference of numbers, or the total variation of probabilities."""
    apart = np.abs(np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64))
    return apart if apart.ndim == 1 else apart.sum(axis=1) / 2


def spread(predictions: npt.NDArray[Any]) -> float:
    """The mean difference of predictions from their mean."""
    return float(differences(predictions, predictions.mean(axis=0, keepdims=True)).mean()) if len(predictions) else 0.0
