"""The time that a run has used, from its events."""

from __future__ import annotations

from collections.abc import Iterable

from tabapp.run.record import events as ev


def seconds_used(history: Iterable[ev.AnyEvent]) -> float:
    """Seconds of the budget that earlier sessions used: from reading or starting to their last event.

    Time between a plan and its start and time while paused do not count.
    """
    used = 0.0
    since: float | None = None
    last = 0.0
    for event in history:
        if isinstance(event, ev.AnalysisEvent | ev.AnalysisStep):
            continue
        # Runs of earlier versions have no `elapsed`.
        now = event.elapsed or event.t
        if isinstance(event, ev.RunStarted):
            used += max(0.0, last - since) if since is not None else 0.0
            since = now
        elif isinstance(event, ev.StageChanged):
            if event.stage == "ready" or event.paused:
                used += max(0.0, now - since) if since is not None and event.paused else 0.0
                since = None
            elif since is None:
                since = now
        last = now
    return used + (max(0.0, last - since) if since is not None else 0.0)
