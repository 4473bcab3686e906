"""What new rows gain from the mean of the models of all folds, which no out-of-fold prediction shows: each is of one model.

Some rows are held out by two folds. The mean of what two models predict for them has half the variance of the models, so half of
what the mean of very many models gains: the squared error of a mean is the mean of the squared errors, less the variance of what
is averaged (Krogh, Vedelsby: "Neural Network Ensembles, Cross Validation, and Active Learning", NIPS 1994, equation 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.ensemble.temperature import lowest_temperature
from tabapp.policy import POLICY, Policy

Array = npt.NDArray[Any]

LEAST_FOLDS = 3
"""With two folds, no model would be trained on a row that both of them hold out."""
LEAST_ROWS = 40
"""With fewer rows than this number, the estimate is mostly noise."""


@dataclass(frozen=True)
class Averaging:
    """The gain of the mean over a single fold model.

    Attributes:
        share: how much lower the squared error or the Brier score is, as a share of it.
        temperature: factor of the temperature: a mean is less sure than the models that it is made of.
        error: the standard error of the share.
    """

    share: float = 0.0
    temperature: float = 1.0
    error: float = 0.0

    def score(self, metric: str, score: float) -> float:
        """The expected score of the mean, given that of single fold models; unchanged for a metric without `averaging_power`.

        It is an approximation for metrics that are not proportional to a power (`benchmarks/results/averaging.json`).
        """
        found = metrics.get(metric)
        if found.averaging_power is None:
            return score
        best = 1.0 if found.greater_is_better else 0.0
        return best + (score - best) * (1.0 - self.share) ** found.averaging_power

    def error_of(self, metric: str, score: float) -> float:
        """The standard error of the expected score of the mean that comes from the share."""
        return abs(replace(self, share=self.share - self.error).score(metric, score) - self.score(metric, score))

    def interval(self, metric: str, score: float, low: float, high: float) -> tuple[float, float, float]:
        """The expected score of the mean and the limits of its 95 % interval, given those of single fold models; the limits include
        the standard error of the share."""
        found, lowest, highest = (self.score(metric, each) for each in (score, low, high))
        margin = metrics.Z95 * self.error_of(metric, score)
        if not margin > 0:
            return found, lowest, highest
        lowest, highest = found - math.hypot(found - lowest, margin), found + math.hypot(highest - found, margin)
        if metrics.get(metric).greater_is_better:
            return found, lowest, min(highest, 1.0)
        return found, max(lowest, 0.0), highest


NO_AVERAGING = Averaging()


def compared_rows(n_rows: int, policy: Policy = POLICY) -> int:
    """How many rows of a run are held out by two folds; 0 if they would be too few."""
    count = round(policy.compared_rows * math.sqrt(n_rows))
    return count if count >= LEAST_ROWS else 0


def averaging_of(
    first: Array, second: Array, target: Array, n_folds: int, weight: Array | None = None, *, policy: Policy = POLICY
) -> Averaging:
    """Estimate the gain from what the models of two folds predict for the same rows, on which neither was trained.

    Args:
        first, second: (rows, classes) or (rows,), of an ensemble with the models of one fold each.
        target: (rows,) class codes or numbers.
        n_folds: folds whose models are averaged.
        weight: (rows,) row weights, or None.
    """
    n_rows = len(target)
    if n_folds < LEAST_FOLDS or n_rows < LEAST_ROWS or (weight is not None and not weight.sum() > 0):
        return NO_AVERAGING
    pair = np.stack([first, second]).astype(np.float64)
    truth = np.asarray(target) if pair.ndim == 2 else np.eye(pair.shape[2])[np.asarray(target, dtype=np.int64)]

    def errors(predictions: Array) -> Array:
        return ((predictions - truth) ** 2).reshape(len(predictions), n_rows, -1).sum(axis=2).mean(axis=0)

    mean = pair.mean(axis=0, keepdims=True)
    shares = np.ones(n_rows) if weight is None else np.asarray(weight, dtype=np.float64)
    single = shares * errors(pair)
    if not single.sum() > 0:
        return NO_AVERAGING
    # The variance of the mean of n models is 1 / n of that of one, so that of two models shows half of it.
    part = 2.0 * (1.0 - 1.0 / n_folds)
    gain = part * (single - shares * errors(mean))
    share = float(gain.sum() / single.sum())
    error = float(np.sqrt(np.sum((gain - share * single) ** 2)) / single.sum())
    share = min(share, policy.most_averaging)
    if pair.ndim == 2:
        return Averaging(share, error=error)
    codes = np.asarray(target)
    one, two = (
        float(np.mean([math.log(lowest_temperature(each, codes, shares)) for each in predictions]))
        for predictions in (pair, mean)
    )
    factor = math.exp(part * (two - one))
    return Averaging(share, min(max(factor, policy.least_temperature_factor), 1.0), error)
