"""The threshold on the probability of the positive class, chosen by a metric of the labels, and its uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.explain.evaluation import rounded
from tabapp.findings import ChosenThreshold

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]

MOST_THRESHOLDS = 100
RESAMPLES = 200
DEFAULT = 0.5
LEAST_SCORED_ROWS = 30
"""Scored rows that a choice needs."""


@dataclass(frozen=True)
class Counts:
    """Weights of the rows by truth and label, at each threshold: (thresholds,) each."""

    tp: Float64
    fp: Float64
    fn: Float64
    tn: Float64


def labels_at(probability: Array, threshold: float) -> Array:
    """(rows, 2) probabilities of 0 and 1 for the labels at a threshold, as metrics of labels take them.

    Args:
        probability: (rows, 2).
    """
    positive = (probability[:, 1] >= threshold).astype(np.float64)
    return np.column_stack([1 - positive, positive])


def choose_threshold(
    metric: str,
    truth: Array,
    probability: Array,
    folds: Array,
    weight: Array | None = None,
    *,
    seed: int,
) -> ChosenThreshold:
    """Choose the threshold with the best value of a metric.

    The score is cross-fitted: the labels of each fold use a threshold that was chosen on the other folds. With a single fold, two
    random halves take the place of folds.

    Args:
        metric: a metric of binary labels.
        truth: (rows,) 0 or 1. probability: (rows, 2) out of fold. folds: (rows,) fold of each row.
    """
    positive = probability[:, 1].astype(np.float64)
    base = np.ones(len(truth)) if weight is None else np.asarray(weight, dtype=np.float64)
    thresholds = candidate_thresholds(positive)
    place = np.searchsorted(thresholds, positive, side="right")
    function = function_of_counts(metric)
    sign = 1.0 if metrics.get(metric).greater_is_better else -1.0

    def best(weights: Float64) -> int:
        return _middle_of_best(sign * function(_counts(truth, place, weights, len(thresholds))))

    counts = _counts(truth, place, base, len(thresholds))
    scores = function(counts)
    chosen = _middle_of_best(sign * scores)
    generator = np.random.default_rng(seed)
    resampled = [
        thresholds[best(base * np.bincount(generator.integers(0, len(truth), len(truth)), minlength=len(truth)))]
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(resampled, [0.025, 0.975])
    if len(np.unique(folds)) < 2:
        folds = generator.permutation(len(truth)) % 2
    labels = np.zeros((len(truth), 2))
    for fold in np.unique(folds):
        inside = folds == fold
        labels[inside] = labels_at(probability[inside], thresholds[best(np.where(inside, 0.0, base))])
    score_low, score_high = metrics.interval(metric, truth, labels, weight, seed=seed)
    return ChosenThreshold(
        value=float(thresholds[chosen]),
        low=float(low),
        high=float(high),
        score=metrics.score(metric, truth, labels, weight),
        score_low=score_low,
        score_high=score_high,
        at_half=metrics.score(metric, truth, labels_at(probability, DEFAULT), weight),
        **_curve_of(thresholds, scores, counts, chosen),
    )


def assess_threshold(
    metric: str, value: float, truth: Array, probability: Array, weight: Array | None = None, *, seed: int
) -> ChosenThreshold:
    """The threshold `value` as if it were chosen: nothing was fitted to the rows, so its score needs no other folds.

    Args:
        metric, truth, probability: as in `choose_threshold`.
    """
    positive = probability[:, 1].astype(np.float64)
    base = np.ones(len(truth)) if weight is None else np.asarray(weight, dtype=np.float64)
    thresholds = np.unique(np.r_[candidate_thresholds(positive), value])
    place = np.searchsorted(thresholds, positive, side="right")
    counts = _counts(truth, place, base, len(thresholds))
    labels = labels_at(probability, value)
    low, high = metrics.interval(metric, truth, labels, weight, seed=seed)
    chosen = int(np.searchsorted(thresholds, value))
    return ChosenThreshold(
        value=value,
        low=value,
        high=value,
        score=metrics.score(metric, truth, labels, weight),
        score_low=low,
        score_high=high,
        at_half=metrics.score(metric, truth, labels_at(probability, DEFAULT), weight),
        **_curve_of(thresholds, function_of_counts(metric)(counts), counts, chosen),
    )


def _curve_of(thresholds: Float64, scores: Float64, counts: Counts, chosen: int) -> dict[str, Any]:
    """The fields of a `ChosenThreshold` about all thresholds, and the counts at the chosen one."""
    shown = np.flatnonzero(np.isfinite(scores))
    cells = np.column_stack([counts.tp, counts.fp, counts.fn, counts.tn])
    at = dict(zip(("tp", "fp", "fn", "tn"), cells[chosen].tolist(), strict=True))
    return {
        "curve": tuple((rounded(float(thresholds[each])), rounded(float(scores[each]))) for each in shown),
        "counts": tuple(tuple(rounded(cell) for cell in cells[each].tolist()) for each in shown),
        **at,
    }


def candidate_thresholds(positive: Float64) -> Float64:
    """Ascending thresholds in (0, 1) between neighboring probabilities, at most `MOST_THRESHOLDS`, at their quantiles; 0.5 is one
    of them.
    """
    different = np.unique(positive)
    if len(different) > MOST_THRESHOLDS:
        levels = np.linspace(0, 1, MOST_THRESHOLDS)
        different = np.unique(np.quantile(positive, levels, method="nearest"))
    between = (different[1:] + different[:-1]) / 2
    inside = between[(between > 0) & (between < 1)]
    return np.unique(np.r_[DEFAULT, inside])


def _counts(truth: Array, place: Array, weight: Float64, n_thresholds: int) -> Counts:
    """Counts at each threshold; `place` is the number of thresholds that are at most the probability of a row."""
    sums = [np.bincount(place, weights=weight * (truth == code), minlength=n_thresholds + 1) for code in (1, 0)]
    # A row is labeled positive at every threshold up to its place.
    above = [np.cumsum(each[::-1], dtype=np.float64)[::-1][1:] for each in sums]
    tp, fp = above
    return Counts(tp=tp, fp=fp, fn=sums[0].sum() - tp, tn=sums[1].sum() - fp)


def _middle_of_best(values: Float64) -> int:
    """The middle of the longest run of neighboring thresholds with the largest value."""
    largest = np.nanmax(values)
    is_best = np.isclose(values, largest, rtol=1e-12, atol=1e-12)
    edges = np.flatnonzero(np.diff(np.r_[0, is_best.astype(np.int8), 0]))
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    return int((starts[longest] + ends[longest] - 1) // 2)


def function_of_counts(metric: str) -> Callable[[Counts], Float64]:
    """A metric of binary labels as a function of the counts.

    The metric is called with one row for each combination of truth and label, with its count as weight.
    """
    truth = np.array([1.0, 0.0, 1.0, 0.0])
    labels = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    function = metrics.get(metric).value

    def values(counts: Counts) -> Float64:
        cells = np.column_stack([counts.tp, counts.fp, counts.fn, counts.tn])
        return np.array([function(truth, labels, row) if row.sum() > 0 else np.nan for row in cells])

    return values
