"""Input of models: a recipe that requests arrays, a table that contains them, and a spec that names their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

MOST_DERIVED = 45
"""Features made from two columns, at most."""


class FeatureRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The arrays that a family of models needs. Models with equal recipes share the prepared arrays.

    Attributes:
        numeric: "raw" keeps units and NaN, for trees. "quantile" maps each column to a standard normal by its quantiles.
            "standard" subtracts the mean and divides by the population standard deviation, clipped at ±1000. "robust" subtracts
            the median, divides by the interquartile range, and clips smoothly to (-3, 3). All are fitted on the training
            rows. Except with "raw", booleans are categories, and periodic parts of dates are also given as sine and cosine.
        missing: treatment of missing numbers, except with "raw". "indicator" fills them with the training mean (the median for
            "robust") and adds a missing indicator if training rows have any. "keep" leaves NaN without an indicator, for
            models that mask them.
        target_encoding: also encode categories with many levels as the smoothed mean of the target, or as its class shares.
            The encoding of training rows is computed out of fold.
        text_components: number of dimensions per text column (hashed character n-grams, reduced by truncated SVD).
        rows: rows that the arrays are fitted on: the training rows of each fold, or the rows without a target, which all folds
            share. With "unlabeled", no target encoding is possible.
        derived: also features made from two columns, chosen by their correlation with the target of the rows that the arrays are
            fitted on (`tabapp.features.derived`).
    """

    numeric: Literal["raw", "quantile", "standard", "robust"] = "raw"
    missing: Literal["indicator", "keep"] = "indicator"
    target_encoding: bool = False
    text_components: int = 8
    rows: Literal["training", "unlabeled"] = "training"
    derived: bool = False


class FeatureSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The columns of a `Table`.

    Attributes:
        numeric: names of the numeric columns, in order.
        categorical: names of the categorical columns, in order.
        cardinalities: number of codes of each categorical column, including the two reserved ones (see `Table`).
        sources: for each feature (numeric, then categorical) the column of the file that it is computed from.
        partners: index and second data column of the features that are computed from two.
    """

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    cardinalities: tuple[int, ...]
    sources: tuple[str, ...]
    partners: tuple[tuple[int, str], ...] = ()

    def columns(self) -> list[tuple[str, ...]]:
        """For each feature the data columns that it is computed from."""
        partners = dict(self.partners)
        return [
            (source, partners[index]) if index in partners else (source,) for index, source in enumerate(self.sources)
        ]

    def directions(self, monotonic: Mapping[str, int] | None) -> list[int]:
        """For each feature the constraint on its data column: 1, -1, or 0 for none. A missing indicator has none.

        Args:
            monotonic: 1 for each data column with which predictions may only rise, and -1 where they may only fall.
        """
        names = (*self.numeric, *self.categorical)
        return [
            monotonic.get(name, 0) if monotonic and name == source else 0
            for name, source in zip(names, self.sources, strict=True)
        ]


class OtherTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Another target of a run: a number, or one of `n_classes` classes; `n_classes` is 1 for a number."""

    name: str
    n_classes: int = 1


UNSEEN = 0
MISSING = 1
FIRST_LEVEL = 2


@dataclass(frozen=True)
class Table:
    """Rows as a model receives them.

    Attributes:
        numeric: (rows, n_numeric) float32; NaN for missing cells if the recipe keeps them. Never infinite.
        categorical: (rows, n_categorical) int32 codes: 0 for unseen in training, 1 for missing, 2 and above for training levels.
        target: (rows,) int64 class codes, or float64 in target units; None when predicting.
        weight: (rows,) float32 row weights, or None for equal ones.
        others: (rows, targets) float64 numbers and class codes of the other targets of the run, NaN where they are missing; None
            when predicting, and for models that do not use them.
    """

    numeric: npt.NDArray[np.float32]
    categorical: npt.NDArray[np.int32]
    target: npt.NDArray[np.int64] | npt.NDArray[np.float64] | None = None
    weight: npt.NDArray[np.float32] | None = None
    others: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.numeric)

    def take(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice) -> Table:
        """Select rows, in the given order."""
        return Table(
            numeric=self.numeric[rows],
            categorical=self.categorical[rows],
            target=None if self.target is None else self.target[rows],
            weight=None if self.weight is None else self.weight[rows],
            others=None if self.others is None else self.others[rows],
        )

    def joined(self, other: Table) -> Table:
        """The rows of both tables, with the arrays that both have."""

        def join(name: str) -> Any:
            mine, others = getattr(self, name), getattr(other, name)
            return None if mine is None or others is None else np.concatenate([mine, others])

        return Table(*(join(each.name) for each in fields(self)))
