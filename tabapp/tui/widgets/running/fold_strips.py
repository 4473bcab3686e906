"""The folds of each model's best trial as a strip of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tabapp import charts
from tabapp.run.record import events as ev
from tabapp.run.record.state import FinishedFit, RunState

MOST_FOLDS = 10
RUNNING, MISSING = "…", "·"

Scores = dict[tuple[str, int], dict[int, float | None]]


class FoldStrips:
    """Strips of a state; scores are gathered again only when a fit has ended."""

    def __init__(self) -> None:
        self._fits: Mapping[str, FinishedFit] = {}
        self._scores: Scores = {}

    def of(self, state: RunState) -> dict[str, str]:
        """The strip of each model with a fold that is done or in progress. Higher blocks are better; all strips share a scale."""
        n_folds = state.plan.folds if state.plan else 0
        if n_folds < 2:
            return {}
        self._gather(state.fits)
        running = {(fit.model, fit.trial, fit.fold) for fit in state.active.values()}
        latest = {model: trial for model, trial, _ in sorted(running)}
        shown = {row.model: self._scores.get((row.model, _trial(row, latest)), {}) for row in state.leaderboard}
        greater = state.plan.greater_is_better if state.plan else True
        low, high = _scale(state.leaderboard, shown, n_folds)
        strips: dict[str, str] = {}
        for row in state.leaderboard:
            trial = _trial(row, latest)
            active = {fold for model, of, fold in running if (model, of) == (row.model, trial)}
            if shown[row.model] or active:
                cells = [_cell(shown[row.model], fold, active, low, high, greater) for fold in range(n_folds)]
                strips[row.model] = "".join(cells[:MOST_FOLDS]) + ("+" if n_folds > MOST_FOLDS else "")
        return strips

    def _gather(self, fits: Mapping[str, FinishedFit]) -> None:
        if fits is not self._fits:
            self._fits, self._scores = fits, {}
            for fit in fits.values():
                self._scores.setdefault((fit.model, fit.trial), {})[fit.fold] = fit.score


def _trial(row: ev.LeaderboardRow, latest: Mapping[str, int]) -> int:
    """The trial that a row shows: its best, or the one in progress."""
    return row.trial if row.trial is not None and row.score is not None else latest.get(row.model, 0)


def _scale(
    rows: Sequence[ev.LeaderboardRow], shown: Mapping[str, Mapping[int, float | None]], n_folds: int
) -> tuple[float, float]:
    """The lowest and the highest score of complete models; a weak model with one fold would flatten all others."""
    complete = [row.model for row in rows if row.score is not None and row.folds == n_folds] or list(shown)
    return charts.extent([score for model in complete for score in shown[model].values() if score is not None])


def _cell(
    scores: Mapping[int, float | None], fold: int, active: set[int], low: float, high: float, greater: bool
) -> str:
    score = scores.get(fold)
    if score is None:
        return RUNNING if fold in active else MISSING
    share = min(max((score - low) / (high - low), 0.0), 1.0) if high > low else 0.5
    return charts.LEVELS[1 + round(6 * (share if greater else 1 - share))]
