from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabapp.run.record import events as ev
from tabapp.run.record.reducing.fits import CURVE_LENGTH
from tabapp.run.record.reducing.reduce import FEED_LENGTH, reduce, replay
from tabapp.run.record.reducing.session import RESOURCES_LENGTH
from tabapp.run.record.state import RunState, format_score
from tests.run.recording import ENSEMBLE_ROW, LIGHTGBM_ROW, PLAN, recorded


def numbered(events: list[ev.Event]) -> list[ev.AnyEvent]:
    """The events with the sequence numbers and times that an event log assigns."""
    return [msgspec.structs.replace(event, seq=n, t=1000.0 + n) for n, event in enumerate(events, start=1)]  # type: ignore[misc]


STREAM = numbered(recorded("a-run"))


def test_complete_run_reduces_to_its_final_state():
    state = replay(STREAM)
    assert (state.run, state.name, state.stage, state.seq) == ("a-run", "shop", "done", len(STREAM))
    assert state.plan is not None
    assert state.plan.metric == PLAN.metric
    assert state.leaderboard == (ENSEMBLE_ROW, LIGHTGBM_ROW)
    assert state.best == ENSEMBLE_ROW
    assert [(trial.trial, trial.pruned) for trial in state.trials] == [(0, False), (1, True)]
    assert [failure.fit for failure in state.failures] == ["lightgbm-1-0"]
    assert state.active == {}
    assert state.started == 1001.0
    assert state.fitting_since == 1008.0
    assert state.finished is not None
    assert any("SIGKILL" in line.text for line in state.feed)
    assert state.evaluations["lightgbm"].confusion == ((700, 100), (50, 150))
    assert state.parameter_importances["lightgbm"].n_trials == 12
    assert any("12: 1 clearly worse" in line.text for line in state.feed)
    assert state.effects is not None
    assert state.effects.effects[0].feature == "age"


@given(st.integers(0, len(STREAM)), st.integers(0, len(STREAM)))
def test_repeated_events_change_nothing(seen, again_from):
    """A view may read any part of the stream twice."""
    state = replay(STREAM[:seen])
    assert replay([*STREAM[:seen], *STREAM[min(again_from, seen) : seen]]) == state
    assert replay([*STREAM[:seen], *STREAM[min(again_from, seen) :]]) == replay(STREAM)


@given(st.integers(0, len(STREAM)))
def test_incremental_reduction_equals_a_full_replay(cut):
    state = replay(STREAM[:cut])
    for event in STREAM[cut:]:
        state = reduce(state, event)
    assert state == replay(STREAM)


@pytest.mark.parametrize("n", range(len(STREAM)))
def test_reduce_does_not_modify_its_input(n):
    before = replay(STREAM[:n])
    frozen = msgspec.json.encode(before)
    reduce(before, STREAM[n])
    assert msgspec.json.encode(before) == frozen


def test_fit_is_active_until_it_ends():
    started = STREAM[:9]
    assert [fit.fit for fit in replay(started).active.values()] == ["lightgbm-0-0"]
    assert replay(STREAM[:10]).active["lightgbm-0-0"].curve == ((10, 0.8),)
    assert replay(STREAM[:11]).active == {}


def test_resumed_run_has_no_active_fits_and_is_not_finished():
    resumed = numbered([*recorded("a-run"), recorded("a-run")[0]])
    state = replay(resumed)
    assert state.finished is None
    assert state.active == {}
    assert state.leaderboard == (ENSEMBLE_ROW, LIGHTGBM_ROW), "earlier results are kept"
    crashed = numbered([*recorded("a-run")[:9], recorded("a-run")[0]])
    assert replay(crashed[:9]).active
    assert not replay(crashed).active


def test_last_plan_replaces_earlier_ones_and_a_new_budget_adds_no_feed_line():
    extended = msgspec.structs.replace(PLAN, budget=7200.0, trials=9)
    state = replay(STREAM)
    changed = reduce(state, msgspec.structs.replace(extended, seq=state.seq + 1))
    assert changed.plan is not None
    assert (changed.plan.budget, changed.plan.trials) == (7200.0, 9)
    assert changed.feed == state.feed
    other = reduce(changed, msgspec.structs.replace(PLAN, metric_title="log loss", seq=changed.seq + 1))
    assert "log loss" in other.feed[-1].text


def test_progress_of_an_unknown_fit_is_ignored():
    stray = ev.FitProgress(seq=1, t=1.0, fit="ghost", model="mlp", trial=0, fold=0, step=1, value=0.5)
    assert replay([stray]).active == {}


def test_curve_feed_and_resources_are_bounded():
    events: list[ev.Event] = [recorded("a-run")[0], recorded("a-run")[8]]
    for step in range(3 * CURVE_LENGTH):
        events.append(
            ev.FitProgress(fit="lightgbm-0-0", model="lightgbm", trial=0, fold=0, step=step, value=1 / (step + 1))
        )
        events.append(ev.Resources(cpu_percent=float(step), memory=step, memory_total=2**34))
        events.append(ev.Log(level="info", message=str(step)))
    state = replay(numbered(events))
    curve = state.active["lightgbm-0-0"].curve
    assert len(curve) <= CURVE_LENGTH
    assert (curve[0], curve[-1][0]) == ((0, 1.0), 3 * CURVE_LENGTH - 1)
    assert [step for step, _ in curve] == sorted({step for step, _ in curve})
    assert len(state.resources) == RESOURCES_LENGTH
    assert state.resources[-1].memory == 3 * CURVE_LENGTH - 1
    assert len(state.feed) == FEED_LENGTH
    assert state.feed[-1].text == str(3 * CURVE_LENGTH - 1)


def test_state_without_events_is_empty():
    assert replay([]) == RunState()
    assert RunState().best is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (0.93127, "0.9313"),
        (12.345, "12.35"),
        (123.45, "123.5"),
        (46512.3, "46,512"),
        (-0.5, "-0.5000"),
        (0.0, "0.0000"),
        (0.00071234, "0.0007123"),
        (-0.0000123456, "-1.235e-05"),
    ],
)
def test_format_score(value, text):
    assert format_score(value) == text


def test_fits_in_progress_end_with_the_stage_of_fitting():
    started = next(n for n, event in enumerate(STREAM) if isinstance(event, ev.FitStarted))
    state = replay(STREAM[: started + 1])
    assert len(state.active) == 1
    at = {"v": 1, "seq": state.seq + 1, "t": STREAM[started].t + 1}
    paused = ev.StageChanged(stage="fitting", paused=True, deadline=None, **at)
    assert reduce(state, paused).active == state.active
    assert reduce(state, ev.StageChanged(stage="ensembling", deadline=None, **at)).active == {}
