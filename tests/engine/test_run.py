"""Whole runs through the real command: events, bundle, reproducibility, resume after kill -9, interrupts, bad input."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import psutil
import pytest

from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder, list_runs
from tabapp.run.record.reducing.reduce import replay
from tests.tables import write_mixed, write_shops, write_wine
from tests.waiting import HANG_SECONDS, wait_until

QUICK = ["--models", "xgboost,linear", "--trials", "2", "--folds", "3"]
ONE_MODEL = ["--models", "lightgbm", "--trials", "1", "--folds", "2"]


def tabapp(*arguments: str, timeout: float = HANG_SECONDS) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tabapp", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)


def start(*arguments: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tabapp", *arguments]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def children_cpu_seconds() -> float:
    """Processor seconds of all processes that this one has started and waited for, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def events_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def finished_fits(folder: RunFolder) -> list[str]:
    return [e.fit for e in EventReader(folder.events).read_new() if isinstance(e, ev.FitFinished)]


@pytest.fixture(scope="module")
def wine_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, list[dict[str, Any]]]:
    root = tmp_path_factory.mktemp("wine")
    data = write_wine(root / "wine.csv")
    done = tabapp("--auto", str(data), *QUICK, "--json", "--runs-dir", str(root / "runs"), "--test", str(data))
    assert done.returncode == 0, done.stderr
    return list_runs(root / "runs")[0], events_of(done.stdout)


def test_event_stream_conforms_to_the_interface(wine_run: tuple[RunFolder, list[dict[str, Any]]]) -> None:
    folder, events = wine_run
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {"v", "t", "ev"} <= set(events[0])
    names = [event["ev"] for event in events]
    order = [
        "run.started",
        "data.read",
        "schema.inferred",
        "plan.made",
        "fit.started",
        "fit.finished",
        "ensemble.changed",
    ]
    assert [names.index(name) for name in order] == sorted(names.index(name) for name in order)
    last = events[-1]
    assert last["ev"] == "run.finished"
    assert (last["status"], last["target"], last["task"], last["metric"]) == (
        "ok",
        "cultivar",
        "multiclass",
        "log_loss",
    )
    assert last["greater_is_better"] is False
    rows = {row["model"]: row for row in last["leaderboard"]}
    assert rows["ensemble"]["rank"] == 1
    singles = [row["score"] for name, row in rows.items() if name != "ensemble" and row["score"] is not None]
    assert len(singles) == 2
    # The ensemble's score is cross-fitted, and those of single models are not.
    assert rows["ensemble"]["low"] < min(singles)
    assert sum(row["in_ensemble"] for name, row in rows.items() if name != "ensemble") == pytest.approx(1)
    for row in last["leaderboard"]:
        assert row["low"] <= row["score"] <= row["high"]
    assert last["best"]["score"] == rows["ensemble"]["score"] < 0.3
    assert len(last["importances"]) == 13
    assert 0 < last["test_score"] < 0.3
    assert Path(last["bundle"]).is_file()
    assert events_of(folder.events.read_text()) == events


def test_replaying_the_events_gives_the_same_result(wine_run: tuple[RunFolder, list[dict[str, Any]]]) -> None:
    folder, events = wine_run
    state = replay(EventReader(folder.events).read_new())
    assert state.finished is not None
    assert json.loads(msgspec.json.encode(state.leaderboard)) == events[-1]["leaderboard"]
    assert state.active == {}


def test_a_run_is_listed(wine_run: tuple[RunFolder, list[dict[str, Any]]]) -> None:
    folder, _ = wine_run
    listed = json.loads(tabapp("runs", "--json", "--runs-dir", str(folder.path.parent)).stdout)
    assert listed[0]["run"] == folder.run
    assert listed[0]["status"] == "ok"
    assert set(listed[0]) == {
        "run",
        "name",
        "note",
        "tags",
        "pinned",
        "status",
        "data",
        "target",
        "metric",
        "best",
        "folds",
        "started",
        "seconds",
        "path",
    }
    attached = tabapp("attach", folder.run, "--plain", "--runs-dir", str(folder.path.parent))
    assert attached.returncode == 0
    assert "Leaderboard" in attached.stdout


def test_no_row_is_scored_by_a_model_trained_on_it(wine_run: tuple[RunFolder, list[dict[str, Any]]]) -> None:
    folder, _ = wine_run
    fold = np.load(folder.path / "splits.npz")["fold"]
    assert sorted(set(fold.tolist())) == [0, 1, 2]
    for k in range(3):
        assert len(np.load(folder.fits / f"xgboost-0000-f{k}" / "oof.npy")) == (fold == k).sum()


def test_a_later_fold_reuses_the_number_of_trees_of_the_first_two(
    wine_run: tuple[RunFolder, list[dict[str, Any]]],
) -> None:
    folder, _ = wine_run
    fits = [folder.fits / f"xgboost-0000-f{fold}" / "metrics.json" for fold in range(3)]
    first, second, third = (json.loads(fit.read_bytes())["summary"] for fit in fits)
    used = third.pop("used_columns")
    assert sum(used.values()) <= 1 + 1e-3
    assert third == {"trees": round((first["trees"] + second["trees"]) / 2), "refit": True}


def test_the_bundle_predicts_like_the_run(wine_run: tuple[RunFolder, list[dict[str, Any]]], tmp_path: Path) -> None:
    """The bundle's probabilities are the weighted means of the run's own fold models on the same rows, with its calibration."""
    from tabapp.bundle.files.contents import open_bundle
    from tabapp.engine.fit.candidates import Candidate, read_results
    from tabapp.engine.fit.features import RunFeatures
    from tabapp.engine.fit.run_data import RunData
    from tabapp.ensemble.scaling import calibrated
    from tabapp.models import registry

    folder, events = wine_run
    out = tmp_path / "predictions.csv"
    data = folder.config().data
    assert tabapp("predict", events[-1]["bundle"], data, "-o", str(out)).returncode == 0
    predicted = pl.read_csv(out)
    expected = 0.0
    rows = RunData(folder)
    ensemble = json.loads((folder.path / "ensemble.json").read_text())
    for member in ensemble["members"]:
        candidate = Candidate(member["model"], member["trial"], {}, 3)
        read_results(folder, candidate)
        for fold, result in candidate.results.items():
            table = RunFeatures(rows, 0, folder).saved(result.recipe, fold).table
            model = registry.get(member["model"]).load(folder.fits / candidate.fit_name(fold) / "model")
            expected = expected + member["weight"] / 3 * model.predict(table)
    stored = open_bundle(Path(events[-1]["bundle"])).ensemble
    expected = calibrated(np.asarray(expected), stored.calibration)
    names = [name for name in predicted.columns if name.startswith("probability_")]
    assert predicted.height == len(rows.target)
    np.testing.assert_allclose(predicted.select(names).to_numpy(), expected, atol=2e-6)


def test_the_bundle_has_the_scaling_of_the_ensemble(tmp_path: Path) -> None:
    """No probability of a class is below 0.4, which neither a linear model nor a temperature can express."""
    from tabapp.bundle.files.contents import open_bundle

    generator = np.random.default_rng(0)
    x = generator.normal(0, 3, 3_000)
    y = generator.random(len(x)) < 0.4 + 0.6 / (1 + np.exp(-x))
    data = tmp_path / "floor.csv"
    pl.DataFrame({"x": x, "y": np.where(y, "yes", "no")}).write_csv(data)
    options = ["--target", "y", "--models", "linear", "--trials", "1", "--folds", "3", "--runs-dir", str(tmp_path)]
    done = tabapp("--auto", str(data), *options, "--json")
    assert done.returncode == 0, done.stderr
    events = events_of(done.stdout)
    assert open_bundle(Path(events[-1]["bundle"])).ensemble.scaling is not None
    shown = [event for event in events if event["ev"] == "evaluation.ready" and event["model"] == "ensemble"][-1]
    assert shown["calibration_error"] < shown["uncalibrated_error"]


def facts_of(rows: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """What a leaderboard says about each model, apart from times."""
    return [(row["rank"], row["model"], row["score"], row["low"], row["trial"], row["in_ensemble"]) for row in rows]


# With one worker, each fit has a thread for every core. Threads that wait for each other are slow on a busy machine.
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_the_same_seed_gives_the_same_leaderboard(
    wine_run: tuple[RunFolder, list[dict[str, Any]]], tmp_path: Path, workers: int
) -> None:
    folder, events = wine_run
    done = tabapp(
        "--auto", folder.config().data, *QUICK, "--json", "--runs-dir", str(tmp_path), "--workers", str(workers)
    )
    again = events_of(done.stdout)[-1]["leaderboard"]
    assert facts_of(again) == facts_of(events[-1]["leaderboard"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_number_of_workers_does_not_change_a_leaderboard_with_networks(tmp_path: Path) -> None:
    """The table has numbers, a category of many levels and text, so that all seeded features take part."""
    data = write_shops(tmp_path / "shops.csv")
    models = "lightgbm,xgboost,linear,k_neighbors,mlp,resnet,tabm,realmlp,snn"
    options = ["--models", models, "--trials", "3", "--folds", "3", "--json"]
    boards: list[list[tuple[object, ...]]] = []
    for workers in (1, 2, 4):
        runs = str(tmp_path / f"runs{workers}")
        done = tabapp("--auto", str(data), *options, "--runs-dir", runs, "--workers", str(workers), timeout=900)
        assert done.returncode == 0, done.stderr
        boards.append(facts_of(events_of(done.stdout)[-1]["leaderboard"]))
    assert boards[0] == boards[1] == boards[2]


@pytest.mark.slow
def test_resuming_a_complete_run_needs_more_budget_or_trials(wine_run: tuple[RunFolder, list[dict[str, Any]]]) -> None:
    folder, _ = wine_run
    before = finished_fits(folder)
    refused = tabapp("resume", str(folder.path), "--json")
    assert refused.returncode == 2
    assert "complete" in refused.stderr
    more = tabapp("resume", str(folder.path), "--trials", "3", "--json")
    assert more.returncode == 0, more.stderr
    events = events_of(more.stdout)
    assert events[-1]["ev"] == "run.finished"
    assert [event["trials"] for event in events if event["ev"] == "plan.made"][-1] == 3
    after = finished_fits(folder)
    assert len(after) > len(before)
    assert len(set(after)) == len(after)


@pytest.mark.slow
def test_a_regression_with_gaps_dates_and_missing_targets(tmp_path: Path) -> None:
    data = write_mixed(tmp_path / "mixed.csv")
    done = tabapp("--auto", str(data), "--target", "price", *ONE_MODEL, "--json", "--runs-dir", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    events = events_of(done.stdout)
    schema = next(event for event in events if event["ev"] == "schema.inferred")
    assert (schema["rows"], schema["rows_without_target"]) == (392, 8)
    assert events[-1]["metric"] == "rmse"
    assert events[-1]["best"]["score"] < 1200
    out = tmp_path / "out.csv"
    assert tabapp("predict", events[-1]["bundle"], str(data), "-o", str(out)).returncode == 0
    predicted = pl.read_csv(out)
    assert predicted.columns == ["prediction", "low", "high"]
    assert predicted.height == 400


def command_of(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def n_events(runs: Path) -> int:
    """Events of all runs in a folder."""
    return sum(len(run.events.read_bytes().splitlines()) for run in list_runs(runs) if run.events.exists())


def ended_or_written(process: subprocess.Popen[bytes], runs: Path, goal: int) -> bool:
    """Whether a command has ended, or its runs have that many events."""
    return process.poll() is not None or n_events(runs) >= goal


def kill_and_resume(tmp_path: Path, rounds: int, seed: int, models: list[str], trials: int) -> None:
    """Kill the engine, a fit or everything after a random number of events; every resume continues the run, and no
    complete fit is repeated.
    """
    generator = random.Random(seed)
    data = write_wine(tmp_path / "wine.csv")
    runs = tmp_path / "runs"
    options = ["--models", ",".join(models), "--trials", str(trials), "--folds", "5", "--json", "--runs-dir", str(runs)]
    command = ["--auto", str(data), *options]
    kills = 0
    while kills < rounds:
        goal = n_events(runs) + generator.randint(1, 25)
        process = start(*command)
        wait_until(partial(ended_or_written, process, runs, goal), "events or the end of the run")
        found = list_runs(runs)
        if process.poll() is not None:
            break
        children = psutil.Process(process.pid).children(recursive=True)
        engines = [child for child in children if "tabapp.processes.engine" in command_of(child)]
        above = (process.pid, *(engine.pid for engine in engines))
        fits = [child for child in children if child.is_running() and child.ppid() not in above]
        victim = generator.choice(["engine", "fit", "group"])
        kills += 1
        if victim == "fit" and fits:
            with suppress(psutil.NoSuchProcess):
                fit = generator.choice(fits)
                fit.kill()
                psutil.wait_procs([fit], timeout=HANG_SECONDS)
        if victim == "engine" and engines:
            engines[0].kill()
            process.wait(HANG_SECONDS)
        else:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(HANG_SECONDS)
        _, alive = psutil.wait_procs(children, timeout=HANG_SECONDS)
        assert not alive
        if found:
            command = ["resume", str(found[0].path), "--json"]
    done = tabapp(*command)
    assert done.returncode in (0, 2), done.stderr
    folder = list_runs(runs)[0]
    state = folder.state()
    assert state.finished is not None
    assert state.finished.status == "ok"
    fits_done = finished_fits(folder)
    assert len(fits_done) == len(set(fits_done))
    assert sqlite3.connect(folder.study).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not list(folder.path.rglob(".*.tmp"))
    assert tabapp("inspect", str(folder.bundle)).returncode == 0
    for name in models:
        row = next(row for row in state.leaderboard if row.model == name)
        assert (row.folds, row.trials) == (5, trials)


def test_resume_after_kill_9(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 2, 3, ["lightgbm", "linear"], 1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_resume_after_ten_kills(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 12, 1, ["lightgbm", "xgboost", "mlp"], 4)


def most_open_trials(folder: RunFolder) -> int:
    """The largest number of trials of one model that were begun and not ended at the same time."""
    is_open: dict[str, set[int]] = {}
    most = 0
    for event in EventReader(folder.events).read_new():
        if isinstance(event, ev.FitStarted):
            is_open.setdefault(event.model, set()).add(event.trial)
        elif isinstance(event, ev.TrialFinished | ev.TrialPruned):
            is_open.get(event.model, set()).discard(event.trial)
        most = max(most, *map(len, is_open.values()), 0)
    return most


@pytest.mark.slow
def test_many_workers_run_several_trials_of_a_model(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    options = ["--budget", "10m", "--models", "linear,lightgbm", "--folds", "3", "--workers", "8"]
    options += ["--runs-dir", str(runs)]
    process = start("--auto", str(write_wine(tmp_path / "wine.csv")), *options)
    wait_until(lambda: any(most_open_trials(run) > 1 for run in list_runs(runs)), "two open trials")
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # The engine holds the lock of the run until it has ended.
    _, alive = psutil.wait_procs(children, timeout=HANG_SECONDS)
    assert not alive
    (folder,) = list_runs(runs)
    before = finished_fits(folder)
    resumed = start("resume", str(folder.path))
    wait_until(lambda: len(finished_fits(folder)) > len(before) + 12, "more fits")
    os.killpg(resumed.pid, signal.SIGINT)
    assert resumed.wait(HANG_SECONDS) == 130
    fits = finished_fits(folder)
    assert len(set(fits)) == len(fits), "a complete fit was repeated"
    finished = folder.state().finished
    assert finished is not None
    assert finished.status == "interrupted"


def test_an_interrupt_writes_a_bundle_of_the_best_models(tmp_path: Path) -> None:
    data = write_wine(tmp_path / "wine.csv")
    options = ["--budget", "10m", "--models", "lightgbm", "--folds", "2", "--runs-dir", str(tmp_path / "runs")]
    process = start("--auto", str(data), *options)
    wait_until(lambda: any(run.state().ensemble for run in list_runs(tmp_path / "runs")), "the first ensemble")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(HANG_SECONDS) == 130
    folder = list_runs(tmp_path / "runs")[0]
    finished = folder.state().finished
    assert finished is not None
    assert finished.status == "interrupted"
    assert tabapp("predict", str(folder.bundle), str(data), "-o", str(tmp_path / "out.csv")).returncode == 0


def test_a_budget_too_short_for_any_model_is_exit_4(tmp_path: Path) -> None:
    data = write_wine(tmp_path / "wine.csv")
    done = tabapp("--auto", str(data), "--budget", "1s", "--models", "mlp", "--runs-dir", str(tmp_path / "runs"))
    assert done.returncode == 4
    assert "--budget" in done.stderr.splitlines()[-1]


def test_a_run_ends_within_its_budget(tmp_path: Path) -> None:
    """No fit starts after the deadline, running fits end at once, and the work after it fits into the reserve.

    Other processes delay all of these, so the test limits processor time, which they do not change: a run within its
    budget uses at most all cores from start to end. A run may also end without a model (exit code 4), and must then end
    as early.
    """
    data = write_mixed(tmp_path / "mixed.csv", rows=3000)
    budget, cores = 12, len(psutil.Process().cpu_affinity() or [0])
    before = children_cpu_seconds()
    done = tabapp(
        "--auto",
        str(data),
        "--target",
        "price",
        "--budget",
        f"{budget}s",
        "--json",
        "--runs-dir",
        str(tmp_path / "runs"),
    )
    assert done.returncode in (0, 4), done.stderr
    assert children_cpu_seconds() - before < cores * (budget * 1.1 + 2)
    events = events_of(done.stdout)
    deadline = next(e["deadline"] for e in events if e["ev"] == "stage.changed" and e["stage"] == "fitting")
    began = next(e["t"] for e in events if e["ev"] == "run.started")
    assert deadline <= began + budget
    assert all(e["t"] < deadline for e in events if e["ev"] == "fit.started")
    assert events[-1]["ev"] == "run.finished"
    if done.returncode == 4:
        return
    stages = [e["stage"] for e in events if e["ev"] == "stage.changed"]
    assert stages.index("fitting") < stages.index("ensembling") < stages.index("exporting")
    ensembling = next(i for i, e in enumerate(events) if e["ev"] == "stage.changed" and e["stage"] == "ensembling")
    assert not any(e["ev"].startswith("fit.") for e in events[ensembling:])
