"""A fold model with its held-out rows: the input of every explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models.contract import FittedModel


@dataclass(frozen=True)
class FoldModel:
    """The model of a fold, the fold's held-out rows with their target, and the columns of that table.

    `rows` are the numbers of these rows among the usable rows of the run, if known.
    """

    model: FittedModel
    table: Table
    spec: FeatureSpec
    rows: npt.NDArray[np.intp] | None = None

    def features_of(self, column: str) -> npt.NDArray[np.intp]:
        """Positions of the features of a data column, numeric ones before categorical ones. A feature of two columns belongs to
        both."""
        return np.array(self._features.get(column, ()), dtype=np.intp)

    @cached_property
    def _features(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for position, columns in enumerate(self.spec.columns()):
            for column in dict.fromkeys(columns):
                found.setdefault(column, []).append(position)
        return found


def at_most(models: Sequence[FoldModel], max_rows: int, seed: int) -> list[FoldModel]:
    """The fold models with a seeded sample of `max_rows` rows in total, drawn from each fold in proportion to its size.

    Rows keep their order. Folds without rows are dropped.
    """
    total = sum(len(fold.table) for fold in models)
    generator = np.random.default_rng(seed)
    kept: list[FoldModel] = []
    for fold in models:
        n_rows = len(fold.table)
        n_kept = n_rows if total <= max_rows else round(n_rows * max_rows / total)
        if n_kept:
            rows = np.sort(generator.choice(n_rows, n_kept, replace=False))
            kept.append(
                FoldModel(fold.model, fold.table.take(rows), fold.spec, None if fold.rows is None else fold.rows[rows])
            )
    return kept
