"""The run that the benchmark of the screen writes, and the benchmark itself on a small one."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from benchmarks.machine import Results
from benchmarks.performance import screen
from benchmarks.performance.written_run import FOLDS, STEPS, WORKERS, SyntheticRun, Writer
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, create_run
from tabapp.run.record.reducing.reduce import replay


def written(folder: Path, n_models: int, n_trials: int, *, live: bool) -> list[ev.AnyEvent]:
    """The events of a run as read from its folder."""
    made = create_run(RunConfig(data="titanic.csv"), folder)
    run, writer = SyntheticRun(n_models), Writer(made)
    writer.write(run.start(), 100.0)
    for number in range(n_trials):
        writer.write(list(run.trial(live=live)), 101.0 + number)
    return EventReader(made.events).read_new()


@pytest.mark.parametrize("live", [False, True])
def test_the_run_has_all_folds_of_its_trials(tmp_path, live):
    state = replay(written(tmp_path, 25, 60, live=live))
    assert len(state.trials) == 60
    assert len(state.fits) == 60 * FOLDS
    assert not state.active
    assert Counter(trial.model for trial in state.trials).most_common()[-1][1] == 2, "models take turns"
    assert [row.rank for row in state.leaderboard] == list(range(1, 27))
    assert state.leaderboard[0].model == ev.ENSEMBLE
    assert state.best is not None
    assert state.plan is not None
    assert (state.plan.folds, state.plan.workers, len(state.plan.models)) == (FOLDS, WORKERS, 25)


def test_a_trial_that_is_written_live_has_what_views_redraw(tmp_path):
    events = written(tmp_path, 3, 4, live=True)
    kinds = Counter(type(event) for event in events)
    assert kinds[ev.FitProgress] == 4 * FOLDS * STEPS
    assert kinds[ev.Resources] == kinds[ev.FitsPlanned] == 4 * FOLDS // WORKERS
    last = max(place for place, event in enumerate(events) if isinstance(event, ev.FitProgress))
    assert len(replay(events[: last + 1]).active) == WORKERS


def test_the_model_under_the_cursor_is_read_from_what_is_painted():
    painted = "╭─ Events ─╮╭─ \x1b[1mTuning · Network 07\x1b[0m ──╮".encode()
    assert screen._under_cursor(painted, but=b"Ensemble") == b"Network 07"
    assert screen._under_cursor(painted, but=b"Network 07") == b""


@pytest.mark.slow
def test_the_benchmark_measures_a_small_run(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(screen, "WINDOW_SECONDS", 0.5)
    options = argparse.Namespace(
        models=6, trials=12, rate=12.0, keys=4, seconds=1.0, python=sys.executable, out=tmp_path / "screen.json"
    )
    screen.run_benchmark(options)
    found = msgspec.json.decode(options.out.read_bytes(), type=Results)
    assert found.machine["models"] == 6
    assert [len(each["values"]) for each in found.results] == [2, 4, 4, 4, 2, 2]
    assert all(value > 0 for each in found.results if each["unit"] == "ms" for value in each["values"])
    assert {row[0] for row in found.tables[0].rows} == {each["what"] for each in found.results}
    assert "the key of another screen" in capfd.readouterr().out
