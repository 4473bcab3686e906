"""The events of results: the leaderboard, the ensemble, what explains them, and analyses."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tabapp.run.record import events as ev
from tabapp.run.record.belonging import is_current
from tabapp.run.record.reducing import Case, Changes
from tabapp.run.record.state import AnalysisUnderway, RunState, is_new_best

_EXPLANATIONS = ("importances", "slices", "effects")


def keep_analysis(state: RunState, event: ev.AnalysisEvent) -> Changes:
    """Keep the result of an analysis in the place of an earlier one of the same part of the run."""
    key = f"{event.__struct_config__.tag} {event.part}"
    if event.withdraws:
        return {"analyses": {name: found for name, found in state.analyses.items() if name != key}}
    return {"analyses": {**state.analyses, key: event}}


def _begin_analysis(state: RunState, event: ev.AnalysisStarted) -> Changes:
    return {
        "underway": AnalysisUnderway(option=event.option, value=event.value, model=event.model, since=event.t),
    }


def _continue_analysis(state: RunState, event: ev.AnalysisProgress) -> Changes:
    if state.underway is None:
        return {}
    return {"underway": msgspec.structs.replace(state.underway, share=event.share)}


def with_best(state: RunState) -> RunState:
    """A state whose history includes the best score of its leaderboard."""
    best, last = state.best, state.history[-1][1] if state.history else None
    if best is None or best.score is None or not is_new_best(best, state.plan, last):
        return state
    return msgspec.structs.replace(state, history=(*state.history, (state.time, best.score)))


def without_earlier(state: RunState) -> RunState:
    """A state that has ended, without what describes earlier ensembles and earlier best trials."""
    rows = state.leaderboard
    changes: Changes = {}
    for name in _EXPLANATIONS:
        found = getattr(state, name)
        changes[name] = found if found is not None and is_current(found, rows) else None
    for name in ("evaluations", "analyses"):
        changes[name] = {key: found for key, found in getattr(state, name).items() if is_current(found, rows)}
    return msgspec.structs.replace(state, **changes)


CASES: Mapping[type[ev.AnyEvent], Case] = {
    ev.LeaderboardChanged: lambda state, event: {"leaderboard": event.rows},
    ev.EnsembleChanged: lambda state, event: {"ensemble": event},
    ev.ImportancesReady: lambda state, event: {"importances": event},
    ev.EvaluationReady: lambda state, event: {"evaluations": {**state.evaluations, event.model: event}},
    ev.ParametersRanked: lambda state, event: {
        "parameter_importances": {**state.parameter_importances, event.model: event}
    },
    ev.SlicesReady: lambda state, event: {"slices": event},
    ev.EffectsReady: lambda state, event: {"effects": event},
    ev.AnalysisStarted: _begin_analysis,
    ev.AnalysisProgress: _continue_analysis,
    ev.AnalysisEnded: lambda state, event: {"underway": None},
}
