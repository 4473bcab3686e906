"""The plans of several targets: the configuration of the run of each, its schema, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from tabapp import metrics
from tabapp.column_names import ColumnNames
from tabapp.data.reading.read import Reading
from tabapp.data.schema import Schema
from tabapp.engine.machine.capacity import Machines
from tabapp.engine.plan.make_plan import Plan, choose_metric, make_plan
from tabapp.engine.plan.plan_events import plan_event
from tabapp.engine.plan.prepare import infer
from tabapp.engine.plan.schema_events import schema_event
from tabapp.errors import UsageError, given
from tabapp.run.options.config import RunConfig, command_line
from tabapp.run.options.targets import resolve_targets
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev

SHORT_SECONDS = 10.0
"""Time of a target below which the plan warns: the first complete scores take a few seconds."""


@dataclass(frozen=True)
class TargetPlan:
    """The plan of the run of one target. `notes` are sentences about options that do not apply to it."""

    target: str
    config: RunConfig
    schema: Schema
    plan: Plan
    notes: tuple[str, ...]


def targets_of(config: RunConfig, columns: Sequence[str]) -> tuple[str, ...]:
    """The targets that the configuration names in a table; empty if tabapp chooses one."""
    return () if config.target is None else resolve_targets(config.target, ColumnNames(columns))


def plan_targets(
    config: RunConfig,
    reading: Reading,
    names: Sequence[str],
    *,
    n_more: int = 0,
    staged: bool = False,
    machines: Machines | None = None,
) -> list[TargetPlan]:
    """The plan of each target, without the columns of the others.

    A metric or a positive class applies to the targets that have it; the others take their default.

    Raises:
        DataError, UsageError: a target cannot be predicted, or an option applies to none.
    """
    for name in names:
        if name not in reading.frame.columns:
            # The error of a single target.
            infer(reading, msgspec.structs.replace(config, target=name))
    plans = [_plan_of(config, reading, name, names, n_more, staged, machines) for name in names]
    budget = config.budget_seconds
    if budget is not None and budget < SHORT_SECONDS * len(names):
        note = (
            f"Each of the {len(names)} targets gets {format_duration(budget / len(names))} of --budget, in which few models end. "
            f"Use at least {format_duration(SHORT_SECONDS * len(names))}."
        )
        plans[0] = replace(plans[0], notes=(*plans[0].notes, note))
    if config.metric is not None and all(each.config.metric is None for each in plans):
        choose_metric(config.metric, plans[0].schema.task)
    if config.positive is not None and all(each.config.positive is None for each in plans):
        raise UsageError(
            f"{given('positive', config.positive)} is a class of none of the targets. Choose one of their classes."
        )
    return plans


def _plan_of(
    config: RunConfig,
    reading: Reading,
    name: str,
    names: Sequence[str],
    n_more: int,
    staged: bool,
    machines: Machines | None,
) -> TargetPlan:
    # NOTE[DIFF]: other targets are never features, not even as predictions in a chain of targets: docs/decisions/0010.
    others = [other for other in names if other != name and other not in config.ignore]
    own = msgspec.structs.replace(
        config,
        target=name,
        ignore=(*config.ignore, *others),
        other_targets=tuple(others),
        out=None,
        name=None,
        start=True,
    )
    notes: list[str] = []
    try:
        schema = infer(reading, own)
    except UsageError as error:
        if own.positive is None:
            raise
        own = msgspec.structs.replace(own, positive=None)
        schema = infer(reading, own)
        notes.append(f"--positive {config.positive} does not apply to the target {name!r}: {error}.")
    if own.metric is not None and schema.task not in metrics.get(own.metric).tasks:
        own = msgspec.structs.replace(own, metric=None)
        title = metrics.get(metrics.default_metric(schema.task)).title
        notes.append(f"--metric {config.metric} is not defined for the target {name!r}. Its metric is {title}.")
    plan = make_plan(own, schema, n_more=n_more, staged=staged, machines=machines)
    return TargetPlan(name, own, schema, plan, tuple(notes))


def schema_of_targets(plans: Sequence[TargetPlan], n_more: int) -> ev.SchemaInferred:
    """The schema as an event, in which the columns of all targets have that role."""
    names = {each.target: each for each in plans}
    event = schema_event(plans[0].schema, n_more)
    columns = [
        msgspec.structs.replace(_view_of(names[column.name], column), role="target", overridden=False)
        if column.name in names
        else column
        for column in event.columns
    ]
    return msgspec.structs.replace(event, columns=tuple(columns))


def _view_of(plan: TargetPlan, column: ev.ColumnView) -> ev.ColumnView:
    """The column of a target as its own schema has it."""
    own = schema_event(plan.schema).columns
    return next((view for view in own if view.name == column.name), column)


def plan_of_targets(plans: Sequence[TargetPlan], config: RunConfig) -> ev.PlanMade:
    """The plan of the first target as an event that names all of them."""
    first = plans[0]
    event = plan_event(first.plan, first.schema, first.config)
    return with_all_targets(event, [each.target for each in plans], config)


def with_all_targets(event: ev.PlanMade, names: Sequence[str], config: RunConfig) -> ev.PlanMade:
    """A plan that names all targets of a run, and the command of the whole run."""
    return msgspec.structs.replace(
        event, targets=tuple(names), budget=config.budget_seconds, command=command_line(config)
    )
