"""The state of a run as a pure function of its events."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tabapp.run.record import events as ev
from tabapp.run.record.reducing import Changes, fits, results, session, targets
from tabapp.run.record.reducing.feed import describe
from tabapp.run.record.state import FeedLine, RunState

FEED_LENGTH = 500

CASES = {**session.CASES, **fits.CASES, **results.CASES, **targets.CASES}
"""The changes by each event that is not an analysis."""


def reduce(state: RunState, event: ev.AnyEvent) -> RunState:
    """The state after one more event, without modifying the old state. An event that is already included changes nothing."""
    if event.seq and event.seq <= state.seq:
        return state
    changes: Changes = {"seq": event.seq, "time": event.t}
    if isinstance(event, ev.AnalysisEvent):
        changes |= results.keep_analysis(state, event)
    else:
        changes |= CASES[type(event)](state, event)
    line = describe(event, state)
    if line is not None:
        shown = FeedLine(t=event.t, kind=line[0], text=line[1], target=state.target_index)
        changes["feed"] = (*state.feed[-FEED_LENGTH + 1 :], shown)
    state = msgspec.structs.replace(state, **changes)
    if "leaderboard" in changes:
        state = results.with_best(state)
    return results.without_earlier(state) if isinstance(event, ev.RunFinished) else state


def replay(stream: Iterable[ev.AnyEvent]) -> RunState:
    """The state after a stream of events."""
    state = RunState()
    for event in stream:
        state = reduce(state, event)
    return state
