"""Greedy ensemble selection with replacement on held-out predictions, with a cross-fitted score.

Caruana, Niculescu-Mizil, Crew, Ksikes: "Ensemble Selection from Libraries of Models", ICML 2004, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.ensemble.bags import Bags
from tabapp.ensemble.blending import Weights
from tabapp.ensemble.calibration import Calibration
from tabapp.ensemble.sampling import sample_rows
from tabapp.ensemble.scaling import fit_scaling
from tabapp.ensemble.temperature import fit_temperature, tempered
from tabapp.policy import POLICY, Policy

Array = npt.NDArray[Any]

MAX_ROWS, MAX_ROWS_OF_BAG = 20_000, 8_000
MAX_CELLS = 80_000

_TIE = 1e-12


@dataclass(frozen=True)
class EnsembleResult:
    """An ensemble and its score.

    Attributes:
        weights: (candidates,) weights of at least 0 that sum to 1, for predicting new rows.
        blend: the out-of-fold blend: each row is blended with weights selected on other rows.
        calibration: of the probabilities of the blend: the temperature (`fit_temperature`), or the scaling by class (`fit_scaling`)
            if that is better; None leaves them as they are.
        prediction: the blend with that temperature, or with scalings of which each was fitted on other rows.
        score, low, high: score of that prediction with its 95 % bootstrap interval, in the metric's units.
    """

    weights: Weights
    blend: Array
    calibration: Calibration | None
    prediction: Array
    score: float
    low: float
    high: float


@dataclass(frozen=True)
class _Problem:
    """What weights are selected for; the fields are arguments of `select`."""

    target: Array
    metric: str
    weight: Array | None
    n_rounds: int
    seed: int
    max_rows: int
    policy: Policy = POLICY

    @property
    def criterion(self) -> metrics.Metric:
        """The metric that selects."""
        return metrics.get(metrics.get(self.metric).selected_by or self.metric)


def select(
    predictions: Sequence[Array],
    target: Array,
    metric: str,
    weight: Array | None = None,
    n_rounds: int = POLICY.selection_rounds,
    *,
    seed: int = 0,
    max_rows: int = MAX_ROWS,
) -> Weights:
    """Select the weights of a blend greedily with replacement.

    Each round adds the candidate that gives the running mean the lowest loss, in the metric or its `selected_by`; ties go to
    a current member, then to the first. The result is the first round with the lowest loss. A candidate with NaN or infinite
    predictions is never selected.

    NOTE[DIFF] the paper starts with the best models and bags the library; here selection starts empty and uses all candidates, as
    later systems found sufficient. It uses a seeded sample of at most `max_rows` rows (`sample_rows`), fewer with many classes,
    since differences between blends are far less noisy than their scores.

    Args:
        predictions: candidates' predictions, each (rows, classes) or (rows,).
        target: (rows,) class codes or numbers.
        weight: (rows,) row weights, or None.

    Returns:
        (candidates,) weights, multiples of one over the number of rounds used, summing to 1.

    Raises:
        ValueError: there is no candidate with finite predictions.
    """
    usable = [i for i, prediction in enumerate(predictions) if np.isfinite(prediction).all()]
    if not usable:
        raise ValueError("no candidate has finite predictions")
    weights = np.zeros(len(predictions))
    finite, places = [np.asarray(predictions[i]) for i in usable], np.arange(len(target))
    weights[usable] = _selected(finite, places, _Problem(np.asarray(target), metric, weight, n_rounds, seed, max_rows))
    return weights


def _selected(
    predictions: Sequence[Array],
    places: npt.NDArray[np.intp],
    problem: _Problem,
    temperature: float | None = None,
) -> Weights:
    """`select` for finite predictions with a temperature, on the rows at `places`."""
    target, weight = problem.target, problem.weight
    width = predictions[0].shape[1] if np.ndim(predictions[0]) == 2 else 1
    limit = min(problem.max_rows, max(2_000, MAX_CELLS // width))
    own_weight = None if weight is None else weight[places]
    sample = sample_rows(target[places], problem.metric, limit, problem.seed, own_weight)
    rows = places[sample.rows]
    stacked = np.stack([tempered(prediction[rows], temperature) for prediction in predictions]).astype(np.float64)
    scorer = problem.criterion
    stacked, function = scorer.blended(stacked, target[rows], sample.weight)

    total = np.zeros(stacked.shape[1:])
    counts = np.zeros(len(predictions), dtype=np.int64)
    trajectory: list[tuple[float, Weights]] = []
    for size in range(1, problem.n_rounds + 1):
        losses = np.array([scorer.as_loss(function((total + candidate) / size)) for candidate in stacked])
        lowest = losses.min()
        tied = np.isclose(losses, lowest, rtol=_TIE, atol=_TIE) if np.isfinite(lowest) else losses == lowest
        known = tied & (counts > 0)
        best = int(np.flatnonzero(known if known.any() else tied)[0])
        counts[best] += 1
        total += stacked[best]
        trajectory.append((float(losses[best]), counts / size))
        if len(predictions) == 1:
            break
    lowest = min(value for value, _ in trajectory)
    return next(weights for value, weights in trajectory if value <= lowest + _TIE * max(1.0, abs(lowest)))


def cross_fitted(
    predictions: Sequence[Array],
    target: Array,
    metric: str,
    weight: Array | None = None,
    groups: Array | None = None,
    *,
    seed: int = 0,
    is_final: bool = True,
    policy: Policy = POLICY,
) -> EnsembleResult:
    """Select an ensemble, and score it with weights that were selected on other rows than those they are scored on.

    The selection is bagged (Caruana et al. 2004, section 2.3): the weights are the mean of those selected on random thirds of the
    rows, without those below `Policy.least_weight`, so that no candidate gets a large weight by luck on a few rows. Each row is
    blended with the mean of the weights that were selected without it. Where the metric is the log loss, weights that are selected
    with sharper probabilities replace them if the calibrated blend gains (`Policy.sharper`).

    NOTE[DIFF] the paper draws random candidates for each bag, and selects on all rows.

    Args:
        predictions: candidates' held-out predictions of the same rows, each (rows, classes) or (rows,).
        target: (rows,) class codes or numbers.
        groups: (rows,) the group of each row, whose rows are in the same bags; None if rows are independent.
        is_final: False uses fewer rounds and rows, leaves the probabilities as they are, and approximates the interval of the score
            on large tables.

    Raises:
        ValueError: there is no candidate with finite predictions.
    """
    usable = [i for i, p in enumerate(predictions) if np.isfinite(p).all()]
    if not usable:
        raise ValueError("no candidate has finite predictions")
    candidates, codes = [np.asarray(predictions[i]) for i in usable], np.asarray(target)
    bags = Bags.of(codes, groups, seed, is_classes=candidates[0].ndim == 2)
    rounds, rows = policy.selection_rounds, MAX_ROWS_OF_BAG
    if not is_final:
        rounds, rows = policy.interim_rounds, policy.interim_rows
    problem = _Problem(codes, metric, weight, rounds, seed, rows, policy)

    def calibrated(blended: Array) -> tuple[Calibration | None, Array]:
        # On rows of one class, the best calibration predicts nothing else.
        if not is_final or blended.ndim == 1 or len(np.unique(codes)) < 2:
            return None, blended
        temperature = fit_temperature(blended, codes, metric, weight, seed=seed, policy=policy)
        scaling = fit_scaling(blended, codes, metric, temperature, weight, seed=seed, policy=policy)
        return scaling or (temperature, tempered(blended, temperature))

    chosen, blended = _bagged(candidates, bags, problem)
    calibration, prediction = calibrated(blended)
    losses = metrics.get(metric).row_losses
    for temperature in policy.sharper if is_final and len(usable) > 1 else ():
        if losses is None:
            break
        sharper = _bagged(candidates, bags, problem, temperature)
        after = calibrated(sharper[1])
        gain = losses(codes, prediction) - losses(codes, after[1])
        if not float(np.average(gain, weights=weight)) > float(gain.std()) / math.sqrt(len(gain)):
            break
        (chosen, blended), (calibration, prediction) = sharper, after
    weights = np.zeros(len(predictions))
    weights[usable] = chosen
    score = metrics.score(metric, target, prediction, weight)
    interval = metrics.interval if is_final else partial(metrics.approximate_interval, value=score)
    low, high = interval(metric, target, prediction, weight, seed=seed)
    return EnsembleResult(weights, blended, calibration, prediction, score, low, high)


def _bagged(
    candidates: Sequence[Array], bags: Bags, problem: _Problem, temperature: float | None = None
) -> tuple[Weights, Array]:
    """The mean of the weights that are selected on the bags, and the blend of each row with the weights of those without it. The
    candidates have a temperature while they are selected."""
    found = np.array([_selected(candidates, bags.rows(bag), problem, temperature) for bag in range(len(bags.has))])
    mean = found.mean(axis=0)
    chosen = np.where(mean < min(problem.policy.least_weight, mean.max()), 0.0, mean)
    return chosen / chosen.sum(), bags.blended(candidates, found)
