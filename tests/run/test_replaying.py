"""Events of a run return when their time has come."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from tabapp.cli.commands.run import attach
from tabapp.errors import UsageError
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import EventReader
from tabapp.run.record.replaying import LONGEST_PAUSE, LONGEST_WAIT, ReplayReader, parse_speed
from tests.cli.test_predicting import call
from tests.run.recording import write_run


def test_events_arrive_in_order_at_the_chosen_pace(tmp_path):
    folder = write_run(tmp_path)
    events = EventReader(folder.events).read_new()
    gaps = [min(max(0.0, b.t - a.t), LONGEST_PAUSE) for a, b in itertools.pairwise(events)]
    assert gaps[-1] <= LONGEST_WAIT
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


@pytest.fixture
def paced(tmp_path):
    """A replay whose clock a test sets, and the events of its run, one every ten seconds."""
    folder = write_run(tmp_path)
    events = EventReader(folder.events).read_new()
    spaced = [msgspec.structs.replace(event, t=1000.0 + 10 * index) for index, event in enumerate(events)]
    folder.events.write_bytes(b"".join(encode(event) for event in spaced))
    clock = [0.0]
    return ReplayReader(folder, 1.0, lambda: clock[0]), spaced, clock


def test_a_paused_replay_stands_still_and_continues_where_it_was(paced):
    reader, events, clock = paced
    reader.read_new()
    clock[0] = 25.0
    assert reader.read_new() == events[1:3]
    reader.pause()
    clock[0] = 1000.0
    assert reader.read_new() == []
    assert (reader.position, reader.now, reader.is_paused) == (25.0, 1025.0, True)
    reader.pause()
    clock[0] = 1006.0
    assert reader.read_new() == events[3:4]
    assert not reader.is_paused


def test_a_jump_back_repeats_the_events_before_it_and_a_jump_forward_only_the_new_ones(paced):
    reader, events, clock = paced
    clock[0] = 1.0
    reader.read_new()
    reader.seek(45.0)
    assert reader.read_new() == events[1:5]
    reader.seek(reader.position - 10)
    assert reader.read_new() == events[:4]
    assert reader.now == 1035.0
    reader.seek(-5)
    assert reader.read_new() == events[:1]
    reader.seek(10**9)
    assert reader.read_new() == events[1:]
    assert reader.at_end
    assert reader.position == reader.length


def test_steps_go_from_event_to_event(paced):
    reader, events, _ = paced
    reader.read_new()
    reader.pause()
    reader.seek(25.0)
    reader.read_new()
    reader.step(1)
    assert (reader.position, reader.read_new()) == (30.0, events[3:4])
    reader.step(-1)
    assert (reader.position, reader.read_new()) == (20.0, events[:3])
    reader.seek(25.0)
    reader.read_new()
    reader.step(-1)
    assert reader.position == 20.0, "between two events, the last one that was shown"
    reader.step(-100)
    assert reader.position == 0.0


def test_waiting_for_the_user_is_short_and_work_keeps_its_pauses(tmp_path):
    folder = write_run(tmp_path)
    finished = next(event for event in EventReader(folder.events).read_new() if isinstance(event, ev.RunFinished))
    events = [
        ev.StageChanged(seq=1, t=0.0, stage="ready"),
        ev.Log(seq=2, t=50.0, level="info", message="The plan was changed."),
        ev.StageChanged(seq=3, t=100.0, stage="starting"),
        ev.StageChanged(seq=4, t=140.0, stage="fitting"),
        ev.Log(seq=5, t=240.0, level="info", message="A long fit ended."),
        msgspec.structs.replace(finished, seq=6, t=241.0),
        ev.Log(seq=7, t=900.0, level="info", message="An analysis ended."),
    ]
    folder.events.write_bytes(b"".join(encode(event) for event in events))
    clock = [0.0]
    reader = ReplayReader(folder, 1.0, lambda: clock[0])
    reader.pause()
    places = []
    for _ in events:
        places.append(reader.position)
        reader.step(1)
    work = [LONGEST_WAIT * 2, LONGEST_WAIT * 2 + 40.0, LONGEST_WAIT * 2 + 100.0, LONGEST_WAIT * 2 + 101.0]
    assert places == [0.0, LONGEST_WAIT, *work, work[-1] + LONGEST_WAIT] == [*places[:-1], reader.length]
    assert (reader.events_seen, reader.n_events) == (7, 7)


def test_the_speed_changes_without_a_jump_and_stays_in_range(paced):
    reader, _, clock = paced
    reader.read_new()
    clock[0] = 10.0
    reader.set_speed(4.0)
    assert reader.position == 10.0
    clock[0] = 15.0
    assert reader.position == 30.0
    reader.set_speed(10**9)
    assert reader.speed == 10_000.0
