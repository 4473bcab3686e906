"""The target that a booster or another classic model is trained on, and the conversion of its outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import Table
from tabapp.features.saved import demand
from tabapp.models.contract import FitContext, Floats, Task
from tabapp.models.formula import Head
from tabapp.nn.training.stopping import criterion

Loss = Literal["squared_error", "poisson"]

SCORED_ROWS = 10_000
"""Training rows at most of a quick fit whose score on the early-stopping rows is reported, where no steps are to be chosen."""
LARGEST_LOGARITHM = 20.0
"""Of a prediction over the mean of the training target: a limit far beyond any prediction, with which all are finite."""


def target_of(table: Table) -> npt.NDArray[Any]:
    """The target of a table."""
    if table.target is None:
        raise ValueError("a table to train on has no target")
    return table.target


def some_rows(train: Table, seed: int) -> Table:
    """`SCORED_ROWS` random training rows, or all."""
    return train.take(np.random.default_rng(seed).permutation(len(train))[:SCORED_ROWS])


@dataclass(frozen=True)
class Target:
    """The target that a booster is trained on: class codes, or standardized values (Gorishniy et al. 2021, A.2, eq. 1).
    Standardizing makes penalties independent of the unit.

    Attributes:
        loss: with "poisson", the target is divided by its mean, which is `std` (`mean` is 0), and outputs are logarithms.
    """

    task: Task
    n_classes: int
    mean: float
    std: float
    loss: Loss = "squared_error"

    def check(self, task: Task, n_classes: int) -> None:
        """Raises: ValueError: the target is not the one of the bundle, or its scale is not usable."""
        same = (self.task, self.n_classes) == (task, n_classes)
        demand(same, f"it was trained for {self.task} with {self.n_classes} classes, not for {task} with {n_classes}")
        demand(math.isfinite(self.mean) and 0 < self.std < math.inf, "the scale of its target is not usable")

    @classmethod
    def fit(cls, train: Table, context: FitContext, loss: Loss = "squared_error") -> Target:
        """Compute mean and population standard deviation of the training target."""
        y = target_of(train)
        if context.task != "regression":
            return cls(context.task, context.n_classes, 0.0, 1.0)
        mean = float(np.average(y, weights=train.weight))
        if loss == "poisson" and y.min() >= 0 and mean > 0 and criterion(context) == "rmse":
            return cls("regression", 1, 0.0, mean, loss)
        return cls("regression", 1, mean, float(y.std()) or 1.0)

    def minimizes(self, context: FitContext) -> str:
        """What a library minimizes: the loss of the task "binary" or "multiclass", or "rmse", "mae" or "poisson"."""
        if self.task != "regression":
            return self.task
        return "poisson" if self.loss == "poisson" else criterion(context)

    def transform(self, y: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Convert class codes or target units to what the booster is trained on."""
        return (y.astype(np.float64) - self.mean) / self.std

    @property
    def n_outputs(self) -> int:
        """Number of raw outputs of a library: the log-odds of each of several classes, or of the second of two."""
        return self.n_classes if self.task == "multiclass" else 1

    def head(self) -> Head:
        """How a library's raw outputs become predictions."""
        if self.task == "regression":
            link = "exponential" if self.loss == "poisson" else "identity"
            return Head(link, scale=self.std, shift=self.mean)
        return Head("logistic" if self.task == "binary" else "softmax", tuple(range(self.n_classes)), self.n_classes)

    def prediction(self, output: npt.NDArray[Any]) -> Floats:
        """A library's output to the contract's prediction: (rows, classes) probabilities or (rows,) in target units."""
        output = np.asarray(output, dtype=np.float64)
        if self.task == "regression":
            output = np.exp(output.clip(max=LARGEST_LOGARITHM)) if self.loss == "poisson" else output
            return output.reshape(-1) * self.std + self.mean
        if self.task == "binary" and output.ndim == 1:
            return np.column_stack([1 - output, output]).astype(np.float32)
        return (output / output.sum(axis=1, keepdims=True)).astype(np.float32)
