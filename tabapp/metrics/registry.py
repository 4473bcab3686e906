"""Which metrics there are: built-in ones, entry points of the group `tabapp.metrics`, and files in the user's plugin folder.

A third-party metric is a `Metric`. A package exposes it as an entry point of that name; a file `NAME.py` in the plugin folder
assigns it to `METRIC`. Either way its own name must match. A built-in metric takes precedence over a third-party one of its
name, and an entry point over a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np

from tabapp.errors import UsageError, did_you_mean
from tabapp.metrics import classification, regression
from tabapp.metrics.cost import EXAMPLE, cost_metric, is_cost
from tabapp.metrics.metric import Metric, Task
from tabapp.plugin_files import METRIC_VARIABLE, UnsafePlugin, load_module, metric_files

GROUP = "tabapp.metrics"
BUILT_IN: dict[str, Metric] = {metric.name: metric for metric in (*classification.METRICS, *regression.METRICS)}
DEFAULTS: dict[Task, str] = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "rmse"}


@dataclass(frozen=True)
class Found:
    """A metric that is installed. Where it cannot be used, `metric` is None and `reason` says why."""

    name: str
    metric: Metric | None
    reason: str | None


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def names() -> list[str]:
    """Names of all installed metrics, built-in ones first; imports no third-party code."""
    return [*BUILT_IN, *sorted((set(_entry_points()) | set(metric_files())) - set(BUILT_IN))]


def for_task(task: Task) -> list[Metric]:
    """The usable metrics of a task, built-in ones first."""
    found = [find(name).metric for name in names()]
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
    found = find(name)
    if found.metric is None:
        raise UsageError(f"The metric {name!r} cannot be used: {found.reason}.")
    return found.metric


def known(name: str) -> Metric | None:
    """The metric of that name, or None where it is not installed here or cannot be used."""
    try:
        return get(name)
    except UsageError:
        return None


_cost = cache(cost_metric)


@cache
def find(name: str) -> Found:
    """Import one installed metric. A broken one has a reason and raises nothing."""
    if name in BUILT_IN:
        return Found(name, BUILT_IN[name], None)
    point, file = _entry_points().get(name), metric_files().get(name)
    try:
        if point is not None:
            metric = point.load()
        elif file is not None:
            metric = getattr(load_module(file), METRIC_VARIABLE)
        else:
            return Found(name, None, "it is not installed")
    except UnsafePlugin as error:
        return Found(name, None, str(error))
    except Exception as error:
        return Found(name, None, f"it does not load: {type(error).__name__}: {error}")
    origin = point.value if point is not None else str(file)
    if not isinstance(metric, Metric):
        return Found(name, None, f"{origin} is not a tabapp.metrics.Metric")
    if metric.name != name:
        return Found(name, None, f"{origin} is named {metric.name!r} instead of {name!r}")
    reason = _why_unusable(metric)
    return Found(name, None if reason else metric, reason)


def _why_unusable(metric: Metric) -> str | None:
    """Try a metric on a dozen rows, so that an error shows before a run and not at its end."""
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
