"""Models as formulas: trees and linear functions as plain arrays, from which other programs' models are written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import MISSING, UNSEEN, FeatureSpec, Table

Float64 = npt.NDArray[np.float64]
Link = Literal["identity", "exponential", "logistic", "softmax", "shares"]
"""How outputs become predictions: "identity" for numbers, "exponential" for logarithms of numbers, "logistic" for the log-odds of
the second class, "softmax" for log-odds of all classes, "shares" for shares of all classes."""


@dataclass(frozen=True)
class Head:
    """From outputs to predictions.

    Attributes:
        classes: class codes of the outputs; the second of two for "logistic". Empty for regression.
        n_classes: number of classes; 1 for regression.
        scale, shift: a regression predicts `scale * output + shift`, or `scale * exp(output) + shift` with the link "exponential".
        limits: least and largest prediction of a regression, or None.
    """

    link: Link
    classes: tuple[int, ...] = ()
    n_classes: int = 1
    scale: float = 1.0
    shift: float = 0.0
    limits: tuple[float, float] | None = None

    def predictions(self, outputs: Float64) -> Float64:
        """(rows,) numbers or (rows, n_classes) probabilities of (rows, outputs)."""
        if self.link in ("identity", "exponential"):
            outputs = np.exp(outputs) if self.link == "exponential" else outputs
            values = self.scale * outputs[:, 0] + self.shift
            return values if self.limits is None else values.clip(*self.limits)
        if self.link == "logistic":
            outputs = np.column_stack([np.zeros(len(outputs)), outputs])
        if self.link != "shares":
            outputs = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        made = np.zeros((len(outputs), self.n_classes))
        made[:, list(self.classes)] = outputs / outputs.sum(axis=1, keepdims=True)
        return made


@dataclass(frozen=True)
class TreeFormula:
    """A sum of binary decision trees as concatenated node arrays.

    Attributes:
        feature: (nodes,) feature of the split, numeric features before categorical ones; unused at leaves.
        threshold: (nodes,) float32; numbers up to it go left.
        missing_left: (nodes,) bool, where missing numbers go.
        left_codes: by node that splits a categorical feature, the codes that go left; all others go right.
        children: (nodes, 2) left and right; the node itself at a leaf.
        value: (nodes, values) added to the outputs at a leaf.
        roots: (trees,) first node of each tree.
        group: (trees,) the first output that a tree adds to.
        base: (outputs,) added to the sum.
    """

    feature: npt.NDArray[np.int64]
    threshold: npt.NDArray[np.float32]
    missing_left: npt.NDArray[np.bool_]
    left_codes: dict[int, frozenset[int]]
    children: npt.NDArray[np.int64]
    value: Float64
    roots: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    base: Float64
    head: Head

    @property
    def is_leaf(self) -> npt.NDArray[np.bool_]:
        """(nodes,) whether a node is a leaf."""
        return self.children[:, 0] == np.arange(len(self.children))

    def outputs(self, table: Table) -> Float64:
        """(rows, outputs) sums, evaluated slowly: for few rows."""
        n_numeric = table.numeric.shape[1]
        is_leaf = self.is_leaf
        totals = np.tile(self.base, (len(table), 1))
        for row in range(len(table)):
            for root, group in zip(self.roots.tolist(), self.group.tolist(), strict=True):
                node = root
                while not is_leaf[node]:
                    feature = int(self.feature[node])
                    if feature >= n_numeric:
                        left = int(table.categorical[row, feature - n_numeric]) in self.left_codes[node]
                    else:
                        number = table.numeric[row, feature]
                        left = bool(self.missing_left[node] if np.isnan(number) else number <= self.threshold[node])
                    node = int(self.children[node, 0 if left else 1])
                totals[row, group : group + self.value.shape[1]] += self.value[node]
        return totals

    def predict(self, table: Table) -> Float64:
        """Predictions, evaluated slowly: for few rows."""
        return self.head.predictions(self.outputs(table))

    def with_base_of(self, features: FeatureSpec, outputs: Any) -> TreeFormula:
        """The formula with the base that explains a library's outputs for `probe(features)`."""
        found = np.asarray(outputs, dtype=np.float64).reshape(1, -1)
        return replace(self, base=self.base + (found - self.outputs(probe(features)))[0])


@dataclass(frozen=True)
class LinearFormula:
    """A linear function of standardized numbers, indicators of missing cells, and one-hot levels.

    Attributes:
        mean, std: (numeric,) missing numbers count as the mean; standardized ones are clipped at ± `limit`.
        weight: (numeric, outputs).
        indicators: numeric features whose missing cells add `indicator_weight` (indicators, outputs).
        levels: (categorical feature, code) pairs that add `level_weight` (levels, outputs).
        intercept: (outputs,).
    """

    mean: Float64
    std: Float64
    limit: float
    weight: Float64
    indicators: npt.NDArray[np.int64]
    indicator_weight: Float64
    levels: npt.NDArray[np.int64]
    level_weight: Float64
    intercept: Float64
    head: Head


@dataclass(frozen=True)
class ConstantFormula:
    """The same prediction for every row: probabilities of all classes, or one number."""

    values: tuple[float, ...]
    n_classes: int


Formula = TreeFormula | LinearFormula | ConstantFormula


def probe(features: FeatureSpec) -> Table:
    """One row of missing values."""
    return Table(
        numeric=np.full((1, len(features.numeric)), np.nan, dtype=np.float32),
        categorical=np.full((1, len(features.categorical)), MISSING, dtype=np.int32),
    )


def codes_up_to(threshold: float, cardinality: int, *, unseen_left: bool) -> frozenset[int]:
    """The codes that go left where a split compares codes with a threshold and unseen levels are missing numbers."""
    known = frozenset(code for code in range(1, cardinality) if code <= threshold)
    return known | {UNSEEN} if unseen_left else known
