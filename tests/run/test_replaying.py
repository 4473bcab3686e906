"""Events of a run return when their time has come."""

from __future__ import annotations

import itertools

import pytest

from tabapp.cli.commands.run import attach
from tabapp.errors import UsageError
from tabapp.run.record.folder import EventReader
from tabapp.run.record.replaying import LONGEST_PAUSE, ReplayReader, parse_speed
from tests.cli.test_predicting import call
from tests.run.recording import write_run


def test_events_arrive_in_order_at_the_chosen_pace(tmp_path):
    folder = write_run(tmp_path)
    events = EventReader(folder.events).read_new()
    gaps = [min(max(0.0, b.t - a.t), LONGEST_PAUSE) for a, b in itertools.pairwise(events)]
    now = 100.0
    reader = ReplayReader(folder, 10.0, lambda: now)
    assert reader.read_new()[0] == events[0]
    # In the middle of the longest pause, so that rounding does not decide what has happened.
    longest = gaps.index(max(gaps))
    now += (sum(gaps[:longest]) + gaps[longest] / 2) / 10
    reader.read_new()
    assert reader._next == longest + 1
    now += sum(gaps)
    reader.read_new()
    assert reader.at_end
    assert reader.now == events[-1].t


@pytest.mark.parametrize(("text", "speed"), [("20x", 20.0), ("0.5x", 0.5), ("3", 3.0)])
def test_speeds(text, speed):
    assert parse_speed(text) == speed


@pytest.mark.parametrize("text", ["fast", "0x", "-2x", "1e9x", "x", "99999x"])
def test_what_is_no_speed_is_rejected(text):
    with pytest.raises(UsageError, match="is not a speed"):
        parse_speed(text)


def test_a_replay_without_a_screen_prints_what_the_run_printed(tmp_path):
    folder = write_run(tmp_path)
    plain = call(attach, str(folder.path), "--auto", "--plain")
    again = call(attach, str(folder.path), "--auto", "--plain", "--replay", "10000x")
    assert again.stdout == plain.stdout
    assert again.stderr.splitlines()[:3] == plain.stderr.splitlines()[:3]
