"""What a fitted model reports besides predictions: neighbors, contributions, attention and uncertainty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tabapp.features.arrays import Table

Float32 = npt.NDArray[np.float32]
Floats = npt.NDArray[np.floating]
"""Predictions: probabilities in float32, or numbers in target units in float64. Single precision would round a target with a large
offset, such as 1.7e9 ± 300."""


@dataclass(frozen=True)
class RowNeighbors:
    """The stored rows that contributed most to each prediction.

    Attributes:
        index: (rows, n) int64 positions among the rows passed to `fit`: training rows first, then early-stopping rows. Columns
            are sorted by descending weight.
        weight: (rows, n) float32 share of each stored row in the prediction. The shares of all stored rows sum to 1.
    """

    index: npt.NDArray[np.int64]
    weight: Float32


@dataclass(frozen=True)
class FeatureCombination:
    """Features that a model combines, such as the factors of a product.

    Attributes:
        features: their positions, numeric ones first; the most frequent one is first.
        frequencies: how often each is among them, over rows and heads.
    """

    features: tuple[int, ...]
    frequencies: tuple[float, ...]


@dataclass(frozen=True)
class RowWeights:
    """The weights of stored rows in some predictions, in one layer.

    Attributes:
        title: such as "layer 1"; empty if the model has only one.
        heads: (heads, rows, n) float32 weight of each of the n stored rows; the sum over the stored rows is 1.
    """

    title: str
    heads: Float32


class StoredRows(ABC):
    """The rows that a fitted model predicts from. The model stays as it is: `take` and `permuted` return changed copies.

    Attributes:
        source: (n,) int64 positions of the stored rows among the rows passed to `fit`: training rows first, then
            early-stopping rows. After `permuted`, it has no meaning.
    """

    source: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.source)

    @abstractmethod
    def predict(self, table: Table) -> Floats:
        """Predictions from these rows, as `FittedModel.predict` returns them."""

    @abstractmethod
    def weights(self, table: Table) -> list[RowWeights]:
        """The weights of the stored rows in each prediction, by layer and head."""

    def shares(self, table: Table) -> Float32:
        """(rows, n) share of each stored row in each prediction: the mean of its weights over heads and layers."""
        return np.array([each.heads.mean(axis=0) for each in self.weights(table)], dtype=np.float32).mean(axis=0)

    @abstractmethod
    def take(self, rows: npt.NDArray[np.int64]) -> StoredRows:
        """Only some of the rows, at least one."""

    @abstractmethod
    def permuted(self, seed: int) -> StoredRows:
        """The rows with each of their attributes, including the target, permuted independently of the others."""


Unit = Literal["target", "log-target", "log-odds"]


@dataclass(frozen=True)
class FeatureContributions:
    """A decomposition of one output of a model: `base` plus the sum of `values` of a row is the output.

    Attributes:
        base: output without any feature, or the mean output of reference rows.
        values: (rows, n_features) float64, numeric features before categorical ones.
        unit: "target" for a regression, or "log-target" if the model sums up logarithms of the prediction; "log-odds" for the raw
            score of a class, from which probabilities are computed.
        method: how the values were computed.
        errors: (rows,) completeness errors of integrated gradients: what the values missed of the output before it was distributed
            over them. None for exact values.
    """

    base: float
    values: npt.NDArray[np.float64]
    unit: Unit
    method: Literal["TreeSHAP", "integrated gradients"] = "TreeSHAP"
    errors: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True)
class AttentionMap:
    """Attention of one layer, averaged over rows.

    Attributes:
        title: such as "layer 1".
        queries, keys: positions of the features, numeric ones first; -1 for [CLS], -2 for trained queries, -3 for the target.
        weights: (heads, queries, keys) float32, which sum to 1 over the keys.
    """

    title: str
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    weights: Float32
    kind: Literal["attention", "mask", "selection"] = "attention"


@dataclass(frozen=True)
class Uncertainty:
    """The uncertainty of filled cells; NaN for other cells.

    Attributes:
        numeric: (rows, n_numeric) float32 standard deviation of the number, in the units of the table.
        categorical: (rows, n_categorical) float32 probability that the level is wrong.
    """

    numeric: Float32
    categorical: Float32
