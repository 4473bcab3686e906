"""The model whose importances a run shows: the best one whose shuffles are expected to fit in the time."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.schedule.competition import Competition
from tabapp.explain.shuffles import BLOCK

LEAST_ROWS = 500
"""Held-out rows below which a faster model is explained instead."""
SPARE = 1.5
"""Time of a shuffle over that of its predictions: rows are copied and scored, and other programs run."""


def single_models(competition: Competition) -> list[Candidate]:
    """The best trial of each model with a fold: those with the most folds first, then by score."""
    best = [c for c in (competition.best_of(name) for name in competition.models) if c is not None]
    return sorted(best, key=lambda candidate: (-len(candidate.results), competition.loss_of(candidate)))


def n_passes(n_columns: int, n_jobs: int) -> float:
    """Predictions of all rows, one after the other, until each column, or each of the first block, is shuffled once: one without a
    shuffle, and the shuffles in `n_jobs` threads."""
    return 1 + min(n_columns, BLOCK) / n_jobs


def seconds_of_pass(candidate: Candidate, n_rows: int) -> float:
    """Expected seconds of a pass over so many held-out rows, or over all if there are fewer, by the time that their predictions
    took before."""
    fits = candidate.results.values()
    whole = sum(fit.n_rows for fit in fits)
    return SPARE * sum(fit.predict_seconds for fit in fits) * min(1.0, n_rows / max(1, whole))


def rows_in_time(candidate: Candidate, n_columns: int, seconds: float, n_jobs: int, most: int) -> int:
    """Held-out rows, at most `most`, with which the passes are expected to end in time.

    Args:
        seconds: until the last shuffle starts.
        n_columns, n_jobs: see `n_passes`.
    """
    whole = n_passes(n_columns, n_jobs) * seconds_of_pass(candidate, most)
    seconds = max(0.0, seconds)
    return most if whole <= seconds else int(most * seconds / whole)


def explained_model(
    candidates: Sequence[Candidate], n_columns: int, seconds: float, n_jobs: int, most: int
) -> Candidate:
    """The first candidate whose passes over enough rows are expected to end in time, or the fastest one if there is none.

    Args:
        candidates: at least one, the best first.
        n_columns, seconds, n_jobs, most: see `rows_in_time`.
    """

    def has_time(candidate: Candidate) -> bool:
        n_rows = min(most, sum(fit.n_rows for fit in candidate.results.values()))
        return rows_in_time(candidate, n_columns, seconds, n_jobs, n_rows) >= min(LEAST_ROWS, n_rows)

    fastest = min(candidates, key=lambda candidate: seconds_of_pass(candidate, most))
    return next(filter(has_time, candidates), fastest)
