"""What new rows gain from the mean of the models of all folds, which no out-of-fold prediction shows: each is of one model.

The squared error of a mean is the mean of the squared errors, less the variance of what is averaged (Krogh, Vedelsby: "Neural
Network Ensembles, Cross Validation, and Active Learning", NIPS 1994, equation 4). The variance of fold models on new rows is not
observed, since all of them but one were fitted on each row. A model that was fitted on a row predicts the target for a part h of
its prediction, and for the rest, what it would predict without the row; h is 1 for a row that it has learned by heart. So the
variance on known rows is E[(1 - h)²] of that on new rows, which is at most E[1 - h]: dividing it by the second underestimates the
gain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.ensemble.temperature import lowest_temperature
from tabapp.policy import POLICY, Policy

Array = npt.NDArray[Any]

LEAST_FOLDS = 3
"""With two folds, a single model was fitted on each row."""
LEAST_PROBABILITY = 1e-6
N_DRAWS = 10


@dataclass(frozen=True)
class Averaging:
    """The gain of the mean over a single fold model.

    Attributes:
        share: how much lower the squared error or the Brier score is, as a share of it.
        temperature: factor of the temperature: a mean is less sure than the models that it is made of.
    """

    share: float = 0.0
    temperature: float = 1.0

    def score(self, metric: str, score: float) -> float:
        """The expected score of the mean, given that of single fold models; unchanged for a metric without `averaging_power`.

        It is an approximation for metrics that are not proportional to a power (`benchmarks/results/averaging.json`).
        """
        found = metrics.get(metric)
        if found.averaging_power is None:
            return score
        best = 1.0 if found.greater_is_better else 0.0
        return best + (score - best) * (1.0 - self.share) ** found.averaging_power


NO_AVERAGING = Averaging()


def averaging_of(
    predictions: Array,
    own: npt.NDArray[np.integer],
    target: Array,
    weight: Array | None = None,
    *,
    seed: int = 0,
    policy: Policy = POLICY,
) -> Averaging:
    """Estimate the gain from what the models of all folds predict for the same rows.

    Args:
        predictions: (folds, rows, classes) or (folds, rows), of an ensemble with the models of each fold.
        own: (rows,) the position of the fold whose models were not fitted on the row.
        target: (rows,) class codes or numbers.
        weight: (rows,) row weights, or None.
    """
    n_folds, n_rows = predictions.shape[:2]
    if n_folds < LEAST_FOLDS or n_rows < 2:
        return NO_AVERAGING
    values = np.asarray(predictions, dtype=np.float64)
    places = np.arange(n_rows)
    others = (own + np.arange(1, n_folds)[:, np.newaxis]) % n_folds
    unseen, seen = values[own, places], values[others, places]
    truth = np.asarray(target) if values.ndim == 2 else np.eye(values.shape[2])[np.asarray(target, dtype=np.int64)]
    residual = truth - unseen

    def mean(cells: Array) -> float:
        return float(np.average(cells.reshape(n_rows, -1).sum(axis=1), weights=weight))

    error = mean(residual**2)
    if not error > 0:
        return NO_AVERAGING
    pull = min(max(mean((seen.mean(axis=0) - unseen) * residual) / error, 0.0), policy.most_pull)
    variance = mean(seen.var(axis=0, ddof=1)) / (1.0 - pull)
    share = min((1.0 - 1.0 / n_folds) * variance / error, policy.most_averaging)
    if values.ndim == 2:
        return Averaging(share)
    factor = _temperature_factor(unseen, seen, np.asarray(target), weight, 1.0 / (1.0 - pull), seed)
    return Averaging(share, max(factor, policy.least_temperature_factor))


def _temperature_factor(
    unseen: Array, seen: Array, target: Array, weight: Array | None, variance_ratio: float, seed: int
) -> float:
    """The ratio of the best temperatures of the mean and of single models, by simulation and extrapolation.

    With as much noise again as fold models have on new rows, the best temperature of single models rises; without the noise that
    the mean does not have, it falls by as much (Cook, Stefanski: "Simulation-Extrapolation Estimation in Parametric Measurement
    Error Models", Journal of the American Statistical Association 89, 1994, with a linear extrapolation).

    Args:
        variance_ratio: the variance of the models on new rows over that on known rows.
    """
    shares = np.ones(len(target)) if weight is None else np.asarray(weight, dtype=np.float64)
    logarithms, known = _logarithms(unseen), _logarithms(seen)
    generator, places = np.random.default_rng(seed), np.arange(len(target))
    before = math.log(lowest_temperature(unseen, target, shares))
    after: list[float] = []
    for _ in range(N_DRAWS):
        first = generator.integers(0, len(seen), len(target))
        second = (first + generator.integers(1, len(seen), len(target))) % len(seen)
        # The difference of two independent values has twice the variance of one.
        noise = math.sqrt(0.5 * variance_ratio) * (known[first, places] - known[second, places])
        after.append(math.log(lowest_temperature(_probabilities(logarithms + noise), target, shares)))
    n_folds = len(seen) + 1
    factor = math.exp(-(1.0 - 1.0 / n_folds) * (float(np.mean(after)) - before))
    return min(factor, 1.0)


def _logarithms(probabilities: Array) -> Array:
    return np.log(np.maximum(probabilities, LEAST_PROBABILITY))


def _probabilities(logarithms: Array) -> Array:
    powers = np.exp(logarithms - logarithms.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
