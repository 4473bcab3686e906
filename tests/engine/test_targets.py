"""Runs with several targets: plans without a leak, and whole runs through the real command."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import polars as pl
import pytest

from tabapp.engine.draft import make_draft
from tabapp.engine.plan.prepare import read_data
from tabapp.errors import DataError, UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder, list_runs
from tabapp.run.record.reducing.reduce import replay
from tests.engine.test_run import events_of, finished_fits, start, tabapp
from tests.tables import write_mixed
from tests.waiting import wait_until

OPTIONS = ["--target", "price,city", "--models", "linear,xgboost", "--trials", "1", "--folds", "2"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_mixed(tmp_path / "mixed.csv", rows=200)


def draft(path: Path, target: str, **options: object) -> tuple[list[ev.Event], tuple[str, ...]]:
    """The events of a draft, and the metric of each target."""
    config = RunConfig(data=str(path), target=target, trials=1, device="cpu", models=("linear",), **options)  # type: ignore[arg-type]
    shown: list[ev.Event] = []
    found = make_draft(config, read_data(config), None, show=shown.append)
    for each in found.targets:
        features = {column.name for column in each.schema.features}
        assert features.isdisjoint(other.target for other in found.targets)
    return shown, tuple(each.plan.metric for each in found.targets)


def test_each_target_has_a_plan_without_the_others(table: Path) -> None:
    shown, chosen = draft(table, "price,city")
    assert chosen == ("rmse", "log_loss")
    schema, plan = shown
    assert isinstance(schema, ev.SchemaInferred)
    assert isinstance(plan, ev.PlanMade)
    assert {column.name: column.role for column in schema.columns if column.role == "target"} == {
        "price": "target",
        "city": "target",
    }
    assert (plan.target, plan.targets) == ("price", ("price", "city"))
    assert "--target price,city" in plan.command
    assert "--ignore" not in plan.command


def test_a_metric_applies_to_the_targets_that_have_it(table: Path) -> None:
    shown, chosen = draft(table, "price,city", metric="mae")
    assert chosen == ("mae", "log_loss")
    notes = [event.message for event in shown if isinstance(event, ev.Log)]
    assert notes == ["--metric mae is not defined for the target 'city'. Its metric is log loss."]
    with pytest.raises(UsageError, match="roc_aux"):
        draft(table, "price,city", metric="roc_aux")


def test_a_budget_that_is_short_for_each_target_is_reported(table: Path) -> None:
    (note,) = (event.message for event in draft(table, "price,city", budget=8.0)[0] if isinstance(event, ev.Log))
    assert note.startswith("Each of the 2 targets gets 4s of --budget")
    assert note.endswith("Use at least 20s.")
    assert not any(isinstance(event, ev.Log) for event in draft(table, "price,city", budget=20.0)[0])


def test_a_column_with_a_comma_is_one_target(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = {"x": list(range(30)), "a,b": [i / 7 for i in range(30)], "a": list("uv" * 15), "b": list("wz" * 15)}
    pl.DataFrame(rows).write_csv(path)
    shown, chosen = draft(path, "a,b")
    assert chosen == ()
    assert next(event for event in shown if isinstance(event, ev.PlanMade)).target == "a,b"
    assert draft(path, '"a,b",a')[1] == ("rmse", "roc_auc")


@pytest.mark.parametrize("target", ["price,nothing", "nothing,price"])
def test_an_unknown_target_is_named_as_for_one(table: Path, target: str) -> None:
    with pytest.raises(DataError, match="no column 'nothing' to predict"):
        draft(table, target)


def test_a_target_cannot_be_ignored(table: Path) -> None:
    with pytest.raises(UsageError, match="cannot be ignored"):
        draft(table, "price,city", ignore=("city",))


@pytest.mark.slow
def test_a_run_with_two_targets_ends_with_a_bundle_of_both(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "both.tabapp"
    done = tabapp(
        "--auto",
        str(table),
        *OPTIONS,
        "--json",
        "--out",
        str(out),
        "--test",
        str(table),
        "--runs-dir",
        str(tmp_path / "r"),
    )
    assert done.returncode == 0, done.stderr
    events = events_of(done.stdout)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    last = events[-1]
    assert (last["ev"], last["status"], last["target"], last["bundle"]) == ("run.finished", "ok", "price", str(out))
    assert [each["target"] for each in last["targets"]] == ["price", "city"]
    for each in last["targets"]:
        # Every member of `run.finished` of a run with one target.
        assert set(last) - {"v", "seq", "t", "elapsed", "ev", "targets"} == set(each)
        assert each["best"]["score"] == each["leaderboard"][0]["score"]
        assert each["test_score"] is not None
    folder = list_runs(tmp_path / "r")[0]
    assert events_of(folder.events.read_text()) == events
    predicted = tabapp("predict", str(out), str(table))
    assert predicted.returncode == 0, predicted.stderr
    assert "price_prediction,price_low,price_high,city_prediction" in predicted.stdout
    scores = json.loads(tabapp("evaluate", str(out), str(table), "--json").stdout)
    assert [each["target"] for each in scores["targets"]] == ["price", "city"]
    single = tabapp("--auto", str(table), *OPTIONS[2:], "--target", "price", "--ignore", "city", "--json")
    assert events_of(single.stdout)[-1]["best"] == last["best"]


@pytest.mark.slow
def test_a_killed_run_resumes_with_the_same_result(table: Path, tmp_path: Path) -> None:
    whole = tabapp("--auto", str(table), *OPTIONS, "--json", "--runs-dir", str(tmp_path / "whole"))
    runs = tmp_path / "killed"
    process = start("--auto", str(table), *OPTIONS, "--runs-dir", str(runs))
    second = "targets/2-city"
    wait_until(
        lambda: any((run.path / second / "events.jsonl").exists() for run in list_runs(runs)), "the second target"
    )
    folder = list_runs(runs)[0]
    own = RunFolder(folder.path / second)
    wait_until(lambda: len(finished_fits(own)) > 0, "a fit of the second target")
    pid = next(event.pid for event in EventReader(folder.events).read_new() if isinstance(event, ev.RunStarted))
    os.kill(pid, signal.SIGKILL)
    process.wait()
    before = finished_fits(own)
    first = RunFolder(folder.path / "targets/1-price").events.read_bytes()
    done = tabapp("resume", str(folder.path), "--auto", "--json")
    assert done.returncode == 0, done.stderr
    assert RunFolder(folder.path / "targets/1-price").events.read_bytes() == first
    assert len(finished_fits(own)) == len(set(finished_fits(own)))
    assert finished_fits(own)[: len(before)] == before
    found, expected = events_of(done.stdout)[-1], events_of(whole.stdout)[-1]
    assert [each["best"] for each in found["targets"]] == [each["best"] for each in expected["targets"]]
    state = replay(EventReader(folder.events).read_new())
    assert [view.state is not None for view in state.targets] == [True, True]


@pytest.mark.slow
def test_an_interrupt_ends_the_run_with_the_targets_so_far(table: Path, tmp_path: Path) -> None:
    process = start("--auto", str(table), *OPTIONS, "--runs-dir", str(tmp_path))
    wait_until(
        lambda: any((run.path / "targets/2-city/events.jsonl").exists() for run in list_runs(tmp_path)), "target 2"
    )
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    finished = list_runs(tmp_path)[0].state().finished
    assert finished is not None
    assert (finished.status, finished.targets[0].status) == ("interrupted", "ok")
    assert finished.bundle is not None
    assert Path(finished.bundle).is_file()
