"""What evaluations, importances and diagnoses belong to: the predictions of a row of the leaderboard, or earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.run.record import events as ev


def is_current(found: ev.Described, rows: Sequence[ev.LeaderboardRow]) -> bool:
    """Whether an event describes predictions that the leaderboard scores; so it does if that is unknown, as in earlier versions."""
    described = {found.model: found.identity}
    if isinstance(found, ev.ImportancesReady) and found.attention_model is not None:
        described[found.attention_model] = found.attention_identity
    scored = {row.model: row.identity for row in rows}
    return all(not identity or scored.get(model) == identity for model, identity in described.items())


def earlier_subject(found: ev.Described, rows: Sequence[ev.LeaderboardRow]) -> str:
    """What an event describes if the leaderboard scores something else by now, such as "an earlier ensemble" or "trial 3"."""
    if is_current(found, rows):
        return ""
    if found.model == ev.ENSEMBLE:
        return "an earlier ensemble"
    row = next((row for row in rows if row.model == found.model), None)
    if found.trial is None or (row is not None and row.trial == found.trial):
        return "earlier fits"
    return f"trial {found.trial}"
