"""Predictions by the groups of a named column: rates, errors and calibration, with intervals.

Hardt, Price, Srebro: "Equality of Opportunity in Supervised Learning", NeurIPS 2016, for the rates by truth; the difference of
selection rates is demographic parity (Dwork et al., ITCS 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.explain.evaluation import wilson
from tabapp.findings import Gap, Group, Rate

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

LEAST_ROWS = 20
RESAMPLES = 200


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
        rates = (
            _share(SELECTION, label[rows]),
            _share(TRUE_POSITIVE, label[rows & truth]),
            _share(FALSE_POSITIVE, label[rows & ~truth]),
            _share(WRONG, wrong[rows]),
            _mean(CALIBRATION, probability[rows] - truth[rows], seed),
        )
        found.append(Group(level=level, n=n, rates=rates))
    return found


def regressed_groups(slices: Sequence[tuple[str, Mask]], truth: Array, prediction: Array, *, seed: int) -> list[Group]:
    """Groups of a regression."""
    error = prediction - truth
    found: list[Group] = []
    for level, rows in slices:
        if (n := int(rows.sum())) >= LEAST_ROWS:
            rates = (_mean(BIAS, error[rows], seed), _mean(ERROR, np.abs(error[rows]), seed))
            found.append(Group(level=level, n=n, rates=rates))
    return found


def gaps(groups: Sequence[Group], values_of: Callable[[str, str], Array], *, seed: int) -> list[Gap]:
    """The largest difference of each rate between two groups.

    Args:
        values_of: (rate, level) to the (rows,) values whose mean is the rate.
    """
    found: list[Gap] = []
    for rate in [each.name for each in groups[0].rates] if groups else []:
        rates = [(group.rate(rate), group.level) for group in groups]
        known = [(each.value, level) for each, level in rates if each.n >= LEAST_ROWS]
        sorted_ = sorted((value, level) for value, level in known if value is not None)
        if len(sorted_) < 2:
            continue
        (small, lowest), (large, highest) = sorted_[0], sorted_[-1]
        means = [_resampled_means(values_of(rate, level), seed + i) for i, level in enumerate((highest, lowest))]
        differences = means[0] - means[1]
        n_pairs = len(sorted_) * (len(sorted_) - 1) / 2
        low, high = map(float, np.quantile(differences, [0.025, 0.975]))
        spread = float(differences.std())
        z = _normal_quantile(1 - 0.025 / n_pairs)
        clear = large - small > z * spread and spread > 0
        gap = Gap(rate=rate, highest=highest, lowest=lowest, difference=large - small, low=low, high=high, clear=clear)
        found.append(gap)
    return found


def _normal_quantile(level: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(level)


def _share(name: str, hits: Array) -> Rate:
    n = len(hits)
    if not n:
        return Rate(name=name, value=None, low=None, high=None, n=0)
    low, high = wilson(np.array([hits.sum()]), np.array([n]))
    return Rate(name=name, value=float(hits.mean()), low=float(low[0]), high=float(high[0]), n=n)


def _mean(name: str, values: Array, seed: int) -> Rate:
    if not len(values):
        return Rate(name=name, value=None, low=None, high=None, n=0)
    low, high = np.quantile(_resampled_means(values, seed), [0.025, 0.975])
    return Rate(name=name, value=float(values.mean()), low=float(low), high=float(high), n=len(values))


def _resampled_means(values: Array, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    values = np.asarray(values, dtype=np.float64)
    return np.array([values[generator.integers(0, len(values), len(values))].mean() for _ in range(RESAMPLES)])
