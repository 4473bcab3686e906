"""What a candidate adds to an ensemble, measured on the rows of its folds.

A first fold of a small table has a hundred rows, on which the measured gain has a standard error of 0.01 to 0.02, more than most
gains. Such a measurement is shrunk towards the gain that is expected of any candidate of its kind: in replayed runs of 120 s, the
share of time of candidates that count nowhere falls from 18 to 6 % (`benchmarks/results/lab_variants.json`). The standard error is
that of a delete-group jackknife (Efron & Tibshirani 1993, chapter 11).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.engine.fit.candidates import Scorer
from tabapp.engine.fit.numbering import ScoredRows
from tabapp.ensemble.sampling import sample_rows
from tabapp.policy import POLICY, Policy

MOST_ROWS = 20_000
"""Rows that a gain is measured on."""
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Weights of a candidate in the blends with the ensemble that measure what it adds."""
N_GROUPS, UNCERTAIN_ROWS = 10, 4_000
"""Groups of rows of the delete-group jackknife; with more rows, the standard error is not measured, and counts as 0."""


@dataclass(frozen=True)
class Gain:
    """How much lower an error is, as a share of it, with its standard error: infinite if it cannot be measured, and 0 with so many
    rows that it does not matter."""

    value: float
    error: float = 0.0

    def shrunk(self, prior: float, policy: Policy = POLICY) -> float:
        """The expected gain, given what is expected without the measurement. An infinite gain, over nothing, stays."""
        if math.isnan(self.value):
            return prior
        if math.isinf(self.value) or self.error == 0.0:
            return self.value
        variance = policy.gain_spread**2 + (policy.gain_tail * (self.value - prior)) ** 2
        return prior + (self.value - prior) * variance / (variance + self.error**2)


def prior_gain(trial: int, merit: float, policy: Policy = POLICY) -> float:
    """The expected gain of a candidate that has no score."""
    return 0.0 if trial else policy.gain_of_merit * merit


def gain_over(
    known: list[npt.NDArray[np.float32]],
    prediction: npt.NDArray[np.float32],
    among: npt.NDArray[np.bool_],
    scorer: Scorer,
    metric_name: str,
    seed: int,
) -> Gain:
    """The gain of a prediction over the first of the known ones, which the others join one after another.

    Args:
        known: out-of-fold predictions of all scored rows, each (rows,) or (rows, classes).
        prediction: in the same shape.
        among: (rows,) mask of the rows that are compared.
    """
    metric, compared = metrics.get(metric_name), ScoredRows.where(among)
    weight = compared.of(scorer.weight)
    sample = sample_rows(compared.of(scorer.target), metric.name, MOST_ROWS, seed, weight)
    rows = compared.at(sample.rows)
    stacked = np.stack([rows.of(values) for values in (*known, prediction)]).astype(np.float64)
    target = rows.of(scorer.target)

    def losses_of(blends: npt.NDArray[np.float64], keep: npt.NDArray[np.intp] | slice = slice(None)) -> list[float]:
        weights = None if sample.weight is None else sample.weight[keep]
        parts, function = metric.blended(blends[:, keep], target[keep], weights)
        return [metric.as_loss(function(part)) for part in parts]

    def best_blend(added: npt.NDArray[np.float64], shares: tuple[float, ...]) -> npt.NDArray[np.float64]:
        blends = np.stack([share * added + (1 - share) * current for share in shares])
        return blends[int(np.argmin(losses_of(blends)))]

    current = stacked[0]
    for added in stacked[1:-1]:
        current = best_blend(added, (0.0, *SHARES))
    pair = np.stack([current, best_blend(stacked[-1], SHARES)])
    offset = 1.0 if metric.greater_is_better else 0.0

    def gain(losses: list[float]) -> float:
        return (losses[0] - losses[1]) / max(abs(offset + losses[0]), 1e-9)

    value = gain(losses_of(pair))
    if len(rows) > UNCERTAIN_ROWS:
        return Gain(value)
    n_groups = min(N_GROUPS, len(rows))
    if n_groups < 2:
        return Gain(value, math.inf)
    group = np.random.default_rng(seed).permutation(len(rows)) % n_groups
    without = [gain(losses_of(pair, np.flatnonzero(group != each))) for each in range(n_groups)]
    variance = (n_groups - 1) / n_groups * float(np.sum((np.array(without) - np.mean(without)) ** 2))
    # Without the rows of a group, there may be a single class, which some metrics do not score.
    return Gain(value, math.sqrt(variance) if math.isfinite(variance) else math.inf)
