"""The draft of a run: schema and plan for its options, before it starts. A screen changes options until the user starts the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from tabapp.data.reading.read import Reading
from tabapp.data.schema import Schema
from tabapp.engine.machine.capacity import Machines
from tabapp.engine.plan.make_plan import Plan, make_plan
from tabapp.engine.plan.plan_events import plan_event
from tabapp.engine.plan.prepare import check_columns_of_more, infer, n_rows, read_data, read_more, reading_event
from tabapp.engine.plan.schema_events import schema_event
from tabapp.engine.targets.target_plans import TargetPlan, plan_of_targets, plan_targets, schema_of_targets, targets_of
from tabapp.run.options.config import RunConfig, check_folds, with_exact_names
from tabapp.run.record import events as ev
from tabapp.run.record.confining import reject_outside

READING = ("delimiter", "encoding", "decimal", "max_memory")
"""Options with which the file is read again."""
VALIDATING = ("validation", "folds", "time")
"""Options of which only some can be combined."""


@dataclass(frozen=True)
class Inputs:
    """The tables of a run: its own, and that of `--unlabelled`."""

    reading: Reading
    more: pl.DataFrame | None


@dataclass(frozen=True)
class Draft:
    """A run that could start: its options, schema and plan. With several targets, these are those of the first, and `targets` has
    those of all."""

    config: RunConfig
    schema: Schema
    plan: Plan
    targets: tuple[TargetPlan, ...] = ()


def make_draft(
    config: RunConfig,
    reading: Reading,
    more: pl.DataFrame | None,
    *,
    show: Callable[[ev.Event], None],
    staged: bool = False,
    machines: Machines | None = None,
) -> Draft:
    """Infer the schema and make the plan of each target.

    Args:
        more: the table `--unlabelled`.
        show: receives the schema and the plan as events as soon as each is known.
        staged: as for `make_plan`.

    Raises:
        DataError, UsageError: the table or an option cannot be used.
    """
    names = targets_of(config, reading.names)
    if len(names) > 1:
        plans = plan_targets(config, reading, names, n_more=n_rows(more), staged=staged, machines=machines)
        for each in plans:
            check_columns_of_more(more, each.schema)
        show(schema_of_targets(plans, n_rows(more)))
        show(plan_of_targets(plans, config))
        for note in (note for each in plans for note in each.notes):
            show(ev.Log(level="warning", message=note))
        return Draft(config, plans[0].schema, plans[0].plan, tuple(plans))
    schema = infer(reading, config)
    check_columns_of_more(more, schema)
    show(schema_event(schema, n_rows(more)))
    plan = make_plan(config, schema, n_more=n_rows(more), staged=staged, machines=machines)
    show(plan_event(plan, schema, config))
    return Draft(config, schema, plan)


def without_lost_metric(config: RunConfig, before: Draft, reading: Reading) -> RunConfig:
    """Changed options without the metric of the draft before, if the task of a single target is now another."""
    if config.metric is None or config.metric != before.config.metric or before.targets:
        return config
    if len(targets_of(config, reading.names)) > 1 or infer(reading, config).task == before.schema.task:
        return config
    return msgspec.structs.replace(config, metric=None)


def changed_draft(
    options: Mapping[str, Any],
    draft: Draft,
    inputs: Inputs,
    own: RunConfig | None,
    machines: Machines | None = None,
) -> tuple[Draft, Inputs, list[ev.Event]]:
    """The draft with options changed by a screen, the tables that it uses, and the events that show it.

    Args:
        options: fields of `RunConfig`.
        own: the configuration in the run folder, if this user wrote it.

    Raises:
        TabappError: the options are not valid.
        msgspec.ValidationError: they do not have the types of their fields.
    """
    reject_outside(options, own)
    before = draft.config
    changed = msgspec.convert({**msgspec.to_builtins(before), **options}, RunConfig)
    if any(name in options for name in VALIDATING):
        check_folds(changed)

    def differ(names: tuple[str, ...]) -> bool:
        return any(getattr(changed, name) != getattr(before, name) for name in names)

    events: list[ev.Event] = []
    reading, more = inputs.reading, inputs.more
    if differ(READING):
        reading = read_data(changed)
        events.append(reading_event(reading, changed))
    if differ((*READING, "unlabelled")):
        more = read_more(changed)
    changed = with_exact_names(changed, reading.names)
    changed = without_lost_metric(changed, draft, reading)
    new = make_draft(changed, reading, more, show=events.append, machines=machines)
    return new, Inputs(reading, more), events
