"""The plan of a run as an event."""

from __future__ import annotations

import msgspec

from tabapp import metrics
from tabapp.data.schema import Schema
from tabapp.engine.plan.choices import model_choices
from tabapp.engine.plan.make_plan import Plan
from tabapp.run.options.config import RunConfig, command_line
from tabapp.run.record import events as ev


def plan_event(plan: Plan, schema: Schema, config: RunConfig) -> ev.PlanMade:
    """The plan as an event."""
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
            msgspec.convert(metrics.get(name), ev.MetricView, from_attributes=True)
            for name in metrics.names_for(plan.task, first=plan.metric)
        ),
        greater_is_better=metric.greater_is_better,
        validation=plan.validation,
        validation_reason=plan.validation_reason,
        folds=plan.folds,
        budget=plan.budget,
        trials=plan.trials,
        quality=plan.quality,
        seeds=plan.seeds,
        device=plan.device,
        device_reason=plan.device_reason,
        n_gpus=len(plan.gpus),
        workers=plan.workers,
        seed=plan.seed,
        models=tuple(msgspec.convert(model, ev.ModelView, from_attributes=True) for model in plan.models),
        command=command_line(msgspec.structs.replace(config, target=plan.target)),
        choices=model_choices(plan, schema),
        notes=plan.notes,
    )
