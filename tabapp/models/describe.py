"""Describe a plugin for documentation: its hyperparameters, search space, cost, and the tables for which it is skipped.

Everything is obtained by calling the plugin, so that a description cannot disagree with what a run does.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from tabapp.features.arrays import FeatureRecipe
from tabapp.models.contract import Cost, Params, Plugin, Shape
from tabapp.models.departures import departures, without_notes
from tabapp.task import Task

REFERENCE_SHAPE = Shape(n_rows=10_000, n_numeric=10, n_categorical=4, n_classes=2)
"""Shape for which defaults and search spaces are described, unless another one is asked for."""
COST_ROWS = (1_000, 10_000, 100_000)
PROBES = (
    *(Shape(n_rows, 10, 4, 2) for n_rows in (10, 100, 1_000, 10_000, 100_000, 1_000_000, 100_000_000)),
    *(Shape(10_000, n_numeric, 4, 2) for n_numeric in (100, 1_000, 10_000, 1_000_000)),
    *(Shape(10_000, 10, 4, n_classes) for n_classes in (10, 100, 1_000, 10_000)),
    Shape(10_000, 0, 0, 2),
    Shape(10_000, 10, 0, 2),
    Shape(10_000, 0, 10, 2),
)
"""Shapes for which `supports` is called to collect its reasons."""
MAX_INT_VALUES = 32
CLASSES: dict[Task, int] = {"binary": 2, "multiclass": 3, "regression": 1}


@dataclass(frozen=True)
class Hyperparameter:
    """A field of a plugin's hyperparameters.

    Attributes:
        name: its name.
        default: its value in `Plugin.defaults` for the described shape, as a JSON value.
        text: its description from the class docstring; empty if it has none.
    """

    name: str
    default: Any
    text: str


@dataclass(frozen=True)
class Distribution:
    """What a search space draws one value from.

    Attributes:
        name: the name in the Optuna study.
        kind: the type of the values.
        low, high, step, log: the range of a float or an int; None, and False, for a categorical value.
        choices: the values of a categorical distribution.
        condition: names of other draws, each with the values under which this draw is made; empty if it is always made.
    """

    name: str
    kind: Literal["float", "int", "categorical"]
    low: float | None = None
    high: float | None = None
    step: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()
    condition: tuple[tuple[str, tuple[Any, ...]], ...] = ()


@dataclass(frozen=True)
class CostEstimate:
    """The estimated cost of one fit of the defaults for a shape."""

    shape: Shape
    cost: Cost


@dataclass(frozen=True)
class SkipReason:
    """A shape for which a model is skipped.

    Attributes:
        task: the task that was asked about.
        shape: the shape that was asked about.
        reason: what `supports` returned.
        rule: the part of the reason before a semicolon, which does not mention the shape.
    """

    task: Task
    shape: Shape
    reason: str
    rule: str


@dataclass(frozen=True)
class ModelDescription:
    """What documentation says about a model.

    Attributes:
        name, title, family, paper, tasks, requires: as in `Plugin`.
        starts_first, has_attention, has_attention_maps, predicts_from_rows, can_impute, contains_training_rows: as in `Plugin`.
        weights: groups of pre-trained weights that `tabapp weights` installs.
        text: docstring of the plugin class, without departures.
        departures: differences from the paper, with their reasons, also those of shared code.
        recipe: the arrays that it takes.
        task, shape, device: what defaults, portfolio and search space are described for.
        hyperparameters: all fields, with their defaults.
        portfolio: for each strong configuration, the values that differ from the defaults.
        search_space: all distributions, in the order of the draws.
        search_space_text: docstring of `search_space`, without departures.
        costs: estimates for several numbers of rows, on the device.
        skipped: one entry per reason for which the model is skipped.
    """

    name: str
    title: str
    family: str
    paper: str
    tasks: tuple[Task, ...]
    requires: tuple[str, ...]
    starts_first: bool
    has_attention: bool
    has_attention_maps: bool
    predicts_from_rows: bool
    can_impute: bool
    contains_training_rows: bool
    weights: tuple[str, ...]
    text: str
    departures: tuple[str, ...]
    recipe: FeatureRecipe
    task: Task
    shape: Shape
    device: str
    hyperparameters: tuple[Hyperparameter, ...]
    portfolio: tuple[dict[str, Any], ...]
    search_space: tuple[Distribution, ...]
    search_space_text: str
    costs: tuple[CostEstimate, ...]
    skipped: tuple[SkipReason, ...]


def describe(
    plugin: Plugin, *, task: Task | None = None, shape: Shape = REFERENCE_SHAPE, device: str = "cpu"
) -> ModelDescription:
    """Describe a plugin.

    Args:
        plugin: the plugin.
        task: task of the defaults and the search space; the first one that the plugin supports if None.
        shape: rows and columns for them; its number of classes is replaced by that of the task.
        device: "cpu" or "cuda:0".
    """
    task = task or plugin.tasks[0]
    shape = Shape(shape.n_rows, shape.n_numeric, shape.n_categorical, CLASSES[task])
    defaults = plugin.defaults(task, shape, device)
    values = _json_values(defaults)
    texts = field_texts(type(defaults))
    return ModelDescription(
        name=plugin.name,
        title=plugin.title,
        family=plugin.family,
        paper=plugin.paper,
        tasks=plugin.tasks,
        requires=plugin.requires,
        starts_first=plugin.starts_first,
        has_attention=plugin.has_attention,
        has_attention_maps=plugin.has_attention_maps,
        predicts_from_rows=plugin.predicts_from_rows,
        can_impute=plugin.can_impute,
        contains_training_rows=plugin.contains_training_rows,
        weights=tuple(dict.fromkeys(each.group for each in plugin.weights)),
        text=without_notes(type(plugin).__doc__),
        departures=departures(plugin),
        recipe=plugin.features(),
        task=task,
        shape=shape,
        device=device,
        hyperparameters=tuple(Hyperparameter(name, value, texts.get(name, "")) for name, value in values.items()),
        portfolio=tuple(
            {name: value for name, value in _json_values(params).items() if value != values[name]}
            for params in plugin.portfolio(task, shape, device)
        ),
        search_space=search_space(plugin, task, shape, device),
        search_space_text=without_notes(type(plugin).search_space.__doc__),
        costs=tuple(
            CostEstimate(each, plugin.cost(task, each, plugin.defaults(task, each, device), device))
            for each in (Shape(n, shape.n_numeric, shape.n_categorical, shape.n_classes) for n in COST_ROWS)
            if plugin.supports(task, each) is None
        ),
        skipped=skip_reasons(plugin),
    )


@dataclass
class RecordingTrial:
    """A stand-in for an Optuna trial that records distributions and answers with fixed values.

    Attributes:
        fixed: answers by name. Other draws answer with the lowest value or the first choice.
        seen: the recorded distributions by name, in order.
    """

    fixed: dict[str, Any] = field(default_factory=dict[str, Any])
    seen: dict[str, Distribution] = field(default_factory=dict[str, Distribution])

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Record a float distribution."""
        return self._answer(Distribution(name, "float", low, high, step, log), low)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Record an int distribution."""
        return self._answer(Distribution(name, "int", low, high, step, log), low)

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        """Record a categorical distribution."""
        return self._answer(Distribution(name, "categorical", choices=tuple(choices)), choices[0])

    def _answer(self, distribution: Distribution, first: Any) -> Any:
        self.seen.setdefault(distribution.name, distribution)
        return self.fixed.get(distribution.name, first)


def search_space(plugin: Plugin, task: Task, shape: Shape, device: str) -> tuple[Distribution, ...]:
    """All distributions that a plugin may draw from, including those that depend on other draws.

    `Plugin.search_space` is called with every value of every categorical or int draw, one at a time (with both ends of an int draw
    that has more than `MAX_INT_VALUES` values). A draw that appears only then is conditional.
    """
    found: dict[str, Distribution] = {}
    conditions: dict[str, dict[str, list[Any]]] = {}
    pending: list[dict[str, Any]] = [{}]
    while pending:
        fixed = pending.pop(0)
        trial = RecordingTrial(fixed)
        plugin.search_space(trial, task, shape, device)
        for name, distribution in trial.seen.items():
            if name not in found:
                found[name] = distribution
                conditions[name] = {other: [value] for other, value in fixed.items()}
                pending += [{**fixed, name: value} for value in _values(distribution)[1:]]
            elif fixed and list(conditions[name]) == list(fixed):
                values = conditions[name][next(reversed(fixed))]
                if (value := next(reversed(fixed.values()))) not in values:
                    values.append(value)
    return tuple(
        replace(each, condition=tuple((other, tuple(values)) for other, values in conditions[name].items()))
        for name, each in found.items()
    )


def _values(distribution: Distribution) -> tuple[Any, ...]:
    """The values of a categorical or int draw that `search_space` tries."""
    if distribution.kind == "categorical":
        return distribution.choices
    if distribution.kind == "float" or distribution.low is None or distribution.high is None:
        return ()
    low, high, step = int(distribution.low), int(distribution.high), int(distribution.step or 1)
    values = tuple(range(low, high + 1, step))
    return values if len(values) <= MAX_INT_VALUES else (low, high)


def skip_reasons(plugin: Plugin) -> tuple[SkipReason, ...]:
    """One entry per reason for which the plugin is skipped, among the shapes in `PROBES`."""
    found: dict[str, SkipReason] = {}
    for probe in PROBES:
        for task in plugin.tasks:
            n_classes = probe.n_classes if task == "multiclass" else CLASSES[task]
            shape = Shape(probe.n_rows, probe.n_numeric, probe.n_categorical, n_classes)
            if reason := plugin.supports(task, shape):
                rule = reason.partition(";")[0].rstrip(".") + "."
                found.setdefault(rule, SkipReason(task, shape, reason, rule))
    return tuple(found.values())


def field_texts(params_type: type[Params]) -> dict[str, str]:
    """Descriptions of hyperparameters from the "Attributes:" sections of a class and its bases.

    An entry is `name: text` or `name, name: text`, indented by four spaces; its further lines are indented more.
    """
    texts: dict[str, str] = {}
    for base in reversed(params_type.__mro__):
        section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n")[0]
        for entry in re.split(r"\n(?=\S)", inspect.cleandoc("\n" + section)) if section else ():
            names, _, text = " ".join(entry.split()).partition(": ")
            texts |= {name.strip(): text for name in names.split(",")}
    return texts


def _json_values(params: Params) -> dict[str, Any]:
    return msgspec.to_builtins(params)
