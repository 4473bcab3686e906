"""The events of results: the leaderboard, the ensemble, what explains them, and analyses."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tabapp.run.record import events as ev
from tabapp.run.record.belonging import is_current
from tabapp.run.record.reducing import Case, Changes
from tabapp.run.record.state import AnalysisUnderway, EnsembleStep, RunState, is_new_best

_EXPLANATIONS = ("comparison", "importances", "slices", "effects")
MOST_STEPS = 400


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


def _change_ensemble(state: RunState, event: ev.EnsembleChanged) -> Changes:
    """Keep an ensemble, and a step of its score if it differs from the last one."""
    before, last = state.ensemble, state.steps[-1] if state.steps else None
    members = {(member.model, member.trial) for member in event.members}
    known = set[tuple[str, int]]() if before is None else {(each.model, each.trial) for each in before.members}
    if last is not None and members == known and last.score == event.score:
        return {"ensemble": event}
    models = {member.model for member in before.members} if before is not None else set[str]()
    step = EnsembleStep(
        seconds=state.fitting_seconds(event.t),
        score=event.score,
        low=event.low,
        high=event.high,
        n_members=len(event.members),
        is_final=state.stage != "fitting",
        joined=tuple(dict.fromkeys(member.model for member in event.members if member.model not in models)),
    )
    # The first steps change most, so that a thinned history keeps every second of the later ones.
    steps = state.steps if len(state.steps) < MOST_STEPS else (*state.steps[:20], *state.steps[20::2])
    return {"ensemble": event, "steps": (*steps, step)}


def _rank_features(state: RunState, event: ev.ImportancesReady) -> Changes:
    """Keep importances. Preliminary ones are better than none at the end of a run that had no time for others."""
    known = state.importances
    keeps = not event.rows and known is not None and known.preliminary and known.rows
    return {} if keeps else {"importances": event}


CASES: Mapping[type[ev.AnyEvent], Case] = {
    ev.LeaderboardChanged: lambda state, event: {"leaderboard": event.rows},
    ev.EnsembleChanged: _change_ensemble,
    ev.ScoreSettled: lambda state, event: {"settled": event},
    ev.EnsembleCompared: lambda state, event: {"comparison": event},
    ev.FitsPlanned: lambda state, event: {"planned": event},
    ev.ImportancesReady: _rank_features,
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
