"""Metrics of class probabilities. To add one, append a `Metric` to `METRICS` and test it in tests/test_metrics.py.

The functions are written here rather than imported from scikit-learn because the bootstrap and ensemble selection call them
hundreds of times on the same rows; the tests compare each of them with scikit-learn's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tabapp.metrics.metric import BINARY, CLASSIFICATION, LOG_LOSS, Array, Metric, mean, weights_or_ones

LEAST_PROBABILITY = 1e-7
"""Probabilities below it count as it in the log loss."""


def _roc_auc_in_order(positive: Array, scores: Array, weight: Array | None) -> float:
    """The probability that a positive row outranks a negative one, ties counting half; `scores` are ascending."""
    w = weights_or_ones(weight, len(scores))
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


def roc_auc(truth: Array, prediction: Array, weight: Array | None = None) -> float:
    """ROC AUC of (rows, classes) probabilities; NaN for rows of one class."""
    return _resampled_roc_auc(truth, prediction)(weight)


def _resampled_roc_auc(truth: Array, prediction: Array) -> Callable[[Array | None], float]:
    """ROC AUC of two classes, or the unweighted mean of one class against the rest over the classes that are present.

    The rows are sorted once for each class, whatever their weights.
    """
    classes = [1] if prediction.shape[1] == 2 else range(prediction.shape[1])
    presorted = [
        (order, (truth[order] == c).astype(np.float64), prediction[order, c])
        for c in classes
        for order in [np.argsort(prediction[:, c], kind="stable")]
    ]

    def function(weight: Array | None) -> float:
        areas = [
            _roc_auc_in_order(hit, scores, None if weight is None else weight[order])
            for order, hit, scores in presorted
        ]
        defined = [area for area in areas if not np.isnan(area)]
        return float(np.mean(defined)) if defined else float("nan")

    return function


def _blended_roc_auc(predictions: Array, truth: Array, weight: Array | None) -> tuple[Array, Callable[[Array], float]]:
    """For two classes whose rows weigh the same within each class: the Mann-Whitney statistic of the positive class.

    Two sorts and a merge, ties counting half, are ten times as fast as one stable sort with its gathers. Weights that differ
    only between the classes, such as those of a sample balanced by class, cancel out.
    """
    positive = truth == 1
    by_class = weight is None or all(np.ptp(weight[rows]) == 0 for rows in (positive, ~positive) if rows.any())
    if predictions.shape[-1] != 2 or not by_class:
        return predictions, lambda blend: roc_auc(truth, blend, weight)
    n_pairs = int(positive.sum()) * int((~positive).sum())

    def function(scores: Array) -> float:
        if n_pairs == 0:
            return float("nan")
        above, below = np.sort(scores[positive]), np.sort(scores[~positive])
        wins = np.searchsorted(below, above, "left").sum() + np.searchsorted(below, above, "right").sum()
        return float(wins) / (2 * n_pairs)

    return predictions[:, :, 1], function


def average_precision(truth: Array, prediction: Array, weight: Array | None = None) -> float:
    """Average precision of the second of (rows, 2) probabilities; NaN without rows of its class."""
    scores = prediction[:, 1]
    w = weights_or_ones(weight, len(scores))
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
    """Negative log probability of each row's true class: (rows,), in nats."""
    return _nats(prediction[np.arange(len(truth)), truth.astype(np.int64)])


def _nats(probability: Array) -> Array:
    return -np.log(np.clip(probability.astype(np.float64), LEAST_PROBABILITY, 1.0))


def _log_loss(truth: Array, prediction: Array, weight: Array | None) -> float:
    return mean(log_loss_rows(truth, prediction), weight)


def _resampled_log_loss(truth: Array, prediction: Array) -> Callable[[Array | None], float]:
    rows = log_loss_rows(truth, prediction)
    return lambda weight: mean(rows, weight)


def _blended_log_loss(predictions: Array, truth: Array, weight: Array | None) -> tuple[Array, Callable[[Array], float]]:
    """Log loss depends on the probability of the true class alone."""
    chosen = predictions[:, np.arange(len(truth)), truth.astype(np.int64)]
    return chosen, lambda blend: mean(_nats(blend), weight)


def _accuracy(truth: Array, prediction: Array, weight: Array | None) -> float:
    return mean((prediction.argmax(axis=1) == truth).astype(np.float64), weight)


def _balanced_accuracy(truth: Array, prediction: Array, weight: Array | None) -> float:
    right = (prediction.argmax(axis=1) == truth).astype(np.float64)
    w = weights_or_ones(weight, len(truth))
    codes = truth.astype(np.int64)
    total = np.bincount(codes, weights=w)
    hits = np.bincount(codes, weights=w * right)
    return float((hits[total > 0] / total[total > 0]).mean())


def _f1(truth: Array, prediction: Array, weight: Array | None) -> float:
    """F1 of the positive class for two classes; the unweighted mean over the classes (macro F1) for more."""
    label = prediction.argmax(axis=1)
    w = weights_or_ones(weight, len(truth))
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
        return mean((prediction[:, 1].astype(np.float64) - truth) ** 2, weight)
    one_hot = np.eye(prediction.shape[1])[truth.astype(np.int64)]
    return mean(((prediction - one_hot) ** 2).sum(axis=1), weight)


METRICS: tuple[Metric, ...] = (
    Metric(
        name="roc_auc",
        title="ROC AUC",
        description="Chance that a positive row ranks above a negative one; 0.5 is random guessing",
        tasks=CLASSIFICATION,
        greater_is_better=True,
        needs_probability=True,
        function=roc_auc,
        resampler=_resampled_roc_auc,
        blender=_blended_roc_auc,
        # With few positives the ROC AUC is a noisy criterion, and it compares rows of folds whose models have different scales.
        selected_by=LOG_LOSS,
        averaging_power=1.0,
    ),
    Metric(
        name="log_loss",
        title="log loss",
        description="Negative log probability of the true class; confident errors cost most",
        tasks=CLASSIFICATION,
        greater_is_better=False,
        needs_probability=True,
        function=_log_loss,
        resampler=_resampled_log_loss,
        blender=_blended_log_loss,
        row_losses=log_loss_rows,
        averaging_power=1.0,
    ),
    Metric(
        name="accuracy",
        title="accuracy",
        description="Share of correct labels; misleading where a class is rare",
        tasks=CLASSIFICATION,
        greater_is_better=True,
        needs_probability=False,
        function=_accuracy,
        averaging_power=1.0,
    ),
    Metric(
        name="balanced_accuracy",
        title="balanced accuracy",
        description="Mean recall over the classes; suits rare classes",
        tasks=CLASSIFICATION,
        greater_is_better=True,
        needs_probability=False,
        function=_balanced_accuracy,
        averaging_power=1.0,
    ),
    Metric(
        name="f1",
        title="F1",
        description="Harmonic mean of precision and recall; macro-averaged for several classes",
        tasks=CLASSIFICATION,
        greater_is_better=True,
        needs_probability=False,
        function=_f1,
        averaging_power=1.0,
    ),
    Metric(
        name="average_precision",
        title="average precision",
        description="Area under the precision-recall curve; suits a rare positive class",
        tasks=BINARY,
        greater_is_better=True,
        needs_probability=True,
        function=average_precision,
        averaging_power=1.0,
    ),
    Metric(
        name="brier",
        title="Brier score",
        description="Mean squared error of the probabilities; rewards calibration",
        tasks=CLASSIFICATION,
        greater_is_better=False,
        needs_probability=True,
        function=_brier,
        averaging_power=1.0,
    ),
)
