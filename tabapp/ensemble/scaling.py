"""Calibrates the probabilities of an ensemble with two numbers per class.

Vector scaling (Guo, Pleiss, Sun, Weinberger: "On Calibration of Modern Neural Networks", ICML 2017, section 4.2) of the logarithms
of the blended probabilities. For two classes this is beta calibration (Kull, Silva Filho, Flach: "Beta calibration: a well-founded
and easily implemented improvement on logistic calibration for binary classifiers", AISTATS 2017), and for more, Dirichlet
calibration with a diagonal matrix (Kull et al.: "Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities
with Dirichlet calibration", NeurIPS 2019).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.ensemble.calibration import Calibration, ClassScaling
from tabapp.ensemble.sampling import sample_rows
from tabapp.ensemble.temperature import HIGHEST, LOWEST, N_PARTS, tempered
from tabapp.policy import POLICY, Policy

Array = npt.NDArray[Any]

LEAST_POWER, MOST_POWER = 1 / HIGHEST, 1 / LOWEST
LEAST_PROBABILITY = 1e-12
MAX_CELLS = 500_000
"""More than a temperature uses, since many classes have many numbers: 16,000 rows of 26 classes take about a second."""


def of_mean(scaling: ClassScaling, temperature: float) -> ClassScaling:
    """The scaling of probabilities whose temperature is the given multiple of those that the scaling was fitted on."""
    powers = np.clip(np.asarray(scaling.powers) / temperature, LEAST_POWER, MOST_POWER)
    return ClassScaling(tuple(powers.round(4).tolist()), scaling.factors)


def scaled(probabilities: Array, scaling: ClassScaling) -> Array:
    """(rows, classes) probabilities with the powers and factors of a scaling."""
    with np.errstate(divide="ignore"):
        logarithms = np.log(probabilities) * scaling.powers + np.log(scaling.factors)
    return _normalized(logarithms)


def calibrated(probabilities: Array, calibration: Calibration | None) -> Array:
    """(rows, classes) probabilities with a temperature or a scaling; None leaves them as they are."""
    if isinstance(calibration, ClassScaling):
        return scaled(probabilities, calibration) if probabilities.size else probabilities
    return tempered(probabilities, calibration)


def fit_scaling(
    probabilities: Array,
    target: Array,
    metric: str,
    temperature: float | None = None,
    weight: Array | None = None,
    *,
    seed: int = 0,
    policy: Policy = POLICY,
) -> tuple[ClassScaling, Array] | None:
    """The scaling with the lowest penalized log loss, and the probabilities that scalings fitted on other rows give; None unless
    those have a lower log loss than the temperature, and the scaling no worse score in the metric.

    Args:
        probabilities: (rows, classes) out-of-fold probabilities.
        target: (rows,) class codes.
        metric: name of the metric that must not get worse.
        temperature: the one that was fitted on the same rows; None for 1.
        weight: (rows,) row weights, or None.
    """
    if len(target) < policy.calibrated_rows:
        return None
    values, codes = np.asarray(probabilities, dtype=np.float64), np.asarray(target)
    scaling, own = lowest_scaling(values, codes, temperature, weight, seed=seed, policy=policy)
    before = tempered(values, temperature)
    gain = metrics.log_loss_rows(codes, before) - metrics.log_loss_rows(codes, own)
    if not float(np.average(gain, weights=weight)) > 0:
        return None
    loss_before, loss_after = (metrics.loss(metric, codes, each, weight) for each in (before, scaled(values, scaling)))
    if loss_after > loss_before + 1e-12:
        return None
    return scaling, _in_order(own, values) if own.shape[1] == 2 else own


def lowest_scaling(
    values: Array,
    codes: Array,
    temperature: float | None,
    weight: Array | None = None,
    *,
    seed: int = 0,
    policy: Policy = POLICY,
) -> tuple[ClassScaling, Array]:
    """The scaling with the lowest penalized log loss, and the (rows, classes) probabilities that scalings fitted on other rows
    give.

    Args:
        values: (rows, classes) out-of-fold probabilities.
        codes: (rows,) class codes.
        temperature, weight: as in `fit_scaling`.
    """
    sample = sample_rows(
        codes, metrics.LOG_LOSS, max(MAX_CELLS // values.shape[1], policy.calibrated_rows), seed, weight
    )
    shares = np.ones(len(sample.rows)) if sample.weight is None else sample.weight / sample.weight.mean()
    part = np.random.default_rng(seed).permutation(len(codes)) % N_PARTS
    power = 1.0 / (temperature or 1.0)

    def fitted(used: Array, start: ClassScaling | None = None) -> ClassScaling:
        rows = sample.rows[used]
        return _fitted(values[rows], codes[rows], shares[used], power, policy.scaling_penalty, start)

    whole = fitted(np.ones(len(sample.rows), dtype=np.bool_))
    own = np.empty_like(values)
    for number in range(N_PARTS):
        own[part == number] = scaled(values[part == number], fitted(part[sample.rows] != number, whole))
    return whole, own


def _in_order(own: Array, values: Array) -> Array:
    """The (rows, 2) probabilities that scalings of parts give, in the order of the rows that a single scaling keeps.

    The scalings differ, and would rank the rows of one part above those of another, which lowers the ROC AUC of few rows. Sorted
    probabilities have a slightly lower log loss, so that they do not decide whether there is a scaling.
    """
    positive = np.empty(len(own))
    positive[np.argsort(values[:, 1], kind="stable")] = np.sort(own[:, 1])
    same = np.unique(values[:, 1], return_inverse=True)[1]
    positive = (np.bincount(same, positive) / np.bincount(same))[same]
    return np.column_stack([1.0 - positive, positive])


def _fitted(
    values: Array, codes: Array, shares: Array, power: float, penalty: float, start: ClassScaling | None
) -> ClassScaling:
    """The scaling of (rows, classes) probabilities with the lowest penalized log loss, given class codes and row weights.

    Args:
        start: a scaling that is close to it, if one is known, which saves a fifth of the time.
    """
    from scipy.optimize import minimize

    n_classes, places = values.shape[1], np.arange(len(codes))
    logarithms = np.log(np.maximum(values, LEAST_PROBABILITY))
    truth = np.zeros_like(values)
    truth[places, codes] = 1.0
    center = np.r_[np.full(n_classes, power), np.zeros(n_classes)]
    total = float(shares.sum())

    def loss(numbers: Array) -> tuple[float, Array]:
        probabilities = _normalized(logarithms * numbers[:n_classes] + numbers[n_classes:])
        of_rows = -np.log(np.maximum(probabilities[places, codes], LEAST_PROBABILITY))
        residual, distance = (probabilities - truth) * shares[:, np.newaxis], numbers - center
        gradient = np.r_[(residual * logarithms).sum(axis=0), residual.sum(axis=0)] + penalty * distance
        return (float(shares @ of_rows) + penalty / 2 * float(distance @ distance)) / total, gradient / total

    bounds = [(LEAST_POWER, MOST_POWER)] * n_classes + [(None, None)] * n_classes
    first = center if start is None else np.r_[start.powers, np.log(start.factors)]
    found: Any = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds)
    factors = tuple(float(f"{factor:.6g}") for factor in np.exp(found.x[n_classes:]))
    return ClassScaling(tuple(found.x[:n_classes].round(4).tolist()), factors)


def _normalized(logarithms: Array) -> Array:
    powers = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
