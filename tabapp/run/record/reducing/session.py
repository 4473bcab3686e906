"""The events of a session: its start and stages, the table, the plan and the resources."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tabapp.run.options.config import quoted_command
from tabapp.run.record import events as ev
from tabapp.run.record.reducing import Case, Changes
from tabapp.run.record.state import RunState

RESOURCES_LENGTH = 120


def _start(state: RunState, event: ev.RunStarted) -> Changes:
    # Time between two sessions, and after a pause in which a session ended, is no time of fitting.
    idle = state.idle + (0.0 if state.fitting_since is None or state.paused else max(0.0, event.t - state.time))
    if state.paused:
        idle += max(0.0, event.t - state.paused_at)
    return {
        "idle": idle,
        "run": event.run,
        "name": event.name,
        "data": event.data,
        "seed": event.seed,
        "started": event.t,
        "active": {},
        "finished": None,
        "paused": False,
        "analyses": {},
        "underway": None,
        "settled": None,
        # A resumed run is in progress before its engine enters a stage.
        **({} if state.fitting_since is None else {"stage": "fitting", "deadline": None}),
    }


def _enter_stage(state: RunState, event: ev.StageChanged) -> Changes:
    changes: Changes = {"stage": event.stage, "paused": event.paused, "deadline": event.deadline}
    if event.stage != "fitting":
        # The engine has killed the fits that were in progress, which have no event of their own.
        changes["active"] = {}
    elif state.fitting_since is None:
        changes["fitting_since"] = event.t
    if event.paused and not state.paused:
        changes["paused_at"] = event.t
    elif state.paused and not event.paused:
        changes["idle"] = state.idle + max(0.0, event.t - state.paused_at)
    return changes


def _plan(state: RunState, event: ev.PlanMade) -> Changes:
    return {"plan": msgspec.structs.replace(event, command=quoted_command(event.command)), "refusal": None}


CASES: Mapping[type[ev.AnyEvent], Case] = {
    ev.RunStarted: _start,
    ev.StageChanged: _enter_stage,
    ev.DataRead: lambda state, event: {"read": event},
    ev.SchemaInferred: lambda state, event: {"schema": event},
    ev.PlanMade: _plan,
    ev.PlanRefused: lambda state, event: {"refusal": event.message},
    ev.Resources: lambda state, event: {"resources": (*state.resources[-RESOURCES_LENGTH + 1 :], event)},
    ev.Log: lambda state, event: {},
}
