"""The input of models: a recipe that requests arrays, a table that holds them, a spec that names the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt


class FeatureRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which arrays a family of models needs. Models with equal recipes share the prepared arrays.

    Attributes:
        numeric: "raw" keeps units and NaN, for trees. "quantile" maps each column to a standard normal by its quantiles.
            "standard" subtracts the mean and divides by the population standard deviation, cut at ±1000. "robust" subtracts
            the median, divides by the distance of the quartiles, and bends the result smoothly into (-3, 3). All are
            learned from the training rows. With any but "raw", booleans are categories and dates come as points on circles too.
        missing: what becomes of missing numbers with any but "raw". "indicator" fills them with the training mean (the median
            in "robust") and adds a missing indicator where training rows had any; "keep" leaves NaN and adds none, for
            models that mask them.
        target_encoding: give each category of many levels also as the smoothed mean of the target, or the shares of its
            classes, among the training rows of its level; for training rows out of fold.
        text_components: how many dimensions of text (character n-grams, hashed, then truncated SVD) to add per text column.
    """

    numeric: Literal["raw", "quantile", "standard", "robust"] = "raw"
    missing: Literal["indicator", "keep"] = "indicator"
    target_encoding: bool = False
    text_components: int = 8


class FeatureSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the columns of a `Table` are.

    Attributes:
        numeric: names of the numeric columns, in order.
        categorical: names of the categorical columns, in order.
        cardinalities: number of codes of each categorical column, with the two reserved ones (see `Table`).
        sources: for each feature (numeric, then categorical) the data column that it was made from.
    """

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    cardinalities: tuple[int, ...]
    sources: tuple[str, ...]


UNSEEN = 0
MISSING = 1
FIRST_LEVEL = 2


@dataclass(frozen=True)
class Table:
    """Rows as a model receives them.

    Attributes:
        numeric: (rows, n_numeric) float32; NaN is missing, where the recipe keeps it. Never infinite.
        categorical: (rows, n_categorical) int32 codes: 0 unseen in training, 1 missing, 2 and above the training levels.
        target: (rows,) int64 class codes, or float64 in target units; None when predicting.
        weight: (rows,) float32 row weights, or None for equal ones.
    """

    numeric: npt.NDArray[np.float32]
    categorical: npt.NDArray[np.int32]
    target: npt.NDArray[np.int64] | npt.NDArray[np.float64] | None = None
    weight: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.numeric)

    def take(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice) -> Table:
        """The same table with only the given rows, in the given order."""
        return Table(
            numeric=self.numeric[rows],
            categorical=self.categorical[rows],
            target=None if self.target is None else self.target[rows],
            weight=None if self.weight is None else self.weight[rows],
        )
