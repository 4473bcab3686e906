"""The events of fits and trials."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import msgspec

from tabapp.run.record import events as ev
from tabapp.run.record.reducing import Case, Changes
from tabapp.run.record.state import ActiveFit, FinishedFit, RunState, TrialView

CURVE_LENGTH = 200
KEPT_CURVE_LENGTH = 60

Curve = tuple[tuple[int, float], ...]


def _decimate(curve: Curve) -> Curve:
    return curve[::2] if len(curve) > CURVE_LENGTH else curve


def _thin(curve: Curve) -> Curve:
    """Reduce a curve to at most `KEPT_CURVE_LENGTH` points; the last point is kept."""
    stride = -(-len(curve) // KEPT_CURVE_LENGTH) or 1
    return curve[::-1][::stride][::-1]


def _without(state: RunState, fit: str) -> dict[str, ActiveFit]:
    """The running fits without one that has ended."""
    return {name: active for name, active in state.active.items() if name != fit}


def _start(state: RunState, event: ev.FitStarted) -> Changes:
    # A node reports that a fit has begun, without the reason of its choice.
    ordered = state.active.get(event.fit)
    fit = ActiveFit(
        fit=event.fit,
        model=event.model,
        trial=event.trial,
        fold=event.fold,
        folds=event.folds,
        started=event.t,
        reason=event.reason or (ordered.reason if ordered else ""),
        seconds=ordered.seconds if event.seconds is None and ordered else event.seconds,
        device=event.device,
    )
    return {"active": {**state.active, event.fit: fit}}


def _advance(state: RunState, event: ev.FitProgress) -> Changes:
    running = state.active.get(event.fit)
    if running is None or not isfinite(event.value):
        return {}
    curve = _decimate((*running.curve, (event.step, event.value)))
    return {"active": {**state.active, event.fit: msgspec.structs.replace(running, curve=curve)}}


def _finish(state: RunState, event: ev.FitFinished) -> Changes:
    if event.seed:
        # Views show the scores and curves of the first seed.
        return {"active": _without(state, event.fit)}
    running = state.active.get(event.fit)
    fit = FinishedFit(
        model=event.model,
        trial=event.trial,
        fold=event.fold,
        score=event.score,
        seconds=event.seconds,
        curve=_thin(running.curve) if running is not None else (),
        reason=running.reason if running is not None else "",
    )
    return {"fits": {**state.fits, event.fit: fit}, "active": _without(state, event.fit)}


def _fail(state: RunState, event: ev.FitFailed) -> Changes:
    return {"active": _without(state, event.fit), "failures": (*state.failures, event)}


def _finish_trial(state: RunState, event: ev.TrialFinished) -> Changes:
    view = TrialView(
        model=event.model, trial=event.trial, score=event.score, seconds=event.seconds, params=event.params
    )
    return {"trials": (*state.trials, view)}


def _prune(state: RunState, event: ev.TrialPruned) -> Changes:
    view = TrialView(
        model=event.model, trial=event.trial, score=event.score, pruned=True, reason=event.reason, params=event.params
    )
    active = {name: fit for name, fit in state.active.items() if (fit.model, fit.trial) != (event.model, event.trial)}
    return {"trials": (*state.trials, view), "active": active}


CASES: Mapping[type[ev.AnyEvent], Case] = {
    ev.FitStarted: _start,
    ev.FitProgress: _advance,
    ev.FitFinished: _finish,
    ev.FitFailed: _fail,
    ev.TrialFinished: _finish_trial,
    ev.TrialPruned: _prune,
}
