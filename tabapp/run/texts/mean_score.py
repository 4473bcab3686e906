"""The mean score over several targets."""

from __future__ import annotations

from tabapp.run.record.events import PlanMade
from tabapp.run.record.state import RunState, is_partial


def mean_score(state: RunState) -> tuple[str, float] | None:
    """The title of the metric and the mean of the best scores over several targets.

    None where they have no common scale: the metrics differ, or are in units of the targets; or if a target has no score.
    """
    ends = [view.state for view in state.targets]
    plans = [end.plan for end in ends if end is not None and end.plan is not None]
    scores = [end.best.score for end in ends if end is not None and end.best is not None and end.best.score is not None]
    if len(ends) < 2 or len(scores) < len(ends) or len({plan.metric for plan in plans}) > 1:
        return None
    if any(plan.task == "regression" and _has_unit(plan) for plan in plans):
        return None
    return plans[0].metric_title, sum(scores) / len(scores)


def _has_unit(plan: PlanMade) -> bool:
    return next((metric.has_unit for metric in plan.metrics if metric.name == plan.metric), True)


def partial_note(state: RunState) -> str:
    """Words after the mean score over several targets if a score covers only some of the folds; else empty."""
    ends = [view.state for view in state.targets if view.state is not None]
    partial = any(
        end.plan is not None and end.best is not None and is_partial(end.best, end.plan.folds) for end in ends
    )
    return ", some on fewer folds than planned" if partial else ""
