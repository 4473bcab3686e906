"""Calibrates the probabilities of an ensemble with one number.

Guo, Pleiss, Sun, Weinberger: "On Calibration of Modern Neural Networks", ICML 2017, section 4.2. The temperature divides the
logarithms of the blended probabilities, since members have no common logits; more than 1 makes probabilities more even.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.ensemble.sampling import sample_rows
from tabapp.policy import POLICY, Policy

Array = npt.NDArray[Any]

LOWEST, HIGHEST = 0.25, 4.0
MAX_CELLS = 200_000
N_PARTS = 5
TOLERANCE = 1e-3
"""Of the logarithm of the temperature: a thousandth of it changes no probability in its third decimal."""


def tempered(probabilities: Array, temperature: float | None) -> Array:
    """(rows, classes) probabilities with a temperature; None and 1 leave them as they are."""
    if temperature is None or temperature == 1 or not probabilities.size:
        return probabilities
    # Relative to the largest of a row, so that a power never vanishes in all classes.
    powers = (probabilities / probabilities.max(axis=1, keepdims=True)) ** (1 / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


def fit_temperature(
    probabilities: Array,
    target: Array,
    metric: str,
    weight: Array | None = None,
    *,
    seed: int = 0,
    policy: Policy = POLICY,
) -> float | None:
    """The temperature with the lowest log loss; None unless temperatures of other rows lower it, without a worse score in the
    metric.

    Args:
        probabilities: (rows, classes) out-of-fold probabilities.
        target: (rows,) class codes.
        metric: name of the metric that must not get worse.
        weight: (rows,) row weights, or None.
    """
    least = policy.calibrated_rows
    if len(target) < least:
        return None
    sample = sample_rows(target, metrics.LOG_LOSS, max(MAX_CELLS // probabilities.shape[1], least), seed, weight)
    values, codes = np.asarray(probabilities)[sample.rows].astype(np.float64), np.asarray(target)[sample.rows]
    shares = np.ones(len(codes)) if sample.weight is None else sample.weight
    part = np.random.default_rng(seed).permutation(len(codes)) % N_PARTS
    own, trust = np.zeros(len(codes)), len(target) / (len(target) + policy.trusted_rows)
    for number in range(N_PARTS):
        rows = part == number
        found = lowest_temperature(values[~rows], codes[~rows], shares[~rows]) ** trust
        own[rows] = metrics.log_loss_rows(codes[rows], tempered(values[rows], found))
    gain = metrics.log_loss_rows(codes, values) - own
    if not float(np.average(gain, weights=shares)) > 0:
        return None
    temperature = round(lowest_temperature(values, codes, shares) ** trust, 4)
    own_weight = sample.weight
    before, after = (metrics.loss(metric, codes, each, own_weight) for each in (values, tempered(values, temperature)))
    return temperature if after <= before + 1e-12 else None


def load_optimizer() -> None:
    """Import what calibration needs, which takes most of a second."""
    import_module("scipy.optimize")


def lowest_temperature(values: Array, codes: Array, shares: Array) -> float:
    """The temperature of (rows, classes) probabilities with the lowest log loss, given class codes and row weights."""
    from scipy.optimize import minimize_scalar

    def loss(logarithm: float) -> float:
        return metrics.score(metrics.LOG_LOSS, codes, tempered(values, math.exp(logarithm)), shares)

    bounds = math.log(LOWEST), math.log(HIGHEST)
    found: Any = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": TOLERANCE})
    return math.exp(float(found.x))
