"""The events of the targets of a run, and its end."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tabapp.run.options.targets import is_folder_of_target
from tabapp.run.record import events as ev
from tabapp.run.record.reducing import Case, Changes
from tabapp.run.record.reducing.results import with_best, without_earlier
from tabapp.run.record.state import RunState, TargetState
from tabapp.run.record.stopping import resting_rows

_OF_THE_WHOLE_RUN = frozenset(
    {"seq", "time", "run", "name", "data", "seed", "read", "resources", "feed", "targets", "target_index"}
)
_OF_A_TARGET = {name: getattr(RunState(), name) for name in RunState.__struct_fields__ if name not in _OF_THE_WHOLE_RUN}
"""The fields of a state that belong to the current target, with their values before any event."""


def _start_target(state: RunState, event: ev.TargetStarted) -> Changes:
    """The changes when the run turns to a target."""
    if not 0 <= event.index < len(event.targets):
        return {}
    known = {view.target: view for view in state.targets}
    targets = [known.get(name) or TargetState(target=name) for name in event.targets]
    # The folder of a run from elsewhere may be anything; one outside of the run is not opened.
    folder = event.folder if is_folder_of_target(event.folder) else ""
    targets[event.index] = TargetState(target=event.target, folder=folder)
    # The run as a whole has started: no view may take it for one that only reads its table.
    return {
        **_OF_A_TARGET,
        "stage": "fitting",
        "started": event.t,
        "fitting_since": event.t,
        "targets": tuple(targets),
        "target_index": event.index,
    }


def _finish_target(state: RunState, event: ev.TargetFinished) -> Changes:
    """The changes when the run of a target has ended: its state is kept."""
    finished = ev.RunFinished(**msgspec.structs.asdict(event.result))
    own = msgspec.structs.replace(
        state, finished=finished, stage="done", active={}, paused=False, feed=(), resources=(), targets=()
    )
    if event.result.leaderboard:
        own = msgspec.structs.replace(own, leaderboard=event.result.leaderboard)
    own = without_earlier(with_best(own))
    targets = list(state.targets)
    if event.index < len(targets):
        targets[event.index] = msgspec.structs.replace(targets[event.index], state=own)
    return {"targets": tuple(targets), "active": {}}


def _finish_run(state: RunState, event: ev.RunFinished) -> Changes:
    """The changes at the end: the state of a run with several targets is that of the first again."""
    first = state.targets[0].state if state.targets else None
    restored = {} if first is None else {name: getattr(first, name) for name in _OF_A_TARGET}
    changes: Changes = {**restored, "finished": event, "stage": "done", "active": {}, "paused": False}
    if first is not None:
        changes["target_index"] = 0
    before = state.leaderboard if first is None else first.leaderboard
    changes["leaderboard"] = event.leaderboard or resting_rows(before)
    return changes


CASES: Mapping[type[ev.AnyEvent], Case] = {
    ev.TargetStarted: _start_target,
    ev.TargetFinished: _finish_target,
    ev.RunFinished: _finish_run,
}
