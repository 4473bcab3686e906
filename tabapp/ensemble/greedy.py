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
from tabapp.ensemble.calibration import Calibration
from tabapp.ensemble.sampling import sample_rows
from tabapp.ensemble.scaling import fit_scaling
from tabapp.ensemble.temperature import fit_temperature, tempered
from tabapp.policy import POLICY, Policy

Array = npt.NDArray[Any]
Weights = npt.NDArray[np.float64]

MAX_ROWS = 20_000
MAX_CELLS = 80_000
N_PARTS = 5

_TIE = 1e-12


@dataclass(frozen=True)
class EnsembleResult:
    """An ensemble and its score.

    Attributes:
        weights: (candidates,) weights of at least 0 that sum to 1, for predicting new rows.
        blend: the out-of-fold blend: each part of the rows is blended with weights selected on the other parts.
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


def blend(predictions: Sequence[Array], weights: Weights) -> Array:
    """Weighted sum of predictions of equal shape, as float64; predictions with weight 0 are not read."""
    total = np.zeros(np.shape(predictions[0]), dtype=np.float64)
    for prediction, weight in zip(predictions, weights, strict=True):
        if weight > 0:
            total += weight * np.asarray(prediction, dtype=np.float64)
    return total


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


def _parts(folds: npt.NDArray[np.integer], target: Array, metric: str, seed: int) -> npt.NDArray[np.intp]:
    """The part of each row for cross-fitting: its fold, or one of five stratified parts if there is a single fold."""
    _, parts = np.unique(folds, return_inverse=True)
    if parts.max(initial=0) > 0:
        return parts
    noise = np.random.default_rng(seed).random(len(target))
    order = np.lexsort((noise, target))
    n_parts = min(N_PARTS, len(target))
    # Adjacent rows in sorted order go to different parts, which stratifies by class or by value.
    parts[order] = np.arange(len(target)) % max(n_parts, 1)
    return parts


def _blended(candidates: Sequence[Array], selections: Sequence[tuple[npt.NDArray[np.bool_], Weights]]) -> Array:
    """Each part of the rows, blended with its own weights."""
    blended = np.zeros(candidates[0].shape)
    for rows, weights in selections:
        members = [int(i) for i in np.flatnonzero(weights)]
        blended[rows] = blend([candidates[i][rows] for i in members], weights[members])
    return blended


def _harmful(
    candidates: Sequence[Array],
    selections: Sequence[tuple[npt.NDArray[np.bool_], Weights]],
    blended: Array,
    problem: _Problem,
) -> int | None:
    """The member without which the blend has the lowest error, if that is lower by at least `Policy.harm`; None if there is none.

    A part that only this member was selected for is blended with the mean weights of the others.
    """
    scorer = problem.criterion
    offset = 1.0 if scorer.greater_is_better else 0.0
    mean = np.mean([weights for _, weights in selections], axis=0)

    def error(prediction: Array) -> float:
        return offset + scorer.as_loss(metrics.score(scorer.name, problem.target, prediction, problem.weight))

    def without(member: int) -> float:
        others = np.arange(len(mean)) != member
        left = [(rows, (weights if (weights * others).any() else mean) * others) for rows, weights in selections]
        return error(_blended(candidates, [(rows, weights / weights.sum()) for rows, weights in left]))

    members = [int(i) for i in np.flatnonzero(mean)]
    if len(members) < 2:
        return None
    current, errors = error(blended), {member: without(member) for member in members}
    worst = min(members, key=lambda member: errors[member])
    # The error of a metric without a best value may be negative.
    return worst if current - errors[worst] > problem.policy.harm * abs(current) else None


def cross_fitted(
    predictions: Sequence[Array],
    target: Array,
    folds: npt.NDArray[np.integer],
    metric: str,
    weight: Array | None = None,
    *,
    seed: int = 0,
    is_final: bool = True,
    policy: Policy = POLICY,
) -> EnsembleResult:
    """Select an ensemble, and score it with weights that were selected on other rows than those they are scored on.

    The rows of each fold are blended with weights selected on the other folds; a single holdout is split into five parts. The
    returned weights are the mean of these, without those below `Policy.least_weight`. The mean is a bagged selection (Caruana et
    al. 2004, section 2.3): no candidate gets a large weight by luck on a few rows. Members without which the cross-fitted error is
    lower by `Policy.harm` are left out, one after another. Where the metric is the log loss, weights that are selected with sharper
    probabilities replace them if the calibrated blend gains (`Policy.sharper`).

    Args:
        predictions: candidates' held-out predictions of the same rows, each (rows, classes) or (rows,).
        target: (rows,) class codes or numbers.
        folds: (rows,) the fold that each row was held out in.
        is_final: False uses fewer rounds and rows, leaves the probabilities as they are, and approximates the interval of the score
            on large tables.

    Raises:
        ValueError: there is no candidate with finite predictions.
    """
    usable = [i for i, p in enumerate(predictions) if np.isfinite(p).all()]
    if not usable:
        raise ValueError("no candidate has finite predictions")
    candidates, codes = [np.asarray(predictions[i]) for i in usable], np.asarray(target)
    parts = _parts(folds, target, metric, seed)
    rounds, rows = policy.selection_rounds, MAX_ROWS
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

    chosen, blended = _bagged(candidates, parts, problem)
    calibration, prediction = calibrated(blended)
    losses = metrics.get(metric).row_losses
    for temperature in policy.sharper if is_final and len(usable) > 1 else ():
        if losses is None:
            break
        sharper = _bagged(candidates, parts, problem, temperature)
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
    predictions: Sequence[Array],
    parts: npt.NDArray[np.intp],
    problem: _Problem,
    temperature: float | None = None,
) -> tuple[Weights, Array]:
    """The mean of the weights that are selected without each of the parts of the rows, and the blend of each part with those of the
    others. Candidates that do harm get none; the others have a temperature while they are selected."""
    usable = list(range(len(predictions)))
    while len(usable) > 1:
        candidates = [predictions[i] for i in usable]
        selections = [
            (parts == part, _selected(candidates, places, problem, temperature))
            for part in range(int(parts.max(initial=0)) + 1)
            if len(places := np.flatnonzero(parts != part))
        ]
        blended = _blended(candidates, selections)
        harmful = _harmful(candidates, selections, blended, problem)
        if harmful is None:
            mean = np.mean([found for _, found in selections], axis=0)
            chosen = np.where(mean < min(problem.policy.least_weight, mean.max()), 0.0, mean)
            weights = np.zeros(len(predictions))
            weights[usable] = chosen / chosen.sum()
            return weights, blended
        del usable[harmful]
    weights = np.zeros(len(predictions))
    weights[usable] = 1.0
    return weights, np.asarray(predictions[usable[0]])
