"""Predictions by the groups of a named column: rates, errors and calibration, with intervals.

Hardt, Price, Srebro: "Equality of Opportunity in Supervised Learning", NeurIPS 2016, for the rates by truth; the difference of
selection rates is demographic parity (Dwork et al., ITCS 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.explain.evaluation import wilson

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

LEAST_ROWS = 20
RESAMPLES = 200


@dataclass(frozen=True)
class Rate:
    """A value with its 95 % interval over `n` rows; all None without rows."""

    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Group:
    """The predictions of the rows of a group.

    Attributes:
        rates: by name. For classification: the selection rate (share labeled as the class), the true and the false positive rate,
            the share of wrong labels, and the mean predicted minus the observed frequency. For regression: the mean of prediction
            minus truth, and the mean absolute error.
    """

    level: str
    n: int
    rates: dict[str, Rate]


@dataclass(frozen=True)
class Gap:
    """The difference between the groups with the largest and the smallest value of a rate, with its 95 % bootstrap interval.

    `clear` says whether the interval excludes 0 after a correction for the pairs of groups (Bonferroni).
    """

    rate: str
    highest: str
    lowest: str
    difference: float
    low: float
    high: float
    clear: bool


SELECTION, TRUE_POSITIVE, FALSE_POSITIVE = "selection rate", "true positive rate", "false positive rate"
WRONG, CALIBRATION = "wrong labels", "predicted minus observed"
BIAS, ERROR = "prediction minus truth", "absolute error"


def classified_groups(
    slices: Sequence[tuple[str, Mask]], truth: Mask, label: Mask, probability: Array, wrong: Mask, *, seed: int
) -> list[Group]:
    """Groups of a classification by one class.

    Args:
        slices: name and rows of each group.
        truth, label: (rows,) whether the class is the true one, or the predicted one. probability: (rows,) of the class.
        wrong: (rows,) whether the predicted label is wrong.
    """
    found: list[Group] = []
    for level, rows in slices:
        n = int(rows.sum())
        if n < LEAST_ROWS:
            continue
        rates = {
            SELECTION: _share(label[rows]),
            TRUE_POSITIVE: _share(label[rows & truth]),
            FALSE_POSITIVE: _share(label[rows & ~truth]),
            WRONG: _share(wrong[rows]),
            CALIBRATION: _mean(probability[rows] - truth[rows], seed),
        }
        found.append(Group(level, n, rates))
    return found


def regressed_groups(slices: Sequence[tuple[str, Mask]], truth: Array, prediction: Array, *, seed: int) -> list[Group]:
    """Groups of a regression."""
    error = prediction - truth
    return [
        Group(level, int(rows.sum()), {BIAS: _mean(error[rows], seed), ERROR: _mean(np.abs(error[rows]), seed)})
        for level, rows in slices
        if rows.sum() >= LEAST_ROWS
    ]


def gaps(groups: Sequence[Group], values_of: Callable[[str, str], Array], *, seed: int) -> list[Gap]:
    """The largest difference of each rate between two groups.

    Args:
        values_of: (rate, level) to the (rows,) values whose mean is the rate.
    """
    found: list[Gap] = []
    for rate in groups[0].rates if groups else ():
        known = [(group.rates[rate].value, group.level) for group in groups if group.rates[rate].n >= LEAST_ROWS]
        sorted_ = sorted((value, level) for value, level in known if value is not None)
        if len(sorted_) < 2:
            continue
        (small, lowest), (large, highest) = sorted_[0], sorted_[-1]
        means = [_resampled_means(values_of(rate, level), seed + i) for i, level in enumerate((highest, lowest))]
        differences = means[0] - means[1]
        n_pairs = len(sorted_) * (len(sorted_) - 1) / 2
        low, high = np.quantile(differences, [0.025, 0.975])
        spread = float(differences.std())
        z = _normal_quantile(1 - 0.025 / n_pairs)
        found.append(
            Gap(
                rate, highest, lowest, large - small, float(low), float(high), large - small > z * spread and spread > 0
            )
        )
    return found


def _normal_quantile(level: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(level)


def _share(hits: Array) -> Rate:
    n = len(hits)
    if not n:
        return Rate(None, None, None, 0)
    low, high = wilson(np.array([hits.sum()]), np.array([n]))
    return Rate(float(hits.mean()), float(low[0]), float(high[0]), n)


def _mean(values: Array, seed: int) -> Rate:
    if not len(values):
        return Rate(None, None, None, 0)
    low, high = np.quantile(_resampled_means(values, seed), [0.025, 0.975])
    return Rate(float(values.mean()), float(low), float(high), len(values))


def _resampled_means(values: Array, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    values = np.asarray(values, dtype=np.float64)
    return np.array([values[generator.integers(0, len(values), len(values))].mean() for _ in range(RESAMPLES)])
