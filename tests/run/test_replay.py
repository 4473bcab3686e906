"""Recorded runs reduce to their golden summaries, and every prefix of a stream gives a consistent state."""

from __future__ import annotations

import zipfile
from collections import Counter

import msgspec
import pytest

from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import all_kinds, decode
from tabapp.run.record.folder import EventReader
from tabapp.run.record.reducing.fits import CURVE_LENGTH
from tabapp.run.record.reducing.reduce import FEED_LENGTH, reduce, replay
from tabapp.run.record.reducing.session import RESOURCES_LENGTH
from tabapp.run.record.state import RunState
from tests.formats.make import HERE as FORMATS
from tests.formats.make import RUN
from tests.recordings import FOLDER, HOPELESS, NAMES, events_of, lines_of
from tests.recordings.replay import ReplayWorker, make_run

MAX_BYTES = 150_000
ALL = (*NAMES, HOPELESS)
TARGETS_RUN = FORMATS / "targets_7" / RUN


def summary(state: RunState) -> dict[str, object]:
    """The outcome of a run as a few values to compare with the golden file."""
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


@pytest.mark.parametrize("name", ALL)
def test_recorded_run_matches_its_golden_summary(name):
    golden = msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())
    assert msgspec.json.decode(msgspec.json.encode(summary(replay(events_of(name))))) == golden


@pytest.mark.parametrize("name", ALL)
def test_recordings_are_small_complete_and_free_of_local_paths(name):
    lines = lines_of(name)
    assert sum(len(line) + 1 for line in lines) < MAX_BYTES
    events = events_of(name)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.t for event in events] == sorted(event.t for event in events)
    assert isinstance(events[-1], ev.RunFinished)
    text = b"\n".join(lines)
    assert not [path for path in (b"/home/", b"/root/", b"/tmp/", b"/usr/", b"/opt/") if path in text]


def test_recordings_contain_failures_and_every_kind_of_event():
    kinds = {name: {type(event) for event in events_of(name)} for name in ALL}
    assert ev.FitFailed in kinds["cancer"]
    assert ev.TrialPruned in kinds["cancer"]
    assert ev.PlanRefused in kinds["prices"]
    assert any(isinstance(event, ev.StageChanged) and event.paused for event in events_of("prices"))
    assert [event.resumed for event in events_of("wine") if isinstance(event, ev.RunStarted)] == [False, True]
    # A new kind of event needs a recording that contains it.
    with zipfile.ZipFile(TARGETS_RUN) as archive:
        several = {type(event) for event in map(decode, archive.read("run/events.jsonl").splitlines())}
    found = several.union(*kinds.values())
    requested = (ev.AnalysisEvent, ev.AnalysisStep)
    assert {kind for kind in all_kinds() if not issubclass(kind, requested)} <= found


def test_parameter_importances_and_log_messages_of_a_recorded_run():
    """The state keeps the last ranking of each model, importances sum to 1, and each log message is a line of the feed."""
    events = events_of("tuned")
    state = replay(events)
    ranked = [event for event in events if isinstance(event, ev.ParametersRanked)]
    assert {event.model for event in ranked} == set(state.parameter_importances) == {"lightgbm", "linear"}
    for model, ranking in state.parameter_importances.items():
        history = [event for event in ranked if event.model == model]
        assert ranking == history[-1]
        assert [event.n_trials for event in history] == sorted(event.n_trials for event in history)
        assert history[0].n_trials >= 10
        complete = [trial for trial in state.trials if trial.model == model and not trial.pruned]
        assert ranking.n_trials <= len(complete)
        assert sum(row.importance for row in ranking.rows) == pytest.approx(1, abs=1e-3)
        assert {row.name for row in ranking.rows} <= {name for trial in complete for name in trial.params}
    messages = [event.message for event in events if isinstance(event, ev.Log)]
    assert len(messages) == 6
    assert [line.text for line in state.feed if line.text in messages] == messages


def check(state: RunState, earlier: RunState, event: ev.AnyEvent) -> None:
    """Assert the invariants of the state after any prefix of a stream."""
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


@pytest.mark.parametrize("name", ALL)
def test_every_prefix_gives_a_consistent_state(name):
    state = RunState()
    for event in events_of(name):
        earlier, state = state, reduce(state, event)
        check(state, earlier, event)


@pytest.mark.parametrize("name", ALL)
def test_repeated_events_do_not_change_the_state(name):
    events = events_of(name)
    whole = replay(events)
    assert replay([*events, *events]) == whole
    for cut in range(0, len(events), 17):
        assert replay([*events[:cut], *events[cut // 2 :]]) == whole


@pytest.mark.parametrize("name", ALL)
def test_unknown_events_and_damaged_lines_are_skipped(name, tmp_path):
    later = b'{"ev":"model.distilled","v":2,"seq":7,"t":1.0,"model":"mlp"}'
    lines = [part for line in lines_of(name) for part in (line, later, b'{"ev":"fit.progress","v":1,"se')]
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert replay(EventReader(path).read_new()) == replay(events_of(name))


@pytest.mark.parametrize("name", ALL)
def test_recorded_state_round_trips_through_json(name):
    for cut in (None, -40, 12):
        state = replay(events_of(name)[:cut])
        assert msgspec.json.decode(msgspec.json.encode(state), type=RunState) == state


# -- the replay worker --


@pytest.mark.parametrize("name", ALL)
def test_replay_writes_the_recorded_events(name, tmp_path):
    folder = make_run(tmp_path, name)
    worker = ReplayWorker(folder, events_of(name))
    worker.play_all()
    assert worker.is_over
    assert folder.state() == replay(events_of(name)) == worker.state


def test_replay_waits_for_start_and_executes_commands(tmp_path):
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
