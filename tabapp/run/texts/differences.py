"""How the ensemble differs from single models, in the words that all views use."""

from __future__ import annotations

from tabapp.run.record import events as ev
from tabapp.run.record.score_text import written_like
from tabapp.run.record.state import RunState

ALIKE = "≈"
"""Marks a score that does not differ clearly from that of the ensemble."""
WHY_BETTER = (
    "That says little: it is the best of {trials} on the rows that score it, while the weights of the ensemble are scored on rows "
    "that did not choose them."
)
"""Why the cross-fitted score of an ensemble can be lower than that of the best of many trials."""


def difference_of(state: RunState, row: ev.LeaderboardRow) -> ev.PairedDifference | None:
    """The paired difference of the ensemble from the model of a row; None if it is unknown, or either has changed since."""
    found = state.comparison
    first = state.leaderboard[0] if state.leaderboard else None
    if found is None or first is None or first.model != ev.ENSEMBLE or found.identity != first.identity:
        return None
    known = (each for each in found.rows if each.model == row.model and each.identity == row.identity)
    return next((each for each in known if row.model != ev.BASELINE), None)


def baseline_of(state: RunState) -> ev.PairedDifference | None:
    """The comparison with the best constant prediction; None if it is unknown."""
    rows = () if state.comparison is None else state.comparison.rows
    return next((each for each in rows if each.model == ev.BASELINE), None)


def best_single(state: RunState) -> ev.LeaderboardRow | None:
    """The best model beside the ensemble that has as many folds; None without an ensemble."""
    rows = state.leaderboard
    if not rows or rows[0].model != ev.ENSEMBLE or rows[0].score is None:
        return None
    return next((row for row in rows[1:] if row.score is not None and row.folds == rows[0].folds), None)


def is_ensemble_of(state: RunState, row: ev.LeaderboardRow) -> bool:
    """Whether the ensemble consists of the best trial of a model alone."""
    members = state.ensemble.members if state.ensemble is not None else ()
    return len(members) == 1 and (members[0].model, members[0].trial) == (row.model, row.trial)


def alike(state: RunState) -> ev.LeaderboardRow | None:
    """The best single model if it is not clearly behind the ensemble, and is not the whole ensemble."""
    single = best_single(state)
    if single is None or is_ensemble_of(state, single):
        return None
    difference = difference_of(state, single)
    return single if difference is not None and not difference.is_behind else None


def difference_text(state: RunState, found: ev.PairedDifference) -> str:
    """The score of the other prediction minus that of the ensemble, with half of its interval: "+0.0013 ±0.0033"."""
    sign = -1 if state.plan is None or state.plan.greater_is_better else 1
    margin = written_like((found.high - found.low) / 2, found.score)
    return f"{written_like(sign * found.advantage, found.score, '+')} ±{margin}"


def mark_of(state: RunState, row: ev.LeaderboardRow) -> str:
    """The difference of a row from the ensemble, marked unless the row is clearly behind; empty if it is unknown."""
    found = difference_of(state, row)
    if found is None or is_ensemble_of(state, row):
        return ""
    text = difference_text(state, found)
    return text if found.is_behind else f"{ALIKE} {text}"
