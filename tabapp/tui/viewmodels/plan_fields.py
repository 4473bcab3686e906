"""The fields of a plan, one for each option of a run, with what they show and the values that the arrow keys go through."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tabapp.run.options.config import OPTIONS, RunConfig
from tabapp.run.options.option import Option
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.tui.chrome.actions import ACTIONS
from tabapp.tui.viewmodels.texts import count

TASKS = {"binary": "binary classification", "multiclass": "multiclass classification", "regression": "regression"}
NOT_ON_SCREEN = {
    "executor": "The engine joins the cluster before it reads the table, so the command that starts it names the cluster.",
    "address": "It belongs to --executor.",
}
"""Options that no field changes, each with the reason."""
SHARED = {"folds": "validation", "exclude": "models"}
"""Options that the field of another option sets, too."""
NONE = "—"


@dataclass(frozen=True)
class Step:
    """A value that the arrow keys reach: the fields of the configuration that it sets, and its text. `number` places a number that
    is none of the steps between them."""

    options: Mapping[str, Any]
    label: str
    number: float | None = None


@dataclass(frozen=True)
class Field:
    """A field of the plan.

    Attributes:
        name: of its option.
        text: its value in words; `short` where it does not fit, if not empty.
        is_set: its value is not the default.
        is_changed: its value differs from that of the first plan.
        key: that edits it on the whole screen; empty without one.
        steps: values that the arrow keys go through.
        place: index of the current value among the steps; between two of them for another value.
    """

    name: str
    label: str
    text: str
    short: str = ""
    is_set: bool = False
    is_changed: bool = False
    key: str = ""
    steps: tuple[Step, ...] = ()
    place: float = -0.5

    def beside(self, direction: int) -> Step | None:
        """The next step in a direction; None at an end."""
        index = math.floor(self.place) + 1 if direction > 0 else math.ceil(self.place) - 1
        return self.steps[index] if 0 <= index < len(self.steps) else None


def field_names() -> tuple[str, ...]:
    """The options that have a field of their own, in the order of the help."""
    return tuple(name for name in OPTIONS if name not in NOT_ON_SCREEN and name not in SHARED)


def options_of(name: str) -> tuple[str, ...]:
    """The options that a field sets."""
    return (name, *(other for other, field in SHARED.items() if field == name))


def plan_fields(plan: ev.PlanMade, config: RunConfig, changed: frozenset[str] = frozenset()) -> list[Field]:
    """All fields of a plan: those with a key of their own first, otherwise in the order of the help.

    Args:
        config: the configuration of the plan.
        changed: fields of the configuration that differ from those of the first plan.
    """
    keys = {action.action: action.shown_key for action in ACTIONS if action.scope == "data"}
    fields = [_field(name, plan, config, changed, keys.get(f"edit('{name}')", "")) for name in field_names()]
    return sorted(fields, key=lambda field: not field.key)


def _field(name: str, plan: ev.PlanMade, config: RunConfig, changed: frozenset[str], key: str) -> Field:
    option = OPTIONS[name]
    fields = [OPTIONS[each].field for each in options_of(name)]
    steps = _steps(name, plan)
    several = name == "target" and len(plan.targets) > 1
    return Field(
        name=name,
        label="Targets" if several else option.title,
        text=_TEXTS[name](plan) if name in _TEXTS else _plain_text(option, getattr(config, option.field)),
        short={"validation": f"{plan.folds} folds" if plan.folds > 1 else "holdout", "task": plan.task}.get(name, ""),
        is_set=any(getattr(config, OPTIONS[each].field) != OPTIONS[each].default for each in options_of(name)),
        is_changed=any(field in changed for field in fields),
        key=key,
        steps=steps,
        place=_place(steps, name, plan, config),
    )


def _plain_text(option: Option, value: Any) -> str:
    if value == option.default:
        return option.shown_default or (NONE if value in (None, (), {}) else option.text(value))
    return option.text(value)


def default_steps(name: str) -> tuple[Step, ...]:
    """The values that an option offers on every table."""
    option = OPTIONS[name]
    return tuple(Step({option.field: value}, option.text(value), _number(value)) for value in option.values)


def _steps(name: str, plan: ev.PlanMade) -> tuple[Step, ...]:
    if name == "validation":
        return VALIDATIONS
    if name == "positive":
        return tuple(Step({name: label}, label) for label in plan.classes) if plan.task == "binary" else ()
    if name == "budget":
        return tuple(
            Step(step.options, format_duration(step.number or 0.0), step.number) for step in default_steps(name)
        )
    return default_steps(name)


def _place(steps: tuple[Step, ...], name: str, plan: ev.PlanMade, config: RunConfig) -> float:
    current = _current(name, plan, config)
    for index, step in enumerate(steps):
        if all(current.get(field) == value for field, value in step.options.items()):
            return index
    number = next((float(value) for value in current.values() if _number(value) is not None), None)
    below = [index for index, step in enumerate(steps) if number is not None and (step.number or 0.0) < number]
    return below[-1] + 0.5 if below else -0.5


def _current(name: str, plan: ev.PlanMade, config: RunConfig) -> dict[str, Any]:
    """The values of the fields that a field's steps set; where the plan has chosen one, that."""
    if name == "budget":
        return {"budget": plan.budget}
    if name == "positive":
        return {"positive": plan.classes[-1] if plan.classes else None}
    if name == "quality":
        return {"quality": plan.quality}
    if name == "validation" and config.folds is not None:
        return {"validation": "cv", "folds": config.folds}
    return {OPTIONS[each].field: getattr(config, OPTIONS[each].field) for each in options_of(name)}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _models(plan: ev.PlanMade) -> str:
    competing = sum(model.reason is None for model in plan.models)
    known = sum(":" not in choice.name for choice in plan.choices)
    return f"{competing} of {known or len(plan.models)}"


def _positive(plan: ev.PlanMade) -> str:
    if plan.task == "binary" and plan.classes:
        return plan.classes[-1]
    return count(len(plan.classes), "class", "classes") if plan.classes else NONE


def _of_target(plan: ev.PlanMade, text: str) -> str:
    return f"{text} of {plan.target}" if len(plan.targets) > 1 else text


VALIDATIONS = (
    Step({"validation": "auto", "folds": None}, "auto"),
    Step({"validation": "holdout", "folds": None}, "holdout"),
    *(Step({"validation": "cv", "folds": folds}, str(folds), float(folds)) for folds in OPTIONS["folds"].steps),
)
_TEXTS: dict[str, Callable[[ev.PlanMade], str]] = {
    "target": lambda plan: ", ".join(plan.targets or (plan.target,)),
    "task": lambda plan: _of_target(plan, TASKS[plan.task]),
    "metric": lambda plan: _of_target(plan, plan.metric_title),
    "positive": _positive,
    "budget": lambda plan: "no limit" if plan.budget is None else format_duration(plan.budget),
    "quality": lambda plan: plan.quality,
    "models": _models,
    "validation": lambda plan: plan.validation.removesuffix(" cross-validation"),
    "device": lambda plan: count(plan.n_gpus, "GPU") if plan.n_gpus > 1 else plan.device,
    "workers": lambda plan: str(plan.workers),
    "seed": lambda plan: str(plan.seed),
}
"""The texts of fields whose values the plan has chosen."""
