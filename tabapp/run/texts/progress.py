"""The progress of a run, computed once for every view."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp.run.record.state import RunState


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        share: of the budget or the trials, in [0, 1]; None when neither bounds the run.
        elapsed: seconds of fitting.
        left: seconds until the deadline; None without one.
    """

    share: float | None
    elapsed: float
    left: float | None


def progress_of(state: RunState, now: float) -> Progress | None:
    """The progress of fitting at a time; None before it began."""
    if state.finished is not None:
        return Progress(1.0, state.finished.seconds, None)
    if state.fitting_since is None:
        return None
    elapsed = state.fitting_seconds(now)
    if state.deadline is not None:
        left = max(0.0, state.deadline - now)
        return Progress(elapsed / (elapsed + left) if elapsed + left > 0 else 1.0, elapsed, left)
    if state.plan is not None and state.plan.trials:
        expected = state.plan.trials * sum(model.reason is None for model in state.plan.models)
        return Progress(min(1.0, len(state.trials) / expected) if expected else None, elapsed, None)
    return Progress(None, elapsed, None)
