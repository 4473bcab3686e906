"""Every metric once: its direction, what it needs, and a weighted numpy function.

The functions are written here, not taken from scikit-learn, because the bootstrap and the ensemble selection call them hundreds of
times on the same rows; the tests hold each of them against scikit-learn's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Task = Literal["binary", "multiclass", "regression"]

_EPSILON = 1e-7


@dataclass(frozen=True)
class Metric:
    """A score of predictions against the truth, in its own units.

    `function(truth, prediction, weight)` takes, for classification, truth (rows,) as class codes and prediction
    (rows, classes) as probabilities; for regression both are (rows,) in target units. `weight` is (rows,) or None.
    It returns NaN where the metric is not defined, such as an area under a curve with one class present.
    """

    name: str
    title: str
    greater_is_better: bool
    tasks: tuple[Task, ...]
    needs_probability: bool
    function: Callable[[Array, Array, Array | None], float]


def _mean(values: Array, weight: Array | None) -> float:
    return float(np.average(values, weights=weight))


def _roc_auc_from_scores(positive: Array, scores: Array, weight: Array | None) -> float:
    """Area under the ROC curve: the chance that a positive row outranks a negative one, ties counting half."""
    order = np.argsort(scores, kind="stable")
    return _roc_auc_in_order(positive[order], scores[order], None if weight is None else weight[order])


def _roc_auc_in_order(positive: Array, scores: Array, weight: Array | None) -> float:
    w = np.ones(len(scores)) if weight is None else np.asarray(weight, dtype=np.float64)
    positive_weight = w * positive
    negative_weight = w - positive_weight
    total_positive, total_negative = positive_weight.sum(), negative_weight.sum()
    if total_positive <= 0 or total_negative <= 0:
        return float("nan")
    starts = np.flatnonzero(np.r_[True, scores[1:] != scores[:-1]])
    tied_positive = np.add.reduceat(positive_weight, starts)
    tied_negative = np.add.reduceat(negative_weight, starts)
    below = np.cumsum(tied_negative) - tied_negative
    return float((tied_positive * (below + 0.5 * tied_negative)).sum() / (total_positive * total_negative))


def _roc_auc(truth: Array, prediction: Array, weight: Array | None) -> float:
    """Binary, or the unweighted mean of one class against the rest, over the classes that are present."""
    if prediction.shape[1] == 2:
        return _roc_auc_from_scores((truth == 1).astype(np.float64), prediction[:, 1], weight)
    scores = [
        _roc_auc_from_scores((truth == c).astype(np.float64), prediction[:, c], weight)
        for c in range(prediction.shape[1])
    ]
    present = [s for s in scores if not np.isnan(s)]
    return float(np.mean(present)) if present else float("nan")


def _average_precision(truth: Array, prediction: Array, weight: Array | None) -> float:
    scores = prediction[:, 1]
    w = np.ones(len(scores)) if weight is None else np.asarray(weight, dtype=np.float64)
    order = np.argsort(-scores, kind="stable")
    sorted_scores = scores[order]
    positive_weight = w[order] * (truth[order] == 1)
    ends = np.flatnonzero(np.r_[sorted_scores[1:] != sorted_scores[:-1], True])
    true_positive = np.cumsum(positive_weight)[ends]
    predicted = np.cumsum(w[order])[ends]
    if true_positive[-1] <= 0:
        return float("nan")
    precision = true_positive / np.maximum(predicted, 1e-300)
    recall = true_positive / true_positive[-1]
    return float(np.sum(np.diff(np.r_[0.0, recall]) * precision))


def log_loss_rows(truth: Array, prediction: Array) -> Array:
    """Negative log probability of the true class, a row each: (rows,), in nats."""
    chosen = prediction[np.arange(len(truth)), truth.astype(np.int64)]
    return -np.log(np.clip(chosen.astype(np.float64), _EPSILON, 1.0))


def _log_loss(truth: Array, prediction: Array, weight: Array | None) -> float:
    return _mean(log_loss_rows(truth, prediction), weight)


def _accuracy(truth: Array, prediction: Array, weight: Array | None) -> float:
    return _mean((prediction.argmax(axis=1) == truth).astype(np.float64), weight)


def _balanced_accuracy(truth: Array, prediction: Array, weight: Array | None) -> float:
    right = (prediction.argmax(axis=1) == truth).astype(np.float64)
    w = np.ones(len(truth)) if weight is None else np.asarray(weight, dtype=np.float64)
    codes = truth.astype(np.int64)
    total = np.bincount(codes, weights=w)
    hits = np.bincount(codes, weights=w * right)
    return float((hits[total > 0] / total[total > 0]).mean())


def _f1(truth: Array, prediction: Array, weight: Array | None) -> float:
    """The positive class's F1 for two classes, the unweighted mean over classes for more."""
    label = prediction.argmax(axis=1)
    w = np.ones(len(truth)) if weight is None else np.asarray(weight, dtype=np.float64)
    classes = [1] if prediction.shape[1] == 2 else range(prediction.shape[1])
    scores: list[float] = []
    for c in classes:
        hit = w[(label == c) & (truth == c)].sum()
        wrong = w[(label == c) != (truth == c)].sum()
        if hit + wrong > 0:
            scores.append(float(2 * hit / (2 * hit + wrong)))
    return float(np.mean(scores)) if scores else 0.0


def _brier(truth: Array, prediction: Array, weight: Array | None) -> float:
    if prediction.shape[1] == 2:
        return _mean((prediction[:, 1].astype(np.float64) - truth) ** 2, weight)
    one_hot = np.eye(prediction.shape[1])[truth.astype(np.int64)]
    return _mean(((prediction - one_hot) ** 2).sum(axis=1), weight)


def _rmse(truth: Array, prediction: Array, weight: Array | None) -> float:
    return _mean((truth.astype(np.float64) - prediction) ** 2, weight) ** 0.5


def _mae(truth: Array, prediction: Array, weight: Array | None) -> float:
    return _mean(np.abs(truth.astype(np.float64) - prediction), weight)


def _mape(truth: Array, prediction: Array, weight: Array | None) -> float:
    scale = np.maximum(np.abs(truth), np.finfo(np.float64).eps)
    return _mean(np.abs(truth.astype(np.float64) - prediction) / scale, weight)


def _median_absolute_error(truth: Array, prediction: Array, weight: Array | None) -> float:
    error = np.abs(truth.astype(np.float64) - prediction)
    if weight is None:
        return float(np.median(error))
    order = np.argsort(error)
    cumulative = np.cumsum(np.asarray(weight, dtype=np.float64)[order])
    return float(error[order][np.searchsorted(cumulative, cumulative[-1] / 2)])


def _r2(truth: Array, prediction: Array, weight: Array | None) -> float:
    spread = _mean((truth - np.average(truth, weights=weight)) ** 2, weight)
    return 1.0 - _mean((truth.astype(np.float64) - prediction) ** 2, weight) / spread if spread > 0 else float("nan")


_BINARY: tuple[Task, ...] = ("binary",)
_CLASSIFICATION: tuple[Task, ...] = ("binary", "multiclass")
_REGRESSION: tuple[Task, ...] = ("regression",)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("roc_auc", "ROC AUC", True, _CLASSIFICATION, True, _roc_auc),
        Metric("log_loss", "log loss", False, _CLASSIFICATION, True, _log_loss),
        Metric("accuracy", "accuracy", True, _CLASSIFICATION, False, _accuracy),
        Metric("balanced_accuracy", "balanced accuracy", True, _CLASSIFICATION, False, _balanced_accuracy),
        Metric("f1", "F1", True, _CLASSIFICATION, False, _f1),
        Metric("average_precision", "average precision", True, _BINARY, True, _average_precision),
        Metric("brier", "Brier score", False, _CLASSIFICATION, True, _brier),
        Metric("rmse", "RMSE", False, _REGRESSION, False, _rmse),
        Metric("mae", "MAE", False, _REGRESSION, False, _mae),
        Metric("r2", "R²", True, _REGRESSION, False, _r2),
        Metric("mape", "MAPE", False, _REGRESSION, False, _mape),
        Metric(
            "median_absolute_error",
            "median absolute error",
            False,
            _REGRESSION,
            False,
            _median_absolute_error,
        ),
    )
}


def default_metric(task: Task) -> str:
    """The metric that a task is judged by unless the user says otherwise."""
    return {"binary": "roc_auc", "multiclass": "log_loss", "regression": "rmse"}[task]


def score(name: str, truth: Array, prediction: Array, weight: Array | None = None) -> float:
    """One metric of predictions, in its own units and direction (see `Metric` for shapes)."""
    return METRICS[name].function(truth, prediction, weight)


def loss(name: str, truth: Array, prediction: Array, weight: Array | None = None) -> float:
    """The same number turned so that lower is always better, infinite where the metric is not defined."""
    value = score(name, truth, prediction, weight)
    if np.isnan(value):
        return float("inf")
    return -value if METRICS[name].greater_is_better else value


def is_better(name: str, a: float, b: float) -> bool:
    """Whether score `a` is strictly better than score `b`."""
    return a > b if METRICS[name].greater_is_better else a < b


def _presorted(name: str, prediction: Array) -> npt.NDArray[np.intp] | None:
    return np.argsort(prediction[:, 1], kind="stable") if name == "roc_auc" and prediction.shape[1] == 2 else None


def _resampled(
    name: str, truth: Array, prediction: Array, order: npt.NDArray[np.intp] | None
) -> Callable[[Array], float]:
    """The metric as a function of row weights alone, with all that does not depend on them done once."""
    if order is not None:
        positive, ordered = (truth[order] == 1).astype(np.float64), prediction[order, 1]
        return lambda weight: _roc_auc_in_order(positive, ordered, weight)
    if name == "roc_auc":
        sorted_classes = [
            (order, (truth[order] == c).astype(np.float64), prediction[order, c])
            for c in range(prediction.shape[1])
            for order in [np.argsort(prediction[:, c], kind="stable")]
        ]

        def mean_area(weight: Array) -> float:
            areas = [_roc_auc_in_order(hit, scores, weight[order]) for order, hit, scores in sorted_classes]
            present = [area for area in areas if not np.isnan(area)]
            return float(np.mean(present)) if present else float("nan")

        return mean_area
    if name == "log_loss":
        rows = log_loss_rows(truth, prediction)
        return lambda weight: _mean(rows, weight)
    if name == "rmse":
        squares = (truth.astype(np.float64) - prediction) ** 2
        return lambda weight: _mean(squares, weight) ** 0.5
    return lambda weight: METRICS[name].function(truth, prediction, weight)


def interval(
    name: str,
    truth: Array,
    prediction: Array,
    weight: Array | None = None,
    *,
    seed: int,
    n_resamples: int = 200,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a score over rows (Efron & Tibshirani 1993, chapter 13).

    Resamples are drawn as multinomial row counts, which every metric takes as weights.

    Returns:
        The (low, high) bounds in the metric's units; NaN where no resample had a defined score.
    """
    n_rows = len(truth)
    generator = np.random.default_rng(seed)
    base = np.ones(n_rows) if weight is None else np.asarray(weight, dtype=np.float64)
    function = _resampled(name, truth, prediction, order := _presorted(name, prediction))
    base = base if order is None else base[order]
    values = [
        function(base * np.bincount(generator.integers(0, n_rows, n_rows), minlength=n_rows))
        for _ in range(n_resamples)
    ]
    defined = [v for v in values if not np.isnan(v)]
    if not defined:
        return float("nan"), float("nan")
    tail = (1 - level) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)
