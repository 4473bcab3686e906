"""Metrics of numbers in target units. To add one, append a `Metric` to `METRICS` and test it in tests/test_metrics.py."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tabapp.metrics.metric import REGRESSION, Array, Metric, mean


def _errors(truth: Array, prediction: Array) -> Array:
    return np.abs(truth.astype(np.float64) - prediction)


def _rmse(truth: Array, prediction: Array, weight: Array | None) -> float:
    return _resampled_rmse(truth, prediction)(weight)


def _resampled_rmse(truth: Array, prediction: Array) -> Callable[[Array | None], float]:
    squares = _errors(truth, prediction) ** 2
    return lambda weight: mean(squares, weight) ** 0.5


def _mae(truth: Array, prediction: Array, weight: Array | None) -> float:
    return _resampled_mae(truth, prediction)(weight)


def _resampled_mae(truth: Array, prediction: Array) -> Callable[[Array | None], float]:
    errors = _errors(truth, prediction)
    return lambda weight: mean(errors, weight)


def _mape(truth: Array, prediction: Array, weight: Array | None) -> float:
    scale = np.maximum(np.abs(truth), np.finfo(np.float64).eps)
    return mean(_errors(truth, prediction) / scale, weight)


def _median_absolute_error(truth: Array, prediction: Array, weight: Array | None) -> float:
    error = _errors(truth, prediction)
    if weight is None:
        return float(np.median(error))
    order = np.argsort(error)
    cumulative = np.cumsum(np.asarray(weight, dtype=np.float64)[order])
    return float(error[order][np.searchsorted(cumulative, cumulative[-1] / 2)])


def _r2(truth: Array, prediction: Array, weight: Array | None) -> float:
    spread = mean((truth - mean(truth, weight)) ** 2, weight)
    return 1.0 - mean(_errors(truth, prediction) ** 2, weight) / spread if spread > 0 else float("nan")


METRICS: tuple[Metric, ...] = (
    Metric(
        name="rmse",
        title="RMSE",
        description="Root mean squared error, in target units; large errors count most",
        tasks=REGRESSION,
        greater_is_better=False,
        needs_probability=False,
        function=_rmse,
        resampler=_resampled_rmse,
        averaging_power=0.5,
    ),
    Metric(
        name="mae",
        title="MAE",
        description="Mean absolute error, in target units",
        tasks=REGRESSION,
        greater_is_better=False,
        needs_probability=False,
        function=_mae,
        criterion="mae",
        resampler=_resampled_mae,
        averaging_power=0.5,
    ),
    Metric(
        name="r2",
        title="R²",
        description="Share of the variance explained; 1 is perfect, 0 is the mean",
        tasks=REGRESSION,
        greater_is_better=True,
        needs_probability=False,
        function=_r2,
        averaging_power=1.0,
        has_unit=False,
    ),
    Metric(
        name="mape",
        title="MAPE",
        description="Mean absolute error as a share of the true value; unusable near zero",
        tasks=REGRESSION,
        greater_is_better=False,
        needs_probability=False,
        function=_mape,
        criterion="mae",
        averaging_power=0.5,
        has_unit=False,
    ),
    Metric(
        name="median_absolute_error",
        title="median absolute error",
        description="Half of the errors are smaller; ignores outliers",
        tasks=REGRESSION,
        greater_is_better=False,
        needs_probability=False,
        function=_median_absolute_error,
        criterion="mae",
        averaging_power=0.5,
    ),
)
