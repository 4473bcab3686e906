"""`Metric`: everything that the program knows about one metric."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tabapp.task import TASKS, Task

Array = npt.NDArray[Any]
Criterion = Literal["log_loss", "rmse", "mae"]
LOG_LOSS: Criterion = "log_loss"
RMSE: Criterion = "rmse"

Function = Callable[[Array, Array, Array | None], float]
Resampler = Callable[[Array, Array], Callable[[Array | None], float]]
Blender = Callable[[Array, Array, Array | None], tuple[Array, Callable[[Array], float]]]

BINARY: tuple[Task, ...] = ("binary",)
CLASSIFICATION: tuple[Task, ...] = ("binary", "multiclass")
REGRESSION: tuple[Task, ...] = ("regression",)

_NAME = re.compile(r"[a-z][a-z0-9_]*(:[a-z0-9_=,.+-]+)?")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A score of predictions against the truth, in its own units.

    Attributes:
        name: as typed after `--metric`: lower case, digits and underscores.
        title: as shown above a column of scores, such as "ROC AUC".
        description: one line for the metric picker: what it measures, and when to choose it.
        tasks: the tasks it applies to: regression alone, or one or both kinds of classification.
        greater_is_better: its direction.
        needs_probability: whether it depends on the probabilities themselves and not only on the predicted label.
        function: `function(truth, prediction, weight)`. For classification, truth is (rows,) class codes and prediction is
            (rows, classes) probabilities; for regression both are (rows,) in target units. Weight is (rows,) or None; whole
            weights must equal repeated rows, because the bootstrap relies on it. Where the metric is undefined, it returns NaN,
            such as the ROC AUC of rows of one class; an exception on rows of one class or value means the same.
        criterion: the loss that boosters and networks monitor for early stopping when a run is scored by this metric; by
            default log loss for classification and RMSE for regression. Choose "mae" if outliers barely move the metric.
        resampler: `resampler(truth, prediction)` returns the metric as a function of the row weights alone, with all work
            that does not depend on them done once. The bootstrap calls it hundreds of times. Without one, `function` is called.
        blender: `blender(predictions, truth, weight)` takes stacked predictions (candidates, rows[, classes]) and returns the
            part of them that the metric depends on, (candidates, ...), and the metric as a function of a mean of such parts.
            Ensemble selection calls it thousands of times. Without one, `function` is called with the whole prediction.
        selected_by: name of the built-in metric that selects the weights of ensembles for this one; None means itself.
        row_losses: `row_losses(truth, prediction)` returns the (rows,) losses whose mean the metric is. Weights of ensembles are
            then also selected with sharper probabilities, as far as these losses fall.
        averaging_power: the error of the metric is about proportional to this power of the squared error of the predictions, or of
            the Brier score. The error is the score, or its distance from 1 if greater is better. The score of an ensemble then
            includes what new rows gain from the mean over the models of all folds; with None, the default, it does not.
        has_unit: whether a score of numbers changes with their unit, as by default. Only others are averaged over several targets.

    Raises:
        ValueError: the name, the tasks or the criterion cannot be used.
    """

    name: str
    title: str
    description: str
    tasks: tuple[Task, ...]
    greater_is_better: bool
    needs_probability: bool
    function: Function
    criterion: Criterion | None = None
    resampler: Resampler | None = None
    blender: Blender | None = None
    selected_by: str | None = None
    row_losses: Callable[[Array, Array], Array] | None = None
    averaging_power: float | None = None
    has_unit: bool = True

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"the name {self.name!r} must consist of lower-case letters, digits and underscores")
        if not self.tasks or not set(self.tasks) <= set(TASKS):
            raise ValueError(f"the tasks {self.tasks} must be among {', '.join(TASKS)}")
        if "regression" in self.tasks and len(self.tasks) > 1:
            raise ValueError(
                "a metric scores either class probabilities or numbers, so regression must be its only task"
            )
        if self.criterion is not None and (self.criterion == "log_loss") == (self.tasks == REGRESSION):
            raise ValueError(f"the criterion {self.criterion!r} is not defined for {' and '.join(self.tasks)}")

    @property
    def is_classification(self) -> bool:
        """Whether the metric scores class probabilities rather than numbers in target units."""
        return self.tasks != REGRESSION

    @property
    def early_stopping(self) -> Criterion:
        """The loss to monitor for early stopping."""
        return self.criterion or ("log_loss" if self.is_classification else "rmse")

    @property
    def chooses_threshold(self) -> bool:
        """Whether the threshold of a binary classifier can be chosen by the metric."""
        return "binary" in self.tasks and not self.needs_probability

    def value(self, truth: Array, prediction: Array, weight: Array | None) -> float:
        """The metric; NaN where it is undefined."""
        try:
            return self.function(truth, prediction, weight)
        except Exception:
            if len(np.unique(truth if weight is None else truth[np.asarray(weight) > 0])) > 1:
                raise
            return float("nan")

    def as_loss(self, score: float) -> float:
        """A score with its sign chosen so that lower is better; infinite where the metric is undefined."""
        if np.isnan(score):
            return float("inf")
        return -score if self.greater_is_better else score

    def resampled(self, truth: Array, prediction: Array) -> Callable[[Array | None], float]:
        """The metric of fixed predictions as a function of the row weights."""
        if self.resampler is not None:
            return self.resampler(truth, prediction)
        return lambda weight: self.value(truth, prediction, weight)

    def blended(self, predictions: Array, truth: Array, weight: Array | None) -> tuple[Array, Callable[[Array], float]]:
        """The part of stacked predictions that the metric depends on, and the metric of a mean of such parts."""
        if self.blender is not None:
            return self.blender(predictions, truth, weight)
        return predictions, lambda blend: self.value(truth, blend, weight)


def mean(values: Array, weight: Array | None) -> float:
    """Weighted mean of (rows,) values; NaN where no row has a weight."""
    if weight is not None and not np.sum(weight) > 0:
        return float("nan")
    return float(np.average(values, weights=weight))


def weights_or_ones(weight: Array | None, n_rows: int) -> Array:
    """(rows,) float64 weights, all 1 where none are given."""
    return np.ones(n_rows) if weight is None else np.asarray(weight, dtype=np.float64)
