"""Scores by the name of a metric, and their bootstrap intervals."""

from __future__ import annotations

import math

import numpy as np

from tabapp.metrics.metric import Array
from tabapp.metrics.registry import get

Z95 = 1.96
"""Half of a 95 % interval, in standard errors (Efron & Tibshirani 1993, section 12.5)."""
APPROXIMATE_RESAMPLES = 50


def score(name: str, truth: Array, prediction: Array, weight: Array | None = None) -> float:
    """One metric of predictions, in its own units and direction (see `Metric` for the shapes); NaN where it is undefined."""
    if weight is not None and not np.sum(weight) > 0:
        return math.nan
    return get(name).value(truth, prediction, weight)


def loss(name: str, truth: Array, prediction: Array, weight: Array | None = None) -> float:
    """The same number with its sign chosen so that lower is better; infinite where the metric is undefined."""
    return get(name).as_loss(score(name, truth, prediction, weight))


def is_better(name: str, a: float, b: float) -> bool:
    """Whether score `a` is strictly better than score `b`."""
    return a > b if get(name).greater_is_better else a < b


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

    Resamples are drawn as multinomial row counts, which every metric accepts as weights.

    Returns:
        The (low, high) bounds in the metric's units; NaN where no resample has a defined score.
    """
    defined = _resampled(name, truth, prediction, weight, seed, n_resamples)
    if not defined:
        return float("nan"), float("nan")
    tail = (1 - level) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)


def _resampled(
    name: str, truth: Array, prediction: Array, weight: Array | None, seed: int, n_resamples: int
) -> list[float]:
    """The defined scores of resampled rows."""
    n_rows = len(truth)
    generator = np.random.default_rng(seed)
    base = np.ones(n_rows) if weight is None else np.asarray(weight, dtype=np.float64)
    function = get(name).resampled(truth, prediction)
    drawn = (base * np.bincount(generator.integers(0, n_rows, n_rows), minlength=n_rows) for _ in range(n_resamples))
    values = [function(weights) for weights in drawn if weights.sum() > 0]
    return [value for value in values if not np.isnan(value)]


def approximate_interval(
    name: str,
    truth: Array,
    prediction: Array,
    weight: Array | None = None,
    *,
    value: float,
    seed: int,
    max_rows: int = 2_000,
) -> tuple[float, float]:
    """A 95 % interval of the score `value`, for scores that are replaced soon: `interval` takes at least four times as long.

    It uses `APPROXIMATE_RESAMPLES` resamples. With more than `max_rows` rows, it is the standard normal interval of the bootstrap
    (Efron & Tibshirani 1993, section 12.5) on a sample of `max_rows`: a standard error is in proportion to one over the square root
    of the rows.
    """
    n_rows = len(truth)
    if n_rows <= max_rows:
        return interval(name, truth, prediction, weight, seed=seed, n_resamples=APPROXIMATE_RESAMPLES)
    rows = np.sort(np.random.default_rng(seed).choice(n_rows, max_rows, replace=False))
    sampled = truth[rows], prediction[rows], None if weight is None else weight[rows]
    defined = _resampled(name, *sampled, seed, APPROXIMATE_RESAMPLES)
    if len(defined) < 2:
        return float("nan"), float("nan")
    margin = Z95 * float(np.std(defined, ddof=1)) * math.sqrt(max_rows / n_rows)
    return value - margin, value + margin
