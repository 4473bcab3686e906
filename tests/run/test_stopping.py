"""What a leaderboard shows once no engine works on it."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.run.record import events as ev
from tabapp.run.record.reducing.reduce import reduce, replay
from tabapp.run.record.state import RunState
from tabapp.run.record.stopping import stopped
from tests.run.recording import finished
from tests.tui import recordings


def running() -> RunState:
    """A run in progress, with a model that waits and one in its first fold."""
    state = replay(msgspec.structs.replace(event, seq=n) for n, event in enumerate(recordings.running(), 1))
    waiting = ev.LeaderboardRow(rank=0, model="waits", title="Waits", family="deep")
    first = msgspec.structs.replace(waiting, model="first", status="running", activity="defaults · fold 1/5")
    busy = msgspec.structs.replace(state.leaderboard[1], model="busy", activity="#3 · fold 2/5")
    return msgspec.structs.replace(state, leaderboard=(*state.leaderboard, waiting, first, busy))


def aborted(state: RunState) -> RunState:
    """The state after an end without a last leaderboard."""
    end = finished("a-run", status="interrupted", leaderboard=(), message="The run was aborted.")
    return reduce(state, msgspec.structs.replace(end, seq=state.seq + 1))


@pytest.mark.parametrize("end", [stopped, aborted])
def test_nothing_is_in_progress_or_queued_without_an_engine(end):
    before = running()
    state = end(before)
    rows = {row.model: row for row in state.leaderboard}
    assert before.active
    assert not state.active
    assert state.is_over
    assert rows["waits"].not_started
    assert rows["first"].status == "skipped"
    assert not rows["first"].not_started
    assert rows["busy"].score == before.leaderboard[1].score
    assert not any(row.activity or row.status in ("queued", "running") for row in rows.values())


def test_the_last_leaderboard_of_a_run_is_kept():
    state = running()
    row = msgspec.structs.replace(state.leaderboard[-1], status="queued", activity="")
    end = finished("a-run", leaderboard=(row,))
    assert reduce(state, msgspec.structs.replace(end, seq=state.seq + 1)).leaderboard == (row,)
