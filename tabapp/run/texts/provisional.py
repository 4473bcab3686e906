"""The best score of a first fold while it trains, so that a leaderboard has numbers before any fold is complete."""

from __future__ import annotations

from tabapp.run.record.state import RunState, format_score


def provisional_scores(state: RunState) -> dict[str, float]:
    """For each model that trains without a score: the best of its running fits so far, on the early-stopping rows of their folds.

    It is not comparable with a score of held-out rows, since the best of many steps is chosen on the same rows.
    """
    if state.plan is None:
        return {}
    best = max if state.plan.greater_is_better else min
    scored = {row.model for row in state.leaderboard if row.score is not None}
    found: dict[str, float] = {}
    for fit in state.active.values():
        if fit.model not in scored and fit.curve:
            value = best(value for _, value in fit.curve)
            found[fit.model] = best(value, found.get(fit.model, value))
    return found


def score_or_provisional(score: float | None, provisional: float | None) -> str:
    """A score as text; a provisional one starts with a tilde."""
    return format_score(score) if score is not None or provisional is None else f"~{format_score(provisional)}"
