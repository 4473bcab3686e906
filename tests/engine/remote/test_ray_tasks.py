"""The mailbox of a run on a Ray cluster; it needs no cluster."""

from __future__ import annotations

import time

import pytest

from tabapp.engine.remote.ray_tasks import Mailbox


def test_waiting_for_a_node_takes_no_time_of_a_fit_but_the_end_of_the_run_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    mailbox = Mailbox()
    mailbox.expect("early", seconds=20.0, seconds_left=60.0)
    mailbox.expect("late", seconds=20.0, seconds_left=60.0)
    mailbox.expect("unlimited", seconds=None, seconds_left=None)
    now += 30.0
    assert mailbox.begin(b"", "early") == 20.0
    now += 15.0
    assert mailbox.begin(b"", "late") == 15.0
    assert mailbox.begin(b"", "unlimited") is None
