"""Which metrics there are: built-in ones, entry points of the group `tabapp.metrics`, and files in the user's plugin folder.

A third-party metric is a `Metric`. A package exposes it as an entry point of that name; a file `NAME.py` in the plugin folder
assigns it to `METRIC`. Either way its own name must match. A built-in metric takes precedence over a third-party one of its
name, and an entry point over a file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from tabapp.discovery import Discovery, points
from tabapp.errors import UsageError, did_you_mean
from tabapp.metrics import classification, regression
from tabapp.metrics.cost import EXAMPLE, cost_metric, is_cost
from tabapp.metrics.metric import Metric
from tabapp.plugin_files import METRIC_VARIABLE, metric_files
from tabapp.task import Task

GROUP = "tabapp.metrics"
BUILT_IN: dict[str, Metric] = {metric.name: metric for metric in (*classification.METRICS, *regression.METRICS)}
DEFAULTS: dict[Task, str] = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "rmse"}


def names() -> list[str]:
    """Names of all installed metrics, built-in ones first; imports no third-party code."""
    return [*BUILT_IN, *sorted({*points(GROUP), *metric_files()} - set(BUILT_IN))]


def for_task(task: Task) -> list[Metric]:
    """The usable metrics of a task, built-in ones first."""
    found = [known(name) for name in names()]
    return [metric for metric in found if metric is not None and task in metric.tasks]


def names_for(task: Task, *, first: str) -> list[str]:
    """Names of the metrics to evaluate on a task: that of its run first, if it is installed, then the other usable ones."""
    primary = known(first)
    others = [metric.name for metric in for_task(task) if metric.name != first]
    return [first, *others] if primary is not None and task in primary.tasks else others


def default_metric(task: Task) -> str:
    """The metric that models of a task are compared by unless the user chooses another."""
    return DEFAULTS[task]


def get(name: str) -> Metric:
    """The metric of that name, or the one that a specification such as `cost:fn=5,fp=1` describes.

    Raises:
        UsageError: there is none, it cannot be used, or the specification is invalid.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if is_cost(name):
        return _cost(name)
    if name not in names():
        hint = did_you_mean(name, [*names(), EXAMPLE]) or f"; the metrics are {', '.join(names())} and {EXAMPLE}."
        raise UsageError(f"There is no metric named {name!r}{hint}")
    return THIRD_PARTY.get(name)


def known(name: str) -> Metric | None:
    """The metric of that name, or None where it is not installed here or cannot be used."""
    try:
        return get(name)
    except UsageError:
        return None


_cost = cache(cost_metric)


def _why_unusable(name: str, metric: Metric) -> str | None:
    """Try a metric on a dozen rows, so that an error shows before a run and not at its end."""
    if metric.name != name:
        return f"it is named {metric.name!r} instead of {name!r}"
    if metric.selected_by is not None:
        other = BUILT_IN.get(metric.selected_by)
        if other is None or not set(metric.tasks) <= set(other.tasks):
            return f"its selected_by, {metric.selected_by!r}, is no built-in metric of the same tasks"
    for task in metric.tasks:
        for part, attempt in _attempts(metric, task).items():
            try:
                float(attempt())
            except Exception as error:
                return f"its {part} fails on a {task} example: {type(error).__name__}: {error}"
    return None


def _attempts(metric: Metric, task: Task) -> dict[str, Callable[[], Any]]:
    truth, prediction = _example(task)
    weight = np.tile([1.0, 2.0, 0.5], 4)

    def blend() -> float:
        parts, function = metric.blended(np.stack([prediction, prediction[::-1]]), truth, weight)
        return function(parts.mean(axis=0))

    return {
        "function": lambda: metric.function(truth, prediction, None),
        "function with weights": lambda: metric.function(truth, prediction, weight),
        "resampler": lambda: metric.resampled(truth, prediction)(weight),
        "blender": blend,
    }


def _example(task: Task) -> tuple[Any, Any]:
    if task == "regression":
        truth = np.linspace(1.0, 9.0, 12)
        return truth, (truth + np.tile([0.5, -1.0, 0.25], 4)).astype(np.float32)
    n_classes = 2 if task == "binary" else 3
    truth = np.arange(12) % n_classes
    odds = np.eye(n_classes, dtype=np.float32)[truth] + np.linspace(0.2, 2.0, 12, dtype=np.float32)[:, None]
    return truth, odds / odds.sum(axis=1, keepdims=True)


def _in_module(module: ModuleType, name: str) -> object:
    """The metric that a file of the plugin folder defines."""
    return getattr(module, METRIC_VARIABLE)


THIRD_PARTY = Discovery("metric", Metric, (GROUP,), metric_files, _in_module, _why_unusable)
