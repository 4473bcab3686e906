"""The models that a plan may have, with what each of them would take on the table."""

from __future__ import annotations

import re
from contextlib import suppress

from tabapp.data.schema import Schema
from tabapp.engine.machine.devices import device_class
from tabapp.engine.plan.make_plan import Plan, fit_device, planned_model, shape_of, variants_for
from tabapp.models import registry
from tabapp.models.contract import Plugin, Shape
from tabapp.models.presets import with_fixed
from tabapp.models.stated import stated_libraries, stated_title
from tabapp.run.record import events as ev

_AUTHOR_AND_YEAR = re.compile(r".{1,40}? \d{4}\b")


def model_choices(plan: Plan, schema: Schema) -> tuple[ev.ModelChoice, ...]:
    """Every model, whether the plan has it or not. Loads no plugin of a network, which takes seconds."""
    shape = shape_of(plan, schema)
    names = (*registry.names(), *variants_for(shape), *registry.presets())
    return tuple(_choice(name, plan, shape) for name in names)


def _choice(name: str, plan: Plan, shape: Shape) -> ev.ModelChoice:
    planned = next((model for model in plan.models if model.name == name), None)
    is_planned = planned is not None and planned.reason is None
    if stated_libraries(name) == "torch" and not registry.is_loaded(name.partition(":")[0]):
        return ev.ModelChoice(name=name, title=stated_title(name), is_planned=is_planned)
    named = planned is None or planned.named
    found = planned_model(name, plan.task, shape, plan.device, plan.memory_limit, plan.fixed, plan.models, named=named)
    plugin = registry.find(name).plugin
    choice = ev.ModelChoice(
        name=name, title=found.title, family=found.family, reason=found.reason, is_planned=is_planned
    )
    return choice if plugin is None else _with_cost(choice, plugin, plan, shape)


def _with_cost(choice: ev.ModelChoice, plugin: Plugin, plan: Plan, shape: Shape) -> ev.ModelChoice:
    seconds = n_bytes = None
    device = ""
    # A third-party plugin may raise anything; the reason then says so.
    with suppress(Exception):
        device = fit_device(plugin, plan, shape)
        params = with_fixed(plugin.defaults(plan.task, shape, device), plan.fixed_values(choice.name))
        cost = plugin.cost(plan.task, shape, params, device)
        seconds, n_bytes = round(cost.seconds, 3), cost.n_bytes
    return ev.ModelChoice(
        name=choice.name,
        title=choice.title,
        family=choice.family,
        paper=short_source(plugin.paper),
        reason=choice.reason,
        is_planned=choice.is_planned,
        seconds=seconds,
        n_bytes=n_bytes,
        device=device_class(device),
    )


def short_source(paper: str) -> str:
    """Author and year of a source, or all of it where it does not begin with them."""
    found = _AUTHOR_AND_YEAR.match(paper)
    return found[0] if found else paper
