"""From what the user asked and what the data is to what the run will do. Everything is chosen, and every choice has a reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import psutil

from tabapp import metrics
from tabapp.data.schema import Column, Schema
from tabapp.errors import UsageError
from tabapp.metrics import Task
from tabapp.models import registry
from tabapp.models.contract import Plugin, Shape
from tabapp.run import events as ev
from tabapp.run.config import RunConfig, check_bounds, command_line

HOLDOUT_ROWS = 100_000
"""Above this many rows `auto` scores on one holdout instead of folds: 20,000 scored rows already give a 95 % interval for an AUC
of 0.9 that is under ±0.005, below what models differ by, and each of five folds would cost as much as the one fit."""
HOLDOUT_FRACTION = 0.2
LARGEST_HOLDOUT = 50_000
DEFAULT_FOLDS = 5


class PlannedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model and, when it sits out, why."""

    name: str
    title: str
    family: str
    reason: str | None = None


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the run does. Kept in the run folder, so that a resumed run does the same.

    Attributes:
        n_classes: 1 for regression.
        folds: how many folds are scored; 1 is a holdout.
        device: for models that can use a GPU; the others stay on the CPU.
        workers: fits at a time, each with `n_threads` threads.
    """

    target: str
    task: Task
    n_classes: int
    metric: str
    validation: str
    validation_reason: str
    folds: int
    budget: float | None
    trials: int | None
    quality: str
    device: str
    workers: int
    n_threads: int
    memory_limit: int
    seed: int
    models: tuple[PlannedModel, ...]

    @property
    def competing(self) -> tuple[PlannedModel, ...]:
        """The models that do not sit out."""
        return tuple(model for model in self.models if model.reason is None)


def available_cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_device(wanted: str) -> str:
    """The device for deep models: what was asked for, or a GPU when there is one.

    torch is imported only where the system shows an NVIDIA device, since that costs more than a second.

    Raises:
        UsageError: a GPU was asked for and there is none, or the name is not a device.
    """
    if wanted == "cpu":
        return "cpu"
    if wanted != "auto" and not wanted.startswith("cuda"):
        raise UsageError(f"There is no device {wanted!r}; use auto, cpu, cuda or cuda:N.")
    n_devices = 0
    if wanted != "auto" or Path("/dev/nvidia0").exists() or Path("/dev/nvidiactl").exists():
        import torch

        n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = wanted.partition(":")[2] or "0"
    index = int(number) if number.isdigit() else n_devices
    if index < n_devices:
        return f"cuda:{index}"
    if wanted == "auto":
        return "cpu"
    raise UsageError(f"The device {wanted!r} is not there: torch sees {n_devices} GPUs; use --device cpu or auto.")


def choose_metric(wanted: str | None, task: Task) -> str:
    """The metric that was asked for, or the task's own.

    Raises:
        UsageError: there is no such metric, it cannot be used, or it is not defined for the task.
    """
    if wanted is None:
        return metrics.default_metric(task)
    metric = metrics.get(wanted)
    if task not in metric.tasks:
        fitting = ", ".join(each.name for each in metrics.for_task(task))
        raise UsageError(f"The metric {wanted} is not defined for a {task} task; choose one of {fitting}.")
    return metric.name


def choose_validation(config: RunConfig, schema: Schema) -> tuple[int, str, str]:
    """How scores are made: (folds, what it is called, why).

    Raises:
        UsageError: the options contradict each other or the data.
    """
    if config.time is not None:
        if config.validation == "cv":
            raise UsageError(
                "--time scores on the latest rows, which --validation cv cannot do; leave one of them out."
            )
        return (
            1,
            "holdout of the latest 20 %",
            f"rows are in order of {config.time}, so the future is not used for the past",
        )
    grouped = f", grouped by {config.group}" if config.group else ""
    kind = "binned" if schema.task == "regression" else "stratified"
    holdout = config.validation == "holdout" or (
        config.validation == "auto" and config.folds is None and schema.rows > HOLDOUT_ROWS
    )
    if holdout:
        fraction = holdout_fraction(schema.rows)
        asked = "as asked" if config.validation == "holdout" else f"more than {HOLDOUT_ROWS:,} rows"
        return (
            1,
            f"{fraction:.0%} {kind} holdout{grouped}",
            f"{asked}; one holdout is as exact as folds would be at this size",
        )
    folds = config.folds or DEFAULT_FOLDS
    reason = (
        "as asked" if config.folds or config.validation == "cv" else f"{schema.rows:,} rows; every row is scored once"
    )
    return folds, f"{folds}-fold {kind} cross-validation{grouped}", reason


def holdout_fraction(rows: int) -> float:
    """Share of the rows that a holdout scores: a fifth, at most 50,000 rows."""
    return min(HOLDOUT_FRACTION, LARGEST_HOLDOUT / rows)


def approximate_shape(schema: Schema, n_classes: int) -> Shape:
    """The size of the problem as the schema tells it, before features are prepared."""
    kinds = [column.kind for column in schema.features]
    n_categorical = sum(kind in ("categorical", "boolean") for kind in kinds)
    n_numeric = sum({"numeric": 1, "datetime": 5, "text": 10}.get(kind, 0) for kind in kinds)
    return Shape(n_rows=schema.rows, n_numeric=n_numeric, n_categorical=n_categorical, n_classes=n_classes)


class _LowestTrial:
    """Draws the low end of every range: enough to see whether a search space can be drawn from at all."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return low

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return low

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        return choices[0]


def _why_out(plugin: Plugin, task: Task, shape: Shape, device: str) -> str | None:
    """Why a plugin sits out on such a table: what it says itself, or that what the engine will ask of it goes wrong.

    A stranger's plugin may raise anything, and that costs its own row, not the run.
    """
    try:
        if (reason := plugin.supports(task, shape)) is not None:
            return reason
        plugin.search_space(_LowestTrial(), task, shape, device)
        given = (plugin.defaults(task, shape, device), *plugin.portfolio(task, shape, device))
        costs = [plugin.cost(task, shape, params, device) for params in given]
        if min(plugin.merit(task, shape), *(min(cost.seconds, cost.n_bytes) for cost in costs)) <= 0:
            return "Its cost and its merit must be above zero."
    except Exception as error:
        return f"It cannot be planned for: {type(error).__name__}: {error}"
    return None


def _planned_models(config: RunConfig, task: Task, shape: Shape, device: str) -> tuple[PlannedModel, ...]:
    registry.check_names((*config.models, *config.exclude))
    planned: list[PlannedModel] = []
    for name in config.models or registry.names():
        found = registry.find(name)
        if found.plugin is None:
            planned.append(PlannedModel(name=name, title=name, family="", reason=found.reason))
            continue
        reason = found.reason
        if reason is None and name in config.exclude:
            reason = "excluded"
        if reason is None and task not in found.plugin.tasks:
            reason = f"does not do {task}"
        if reason is None:
            reason = _why_out(found.plugin, task, shape, device)
        planned.append(PlannedModel(name=name, title=found.plugin.title, family=found.plugin.family, reason=reason))
    if not any(model.reason is None for model in planned):
        why = "; ".join(f"{model.name}: {model.reason}" for model in planned)
        raise UsageError(f"No model is left to run ({why}).")
    return tuple(planned)


def make_plan(config: RunConfig, schema: Schema) -> Plan:
    """Choose what the user left open.

    Raises:
        UsageError: an option cannot be followed.
    """
    check_bounds(config)
    task: Task = schema.task
    n_classes = len(schema.classes) if task != "regression" else 1
    if not schema.features:
        raise UsageError(
            "No feature column is left; ignore fewer columns or give --kind for those that were set aside."
        )
    folds, validation, why = choose_validation(config, schema)
    device = choose_device(config.device)
    workers, n_threads = _share_cores(config)
    return Plan(
        target=schema.target,
        task=task,
        n_classes=n_classes,
        metric=choose_metric(config.metric, task),
        validation=validation,
        validation_reason=why,
        folds=folds,
        budget=config.budget_seconds,
        trials=config.trials,
        quality=config.quality,
        device=device,
        workers=workers,
        n_threads=n_threads,
        memory_limit=config.memory_limit or int(0.9 * psutil.virtual_memory().available),
        seed=config.seed,
        models=_planned_models(config, task, approximate_shape(schema, n_classes), device),
    )


def _share_cores(config: RunConfig) -> tuple[int, int]:
    """Fits at a time and threads of each: up to four cores a fit each, beyond that four threads a fit.

    Independent fits use cores better than threads inside one fit do, until memory traffic and the number of candidates set a bound.
    """
    cores = available_cores()
    workers = config.workers or (cores if cores <= 4 else max(4, cores // 4))
    return workers, max(1, cores // workers)


def _summary(column: Column) -> str:
    if column.levels:
        total = max(1, sum(column.level_counts))
        return f"{column.levels[0]} {column.level_counts[0] / total:.0%}"
    if column.low is not None and column.high is not None:
        return f"{column.low:g} … {column.high:g}"
    if column.low_text is not None:
        return f"{column.low_text} … {column.high_text}"
    return ""


def schema_event(schema: Schema) -> ev.SchemaInferred:
    """The schema as screens show it."""
    return ev.SchemaInferred(
        columns=tuple(
            ev.ColumnView(
                name=column.name,
                kind=column.kind,
                role=column.role,
                reason=column.reason,
                missing=column.missing,
                unique=column.unique,
                summary=_summary(column),
                histogram=column.histogram,
                overridden=column.overridden,
            )
            for column in schema.columns
        ),
        warnings=tuple(
            ev.WarningView(check=warning.check, column=warning.column, message=warning.message, action=warning.action)
            for warning in schema.warnings
        ),
        rows=schema.rows,
        rows_without_target=schema.rows_without_target,
    )


def plan_event(plan: Plan, schema: Schema, config: RunConfig) -> ev.PlanMade:
    """The plan as screens show it."""
    metric = metrics.get(plan.metric)
    return ev.PlanMade(
        target=plan.target,
        target_reason=schema.target_reason,
        task=plan.task,
        task_reason=schema.task_reason,
        classes=schema.classes,
        metric=plan.metric,
        metric_title=metric.title,
        metrics=tuple(
            ev.MetricView(name=each.name, title=each.title, description=each.description)
            for each in map(metrics.get, metrics.names_for(plan.task, first=plan.metric))
        ),
        greater_is_better=metric.greater_is_better,
        validation=plan.validation,
        validation_reason=plan.validation_reason,
        folds=plan.folds,
        budget=plan.budget,
        trials=plan.trials,
        quality=plan.quality,
        device=plan.device,
        workers=plan.workers,
        seed=plan.seed,
        models=tuple(
            ev.ModelView(name=model.name, title=model.title, family=model.family, reason=model.reason)
            for model in plan.models
        ),
        command=command_line(msgspec.structs.replace(config, target=plan.target)),
    )
