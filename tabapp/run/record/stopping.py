"""The state of a run after its engine, when that left no last leaderboard."""

from __future__ import annotations

import msgspec

from tabapp.run.record.records import LeaderboardRow
from tabapp.run.record.state import RunState

NOT_STARTED = "not started before the run stopped"


def resting_rows(rows: tuple[LeaderboardRow, ...]) -> tuple[LeaderboardRow, ...]:
    """Rows of a leaderboard on which nothing works any more."""
    return tuple(map(_resting, rows))


def stopped(state: RunState) -> RunState:
    """The state of a run whose engine has ended without a result, as only a view knows: nothing is in progress or planned."""
    return msgspec.structs.replace(
        state, is_stopped=True, active={}, paused=False, leaderboard=resting_rows(state.leaderboard)
    )


def _resting(row: LeaderboardRow) -> LeaderboardRow:
    if row.score is None and row.status == "queued" and not row.activity:
        return msgspec.structs.replace(row, status="skipped", reason=NOT_STARTED, not_started=True)
    if row.score is None and row.status in ("queued", "running"):
        reason = "the run stopped during its first fold"
        return msgspec.structs.replace(row, status="skipped", reason=reason, activity="")
    return msgspec.structs.replace(row, status="ok" if row.status == "running" else row.status, activity="")
