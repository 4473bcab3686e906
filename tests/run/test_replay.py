"""The state of real runs, as recorded: what each came to, and that no cut of its stream leaves a state that contradicts itself."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tabapp.run import commands as cmd
from tabapp.run import events as ev
from tabapp.run.folder import EventReader
from tabapp.run.state import CURVE_LENGTH, FEED_LENGTH, RESOURCES_LENGTH, RunState, reduce, replay
from tests.recordings import FOLDER, NAMES, events_of, lines_of
from tests.recordings.replay import ReplayWorker, make_run

MOST_BYTES = 150_000


def summary(state: RunState) -> dict[str, object]:
    """What a run came to, in a few facts."""
    assert state.plan is not None
    assert state.finished is not None
    return {
        "target": state.plan.target,
        "metric": state.plan.metric,
        "status": state.finished.status,
        "best": [state.best.model, round(state.best.score or 0.0, 4)] if state.best else None,
        "leaderboard": [f"{row.rank} {row.model} {row.status} {row.held}".rstrip() for row in state.leaderboard],
        "complete": sum(not trial.pruned for trial in state.trials),
        "pruned": sum(trial.pruned for trial in state.trials),
        "fits": len(state.fits),
        "failures": sorted({failure.model for failure in state.failures}),
        "members": sorted(f"{member.model} {member.trial}" for member in state.ensemble.members)
        if state.ensemble
        else [],
        "first_importance": state.importances.rows[0].feature if state.importances else None,
        "evaluations": sorted(state.evaluations),
        "slices": len(state.slices.rows) if state.slices else 0,
        "effects": [effect.feature for effect in state.effects.effects] if state.effects else [],
        "feed": dict(sorted(Counter(line.kind for line in state.feed).items())),
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_came_to_what_is_kept_beside_it(name):
    golden = msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())
    assert msgspec.json.decode(msgspec.json.encode(summary(replay(events_of(name))))) == golden


@pytest.mark.parametrize("name", NAMES)
def test_recordings_are_small_whole_and_of_no_machine(name):
    lines = lines_of(name)
    assert sum(len(line) + 1 for line in lines) < MOST_BYTES
    events = events_of(name)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.t for event in events] == sorted(event.t for event in events)
    assert isinstance(events[-1], ev.RunFinished)
    text = b"\n".join(lines)
    assert not [path for path in (b"/home/", b"/root/", b"/tmp/", b"/usr/", b"/opt/") if path in text]


def test_the_recordings_hold_what_goes_wrong_in_real_life():
    kinds = {name: {type(event) for event in events_of(name)} for name in NAMES}
    assert ev.FitFailed in kinds["cancer"]
    assert ev.TrialPruned in kinds["cancer"]
    assert ev.PlanRefused in kinds["prices"]
    assert any(isinstance(event, ev.StageChanged) and event.paused for event in events_of("prices"))
    assert [event.resumed for event in events_of("wine") if isinstance(event, ev.RunStarted)] == [False, True]
    # Every kind of event is in some recording, so that one that is new is recorded too.
    assert set().union(*kinds.values()) == set(ev.AnyEvent.__args__)


def test_what_decides_and_what_was_told_in_a_recorded_run():
    """The ranking that a model had last stands, its shares add up, and each sentence of the engine is a line of the feed."""
    events = events_of("tuned")
    state = replay(events)
    ranked = [event for event in events if isinstance(event, ev.ParametersRanked)]
    assert {event.model for event in ranked} == set(state.parameter_importances) == {"lightgbm", "linear"}
    for model, ranking in state.parameter_importances.items():
        told = [event for event in ranked if event.model == model]
        assert ranking == told[-1]
        assert [event.n_trials for event in told] == sorted(event.n_trials for event in told)
        assert told[0].n_trials >= 10
        complete = [trial for trial in state.trials if trial.model == model and not trial.pruned]
        assert ranking.n_trials <= len(complete)
        assert sum(row.importance for row in ranking.rows) == pytest.approx(1, abs=1e-3)
        assert {row.name for row in ranking.rows} <= {name for trial in complete for name in trial.params}
    said = [event.message for event in events if isinstance(event, ev.Log)]
    assert len(said) == 6
    assert [line.text for line in state.feed if line.text in said] == said


def check(state: RunState, earlier: RunState, event: ev.AnyEvent) -> None:
    """What holds for every state, wherever a stream was cut."""
    assert (state.seq, state.time) == (event.seq, event.t)
    assert state.time >= earlier.time
    assert len(state.trials) - len(earlier.trials) == isinstance(event, ev.TrialFinished | ev.TrialPruned)
    ranks = [row.rank for row in state.leaderboard if row.score is not None]
    assert ranks == list(range(1, len(ranks) + 1))
    assert all(row.rank == 0 for row in state.leaderboard if row.score is None)
    assert len({row.model for row in state.leaderboard}) == len(state.leaderboard)
    assert not set(state.active) & set(state.fits)
    assert all(name == fit.fit for name, fit in state.active.items())
    assert all(len(fit.curve) <= CURVE_LENGTH for fit in state.active.values())
    assert len(state.feed) <= FEED_LENGTH
    assert len(state.resources) <= RESOURCES_LENGTH
    if state.plan is not None:
        competing = {model.name for model in state.plan.models} | {"ensemble"}
        assert {row.model for row in state.leaderboard} <= competing
        assert {fit.model for fit in state.fits.values()} <= competing
    if state.stage in ("fitting", "ensembling", "explaining", "exporting"):
        assert state.plan is not None
        assert state.fitting_since is not None
    if state.finished is not None:
        assert state.stage == "done"
        assert not state.active


@pytest.mark.parametrize("name", NAMES)
def test_any_cut_of_the_stream_gives_a_consistent_state(name):
    state = RunState()
    for event in events_of(name):
        earlier, state = state, reduce(state, event)
        check(state, earlier, event)


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_that_is_read_twice_from_anywhere_gives_the_same_state(name):
    events = events_of(name)
    whole = replay(events)
    assert replay([*events, *events]) == whole
    for cut in range(0, len(events), 17):
        assert replay([*events[:cut], *events[cut // 2 :]]) == whole


@pytest.mark.parametrize("name", NAMES)
def test_events_of_a_later_version_and_damaged_lines_are_passed_over(name, tmp_path):
    later = b'{"ev":"model.distilled","v":2,"seq":7,"t":1.0,"model":"mlp"}'
    lines = [part for line in lines_of(name) for part in (line, later, b'{"ev":"fit.progress","v":1,"se')]
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert replay(EventReader(path).read_new()) == replay(events_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_state_survives_json(name):
    for cut in (None, -40, 12):
        state = replay(events_of(name)[:cut])
        assert msgspec.json.decode(msgspec.json.encode(state), type=RunState) == state


# The worker that plays recordings


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_tells_what_was_recorded(name, tmp_path):
    folder = make_run(tmp_path, name)
    worker = ReplayWorker(folder, events_of(name))
    worker.play_all()
    assert worker.is_over
    assert folder.state() == replay(events_of(name)) == worker.state


def test_a_replay_waits_for_its_start_and_obeys(tmp_path):
    folder = make_run(tmp_path, "cancer")
    worker = ReplayWorker(folder, events_of("cancer"))
    worker.play(1000)
    assert worker.state.stage == "ready"
    folder.send(cmd.ChangePlan(options={"target": "no such column"}))
    folder.send(cmd.ChangePlan(options={"metric": "log_loss"}))
    worker.obey()
    assert folder.state().plan.metric == "log_loss"
    assert any("no such column" in line.text for line in folder.state().feed)
    folder.send(cmd.Start())
    worker.obey()
    worker.play(30)
    assert worker.state.stage == "fitting"
    folder.send(cmd.Pause())
    worker.obey()
    assert folder.state().paused
    seq = worker.state.seq
    worker.play(30)
    assert worker.state.seq == seq
    folder.send(cmd.Resume())
    folder.send(cmd.StopModel(model="lightgbm"))
    worker.obey()
    row = next(row for row in folder.state().leaderboard if row.model == "lightgbm")
    assert row.held == "stopped"
    fits = {name for name, fit in worker.state.fits.items() if fit.model == "lightgbm"}
    worker.play(60)
    assert {name for name, fit in worker.state.fits.items() if fit.model == "lightgbm"} == fits
    folder.send(cmd.Finish())
    worker.obey()
    assert folder.state().finished is not None
    assert worker.is_over
