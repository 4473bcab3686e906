"""Makes the plan of a run from the user's options and the schema. Every choice has a reason that the user can read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tabapp import files, metrics
from tabapp.data.other_targets import learnable
from tabapp.data.schema import Schema
from tabapp.engine.machine.capacity import Machines, memory_limit_of, share_cores
from tabapp.engine.machine.devices import CPU, GPU, device_class, device_for
from tabapp.engine.machine.gpus import further_gpus
from tabapp.engine.machine.slots import FITS_PER_GPU
from tabapp.engine.plan.device import device_of, usable_device
from tabapp.engine.plan.fixed import directions_of, fixed_of
from tabapp.engine.plan.validation import choose_validation
from tabapp.errors import UsageError, option
from tabapp.models import registry
from tabapp.models.contract import MONOTONIC, Plugin, Shape
from tabapp.models.presets import with_fixed
from tabapp.models.stated import imports_lightly, stated_title
from tabapp.run.options.config import RunConfig, check_config
from tabapp.task import Task

LEAST_UNLABELED = 200
"""Rows without a target from which pre-trained variants are planned."""
HIDDEN_RATE = "hidden_rate"
"""The hyperparameter of networks that `--hide-cells` sets."""
NOT_MONOTONIC = "cannot keep its predictions from falling or rising with a column (--monotonic)"


class PlannedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model of the plan.

    Attributes:
        reason: why it is skipped; None when it competes.
        pending: its plugin is not loaded yet, so its family and whether it competes are not known.
        named: `--models` has its name, so it competes wherever its plugin can.
        uses_device, predicts_from_rows: as in `Plugin`.
        is_offered: False for a pre-trained model whose weights or packages are not installed and that `--models` does not name: it
            has no row on the leaderboard.
        device: class of the devices that its fits run on (`chosen_device`); None if it is skipped or pending.
    """

    name: str
    title: str
    family: str
    reason: str | None = None
    pending: bool = False
    named: bool = False
    uses_device: bool = False
    predicts_from_rows: bool = False
    is_offered: bool = True
    device: str | None = None


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the run does. Saved in the run folder, so that a resumed run does the same.

    Attributes:
        n_classes: 1 for regression.
        folds: number of scored folds; 1 for a holdout.
        device: device of the models whose fits run on a GPU (`PlannedModel.device`); the others use the CPU.
        further_gpus: GPUs that take fits of these models beside `device`.
        gpu_slots: parallel fits on each GPU.
        workers: parallel fits on the cores if no GPU needs them, each with `n_threads` threads.
        memory_limit: bytes that the engine and all fits may use together.
        n_unlabeled: rows without a target, of the table and of `--unlabelled`.
        n_other_targets: other targets that models may learn, too.
        hide_cells: share of the cells that networks hide in training.
        monotonic: 1 for each column with which predictions may only rise, and -1 where they may only fall.
        fixed: hyperparameters of all trials by model, which the user set.
        patience: auto ends fitting once more time is expected to add little.
        seeds: models of each fold of a member of the final ensemble, whose predictions are averaged.
        notes: warnings, such as that the metric is undefined on some folds; each is a sentence for the user.
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
    n_unlabeled: int = 0
    n_other_targets: int = 0
    hide_cells: float = 0.0
    monotonic: dict[str, int] = {}
    fixed: dict[str, dict[str, Any]] = {}
    notes: tuple[str, ...] = ()
    further_gpus: tuple[str, ...] = ()
    gpu_slots: int = FITS_PER_GPU
    seeds: int = 1
    patience: str = "off"

    @property
    def gpus(self) -> tuple[str, ...]:
        """All GPUs of the run."""
        return () if self.device == CPU else (self.device, *self.further_gpus)

    def on_this_machine(self) -> Plan:
        """The plan with a device that exists here."""
        return msgspec.structs.replace(self, device=usable_device(self.device))

    def fixed_values(self, model: str) -> dict[str, Any]:
        """Hyperparameters of all trials of a model; it may lack those of `--hide-cells` and `--monotonic`."""
        hidden = {HIDDEN_RATE: self.hide_cells} if self.hide_cells else {}
        constrained = {MONOTONIC: self.monotonic} if self.monotonic else {}
        return {**hidden, **constrained, **self.fixed.get(model, {})}

    @property
    def device_reason(self) -> str:
        """Why models train on the CPU although the run has a GPU; empty if all of them may use it."""
        if self.device == CPU:
            return ""
        reasons: list[str] = []
        if networks_use_gpu(self.models) and any(not (each.uses_device or each.pending) for each in self.competing):
            reasons.append("only networks train on the GPU, since a long fit of another model would keep them from it")
        stay = [model.title for model in self.competing if model.uses_device and model.device == CPU]
        if stay:
            names = stay[0] if len(stay) == 1 else f"{', '.join(stay[:-1])} and {stay[-1]}"
            verb = "trains" if len(stay) == 1 else "train"
            reasons.append(f"{names} {verb} on the CPU, which is faster than the GPU for a table of this size")
        return "; ".join(reasons)

    @property
    def competing(self) -> tuple[PlannedModel, ...]:
        """The models that are not skipped, those with a pending plugin included."""
        return tuple(model for model in self.models if model.reason is None)


def write_plan(path: Path, plan: Plan) -> Plan:
    """Write a plan to its file, and return it."""
    files.write_bytes(path, msgspec.json.format(msgspec.json.encode(plan), indent=1))
    return plan


def choose_metric(wanted: str | None, task: Task) -> str:
    """The requested metric, or the default of the task.

    Raises:
        UsageError: the metric is unknown, cannot be used, or does not support the task.
    """
    if wanted is None:
        return metrics.default_metric(task)
    metric = metrics.get(wanted)
    if task not in metric.tasks:
        fitting = ", ".join(each.name for each in metrics.for_task(task))
        raise UsageError(f"The metric {wanted} is not defined for a {task} task; choose one of {fitting}.")
    return metric.name


def shape_of(plan: Plan, schema: Schema) -> Shape:
    """The size of the problem of a plan, estimated from the schema."""
    return approximate_shape(
        schema,
        plan.n_classes,
        plan.n_unlabeled,
        plan.n_other_targets,
        n_monotonic=len(plan.monotonic),
        metric=plan.metric,
    )


def approximate_shape(
    schema: Schema,
    n_classes: int,
    n_unlabeled: int = 0,
    n_other_targets: int = 0,
    n_monotonic: int = 0,
    metric: str = metrics.RMSE,
) -> Shape:
    """The size of the problem estimated from the schema, before features are prepared."""
    kinds = [column.kind for column in schema.features]
    n_categorical = sum(kind in ("categorical", "boolean") for kind in kinds)
    n_numeric = sum({"numeric": 1, "datetime": 5, "text": 10}.get(kind, 0) for kind in kinds)
    return Shape(
        schema.rows,
        n_numeric,
        n_categorical,
        n_classes,
        n_unlabeled,
        n_other_targets,
        n_monotonic,
        target_ratio=schema.target_ratio if metrics.get(metric).early_stopping == metrics.RMSE else 0.0,
    )


def networks_use_gpu(models: Iterable[PlannedModel]) -> bool:
    """Whether a GPU gets fits of networks. A network whose plugin is not loaded yet counts, since boosters start before it."""
    competing = (model for model in models if model.reason is None)
    return any(model.pending or (model.uses_device and model.device == GPU) for model in competing)


def chosen_device(plugin: Plugin, task: Task, shape: Shape, device: str, models: Iterable[PlannedModel]) -> str:
    """The device that a plan chooses for the fits of a model.

    A GPU runs one fit at a time, so a long fit of a booster keeps networks from it. A booster that may use either device gets the
    GPU only if no network uses it (`benchmarks/results/devices_120s.json`).

    Args:
        device: the device of the run.
        models: of the plan.
    """
    yields = not plugin.uses_device and networks_use_gpu(models)
    return CPU if yields else device_for(plugin, task, shape, device)


def fit_device(plugin: Plugin, plan: Plan, shape: Shape) -> str:
    """The device of the fits of a model in a run: that of the plan, or the one that it would choose for a model without any."""
    planned = next((model.device for model in plan.models if model.name == plugin.name), None)
    if planned is None:
        return chosen_device(plugin, plan.task, shape, plan.device, plan.models)
    return plan.device if planned == GPU else CPU


class _LowestTrial:
    """Suggests the low end of every range: enough to find out whether a search space raises."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return low

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return low

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        return choices[0]


def _why_skipped(
    plugin: Plugin,
    task: Task,
    shape: Shape,
    device: str,
    memory_limit: int,
    fixed: Mapping[str, Any],
    models: Iterable[PlannedModel],
    *,
    named: bool,
) -> str | None:
    """Why a plugin does not compete on such a table: its own reason, or the error of a method that the engine will call.

    A third-party plugin may raise anything; that skips the model and does not end the run.
    """
    try:
        if (reason := plugin.supports(task, shape)) is not None:
            return reason
        if not named and (reason := plugin.skipped_by_default(task, shape)) is not None:
            return f"{reason} --models {plugin.name} starts it."
        device = chosen_device(plugin, task, shape, device, models)
        plugin.search_space(_LowestTrial(), task, shape, device)
        given = (plugin.defaults(task, shape, device), *plugin.portfolio(task, shape, device))
        costs = [plugin.cost(task, shape, with_fixed(params, fixed), device) for params in given]
        later = plugin.later_share(shape)
        if min(plugin.merit(task, shape), *(min(cost.seconds, cost.n_bytes) for cost in costs)) <= 0:
            return "its cost and its merit must be positive"
        if not 0 < later < math.inf:
            return f"later_share must be positive and finite, and is {later}"
        if device == CPU and costs[0].n_bytes > memory_limit:
            needed, allowed = costs[0].n_bytes / 2**30, memory_limit / 2**30
            return f"It needs about {needed:.1f} GiB of memory; {allowed:.1f} GiB are allowed (--memory-limit)."
    except Exception as error:
        return f"its plugin raised {type(error).__name__}: {error}"
    return None


def supports_monotonic(plugin: Plugin) -> bool:
    """Whether a model has the hyperparameter that `--monotonic` sets."""
    return MONOTONIC in plugin.params_type.__struct_fields__


def planned_model(
    name: str,
    task: Task,
    shape: Shape,
    device: str,
    memory_limit: int,
    fixed: Mapping[str, Mapping[str, Any]],
    models: Sequence[PlannedModel] = (),
    *,
    named: bool,
) -> PlannedModel:
    """Load a plugin and decide whether it competes, and on which device.

    Args:
        models: of the plan, as far as they are known.
    """
    found = registry.find(name)
    if found.plugin is None:
        return PlannedModel(name=name, title=name, family="", reason=found.reason, named=named)
    reason = found.reason
    if reason is None and task not in found.plugin.tasks:
        reason = f"does not support {task} tasks"
    if reason is None and shape.n_monotonic and not supports_monotonic(found.plugin):
        reason = NOT_MONOTONIC
    if reason is None:
        own = fixed.get(name, {})
        reason = _why_skipped(found.plugin, task, shape, device, memory_limit, own, models, named=named)
    # A model that is skipped may have a plugin whose methods raise.
    used = None if reason is not None else device_class(chosen_device(found.plugin, task, shape, device, models))
    return PlannedModel(
        name=name,
        title=found.plugin.title,
        family=found.plugin.family,
        reason=reason,
        named=named,
        uses_device=found.plugin.uses_device,
        predicts_from_rows=found.plugin.predicts_from_rows,
        is_offered=named or found.reason is None or not found.plugin.weights,
        device=used,
    )


def variants_for(shape: Shape) -> list[str]:
    """Names of the pre-trained variants that are planned for a table."""
    return registry.variants() if shape.n_unlabeled >= LEAST_UNLABELED else []


def planned_models(
    config: RunConfig,
    task: Task,
    shape: Shape,
    device: str,
    memory_limit: int,
    fixed: Mapping[str, Mapping[str, Any]],
    *,
    staged: bool,
) -> tuple[PlannedModel, ...]:
    """The models of a plan; the arguments are those of `make_plan` and `planned_model`."""
    registry.check_names((*config.models, *config.exclude))
    names, named = config.models or (*registry.names(), *variants_for(shape)), bool(config.models)

    def planned_now(name: str, models: Sequence[PlannedModel] = ()) -> PlannedModel:
        planned = planned_model(name, task, shape, device, memory_limit, fixed, models, named=named)
        return msgspec.structs.replace(planned, reason="excluded") if name in config.exclude else planned

    def planned_later(name: str) -> PlannedModel:
        excluded = name in config.exclude
        reason = "excluded" if excluded else None
        title = stated_title(name)
        return PlannedModel(name=name, title=title, family="", reason=reason, pending=not excluded, named=named)

    planned = {name: planned_now(name) for name in names if imports_lightly(name)}
    plan_one = planned_later if staged and any(model.reason is None for model in planned.values()) else planned_now
    planned |= {name: plan_one(name) for name in names if name not in planned}
    on_gpu = [name for name, model in planned.items() if model.device == GPU and not model.uses_device]
    planned |= {name: planned_now(name, tuple(planned.values())) for name in on_gpu}
    if not any(model.reason is None for model in planned.values()):
        why = "; ".join(f"{name}: {planned[name].reason}" for name in names)
        raise UsageError(
            f"None of the selected models can run ({why}). Change {option('models')} or {option('exclude')}."
        )
    return tuple(planned[name] for name in names)


def with_pending_models(plan: Plan, shape: Shape) -> Plan:
    """The plan with its pending models planned; loads their plugins."""
    models = (
        planned_model(
            model.name, plan.task, shape, plan.device, plan.memory_limit, plan.fixed, plan.models, named=model.named
        )
        if model.pending
        else model
        for model in plan.models
    )
    return msgspec.structs.replace(plan, models=tuple(models))


def make_plan(
    config: RunConfig, schema: Schema, *, n_more: int = 0, staged: bool = False, machines: Machines | None = None
) -> Plan:
    """Make the plan of a run.

    Args:
        n_more: rows of the file `--unlabelled`.
        machines: those of a cluster; None means this machine.
        staged: leave the models whose plugins take seconds to load pending, if others compete.

    Raises:
        UsageError: an option is not valid for this table.
    """
    check_config(config)
    task: Task = schema.task
    n_classes = len(schema.classes) if task != "regression" else 1
    if not schema.features:
        raise UsageError(
            f"No feature column is left. Ignore fewer columns, or set {option('kind')} for columns that are not used."
        )
    device = device_of(config, machines)
    workers, n_threads = share_cores(config, machines)
    memory_limit = memory_limit_of(config, machines)
    n_unlabeled = schema.rows_without_target + n_more
    n_other_targets = len(learnable(schema, config.other_targets))
    monotonic = directions_of(config, schema)
    fixed = fixed_of(config)
    metric = choose_metric(config.metric, task)
    shape = approximate_shape(schema, n_classes, n_unlabeled, n_other_targets, len(monotonic), metric)
    folds, validation, why = choose_validation(config, schema, shape, workers)
    return Plan(
        target=schema.target,
        task=task,
        n_classes=n_classes,
        metric=metric,
        validation=validation,
        validation_reason=why,
        folds=folds,
        budget=config.budget_seconds,
        trials=config.trials,
        quality=config.quality,
        patience=config.patience,
        seeds=config.seeds,
        device=device,
        workers=workers,
        n_threads=n_threads,
        memory_limit=memory_limit,
        seed=config.seed,
        models=planned_models(config, task, shape, device, memory_limit, fixed, staged=staged),
        n_unlabeled=n_unlabeled,
        n_other_targets=n_other_targets,
        hide_cells=config.hide_cells,
        monotonic=monotonic,
        fixed=fixed,
        further_gpus=further_gpus(config.device, device) if machines is None else (),
        gpu_slots=FITS_PER_GPU if machines is None else max(1, machines.gpus),
    )
