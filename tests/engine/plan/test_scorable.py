"""Plans whose metric is undefined on some or all of the rows that they score."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from tabapp import metrics
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop.clock import Clock
from tabapp.engine.loop.recovery import recover
from tabapp.engine.plan.make_plan import Plan, make_plan, write_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.scorable import Scored
from tabapp.engine.plan.write_rows import write_rows
from tabapp.errors import DataError
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import decode, encode
from tabapp.run.record.folder import EventReader, RunFolder, create_run, list_runs
from tabapp.task import Task
from tests.engine.conducting import MODELS, Engine
from tests.waiting import HANG_SECONDS

ROWS = 300


@dataclass(frozen=True)
class Prepared:
    config: RunConfig
    folder: RunFolder
    plan: Plan
    data: RunData

    def positives(self) -> list[int]:
        """Rows of the last class in each fold."""
        return [int((self.data.target[self.data.fold == fold] == 1).sum()) for fold in range(self.plan.folds)]


def columns(target: Any, **others: Any) -> pl.DataFrame:
    generator = np.random.default_rng(0)
    return pl.DataFrame({"x": generator.normal(size=ROWS), "z": generator.normal(size=ROWS), **others, "y": target})


def rare(n_positive: int) -> list[str]:
    return ["fault" if i % (ROWS // n_positive) == 3 else "fine" for i in range(ROWS)]


def prepare(place: Path, frame: pl.DataFrame, **options: Any) -> Prepared:
    frame.write_csv(place / "data.csv")
    config = RunConfig(data=str(place / "data.csv"), target="y", models=("linear",), memory_limit=2**33, **options)
    folder = create_run(config, place / "runs")
    reading = read_data(config)
    schema = infer(reading, config)
    plan = write_rows(folder, config, reading, schema, make_plan(config, schema))
    write_plan(folder.plan, plan)
    return Prepared(config, folder, plan, RunData(folder))


def test_fewer_folds_than_positive_rows_each_have_one(tmp_path: Path) -> None:
    found = prepare(tmp_path, columns(rare(3)))
    assert found.positives() == [1, 1, 1]
    assert (found.plan.folds, found.plan.validation) == (3, "3-fold stratified cross-validation")
    (note,) = found.plan.notes
    assert note.startswith("3 folds instead of 8: only 3 rows have the class 'fault', and ROC AUC is undefined")


def test_the_folds_of_the_user_stay_and_those_with_a_score_come_first(tmp_path: Path) -> None:
    found = prepare(tmp_path, columns(rare(3)), folds=8)
    assert found.positives() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert (
        np.bincount(found.data.fold).tolist() == [38, 38, 38, 38, 37, 37, 37, 37]
        or np.ptp(np.bincount(found.data.fold)) <= 1
    )
    assert found.plan.notes == (
        "ROC AUC is undefined on 5 of 8 folds, whose rows are all 'fine'. The score of a model is that of all folds together.",
    )


@pytest.mark.parametrize("n_positive", [1, 2])
def test_too_few_positive_rows_leave_the_number_of_folds(tmp_path: Path, n_positive: int) -> None:
    found = prepare(tmp_path, columns(rare(n_positive)))
    assert found.positives() == [1] * n_positive + [0] * (8 - n_positive)
    assert len(found.plan.notes) == 1


def test_a_metric_that_is_defined_on_any_rows_changes_nothing(tmp_path: Path) -> None:
    found = prepare(tmp_path, columns(rare(3)), metric="log_loss")
    assert (found.plan.folds, found.plan.notes) == (8, ())


def test_ordinary_rows_change_nothing(tmp_path: Path) -> None:
    found = prepare(tmp_path, columns(rare(30)))
    schema = infer(read_data(found.config), found.config)
    assert found.plan == make_plan(found.config, schema)


def test_the_latest_rows_of_one_class_are_scored_by_log_loss(tmp_path: Path) -> None:
    labels = ["yes" if i % 3 == 0 and i < 240 else "no" for i in range(ROWS)]
    found = prepare(tmp_path, columns(labels, day=[i // 30 for i in range(ROWS)]), time="day")
    assert found.plan.metric == "log_loss"
    assert found.plan.notes == (
        "ROC AUC is undefined on the scored rows, which are all 'no' (holdout of the latest 20 %). The metric of this run is log "
        "loss instead; --metric chooses another one.",
    )


@pytest.mark.parametrize("metric", ["average_precision", "roc_auc"])
def test_a_chosen_metric_is_refused_before_any_work(tmp_path: Path, metric: str) -> None:
    labels = ["fault" if i in (10, 20, 40) else "fine" for i in range(ROWS)]
    with pytest.raises(DataError) as found:
        prepare(tmp_path, columns(labels, day=list(range(ROWS))), metric=metric, time="day")
    assert str(found.value) == (
        f"{metrics.get(metric).title} is undefined on the scored rows, which are all 'fine' (holdout of the latest 20 %). Choose "
        "another --metric, such as log_loss, or leave out --time."
    )


def test_r2_of_constant_rows_is_refused_and_r2_of_some_constant_folds_is_not(tmp_path: Path) -> None:
    values = [7.0 if i >= 240 else float(i % 17) for i in range(ROWS)]
    with pytest.raises(DataError, match=r"R² is undefined on the scored rows, which are all '7' .* such as rmse"):
        prepare(tmp_path, columns(values, day=list(range(ROWS))), metric="r2", time="day")
    sites = [f"S{i // 60}" for i in range(ROWS)]
    found = prepare(
        tmp_path,
        columns([7.0 if i < 120 else float(i % 17) for i in range(ROWS)], site=sites),
        metric="r2",
        group="site",
    )
    assert found.plan.notes
    for fold in range(found.plan.folds - 1):
        assert np.ptp(found.data.target[found.data.fold == fold]) > 0


def test_groups_of_one_class_each(tmp_path: Path) -> None:
    sites = [f"S{i // 30}" for i in range(ROWS)]
    found = prepare(
        tmp_path, columns([["no", "yes"][i // 30 in (0, 3, 7)] for i in range(ROWS)], site=sites), group="site"
    )
    assert found.plan.folds == 3
    assert all(found.positives())
    assert "only 3 groups have the class 'yes'" in found.plan.notes[0]


def test_fewer_groups_than_folds_are_the_number_of_folds_of_the_plan(tmp_path: Path) -> None:
    sites = [f"S{i % 4}" for i in range(ROWS)]
    found = prepare(tmp_path, columns(rare(60), site=sites), group="site")
    assert (found.plan.folds, found.data.n_folds) == (4, 4)
    assert found.plan.validation == "4-fold stratified cross-validation, grouped by site"


def test_scored_rows_without_weight_are_refused(tmp_path: Path) -> None:
    frame = columns(rare(60), day=list(range(ROWS)), w=[float(i < 200) for i in range(ROWS)])
    with pytest.raises(DataError, match=r"No row that is scored has a weight above 0 \(holdout of the latest 20 %\)"):
        prepare(tmp_path, frame, time="day", weight="w")


@pytest.mark.parametrize("lost", ["plan.json", "splits.npz", "both"])
@pytest.mark.parametrize("folds", [None, 8])
def test_a_damaged_run_gets_the_same_plan_and_folds_again(tmp_path: Path, lost: str, folds: int | None) -> None:
    found = prepare(tmp_path, columns(rare(3)), folds=folds)
    for name in ("plan.json", "splits.npz") if lost == "both" else (lost,):
        (found.folder.path / name).write_bytes(b"damaged")
    plan, _ = recover(found.folder, found.config, lambda message: None)
    assert (plan.folds, plan.metric, plan.notes) == (found.plan.folds, found.plan.metric, found.plan.notes)
    assert RunData(found.folder).fold.tolist() == found.data.fold.tolist()


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_third_party_metrics_are_tried_with_predictions_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: Task
) -> None:
    def correlation(truth: Any, prediction: Any, weight: Any) -> float:
        values = prediction[:, 1] if prediction.ndim == 2 else prediction
        if np.ptp(truth) == 0 or np.ptp(values) == 0:
            return math.nan
        return float(np.corrcoef(truth, values)[0, 1])

    def broken(truth: Any, prediction: Any, weight: Any) -> float:
        raise ZeroDivisionError

    common: dict[str, Any] = {"description": "", "tasks": (task,), "greater_is_better": True, "needs_probability": True}
    for name, function in {"corr": correlation, "broken": broken}.items():
        metric = metrics.Metric(name=name, title=name, function=function, **common)
        monkeypatch.setitem(metrics.registry.BUILT_IN, name, metric)
    target = rare(30) if task == "binary" else [float(i % 7) for i in range(ROWS)]
    found = prepare(tmp_path, columns(target))
    scored = Scored(found.data.schema, found.data.target, None, None)
    constant = found.data.target == found.data.target[0]
    for name in ("corr", "broken"):
        assert scored.is_defined(name, np.ones(ROWS, dtype=bool))
        assert not scored.is_defined(name, constant)


def test_every_metric_is_nan_where_no_row_has_a_weight() -> None:
    codes, zeros = np.array([0, 1, 1]), np.zeros(3)
    for metric in map(metrics.get, metrics.names()):
        values = np.array([1.0, 2.0, 3.0]) if metric.tasks == ("regression",) else np.array([[0.4, 0.6]] * 3)
        truth = codes if metric.is_classification else codes.astype(float)
        assert np.isnan(metrics.score(metric.name, truth, values, zeros)), metric.name
        assert np.isnan(metrics.interval(metric.name, truth, values, zeros, seed=0)).all(), metric.name
        few = np.array([0.0, 0.0, 1.0])
        assert len(metrics.interval(metric.name, truth, values, few, seed=0)) == 2, metric.name


def test_a_run_with_folds_without_a_score_ends_with_every_trial_and_readable_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = prepare(tmp_path, columns(rare(3)), folds=8)
    competing = replace(make_plan(replace(found.config, models=MODELS, trials=4), found.data.schema), folds=8)
    for budget in (None, 600.0):
        shutil.rmtree(found.folder.fits, ignore_errors=True)
        found.folder.study.unlink(missing_ok=True)
        engine = Engine(found.folder, replace(competing, budget=budget), Clock(budget, 0.0), 1)
        ended = iter(range(2_000))
        monkeypatch.setattr(time, "sleep", lambda seconds, ended=ended: next(ended))
        engine.conductor.run()
        trials = engine.events_of(ev.TrialFinished)
        assert {trial.model for trial in trials} == set(MODELS)
        closed = {(trial.model, trial.trial) for trial in [*trials, *engine.events_of(ev.TrialPruned)]}
        assert closed == {(fit.model, fit.trial) for fit in engine.events_of(ev.FitStarted)}
        # With a time limit, a model outside the ensemble gets no further trials.
        assert len(closed) == 8 or budget is not None
        assert all(trial.score is not None for trial in trials)
        selected = engine.conductor.board.select_now()
        assert selected is not None
        for event in [*engine.events, selected.event()]:
            assert decode(encode(event)) is not None


@pytest.mark.slow
def test_the_command_ends_with_a_bundle_and_resumes_without_a_repair(tmp_path: Path) -> None:
    columns(rare(3)).write_csv(tmp_path / "data.csv")
    program = [sys.executable, "-m", "tabapp"]
    options = [
        "--target",
        "y",
        "--models",
        "linear",
        "--trials",
        "1",
        "--folds",
        "4",
        "--runs-dir",
        str(tmp_path / "runs"),
    ]
    done = subprocess.run(
        [*program, "--auto", str(tmp_path / "data.csv"), *options, "--json"],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert "NaN" not in done.stdout
    events = [json.loads(line) for line in done.stdout.splitlines()]
    scores = {event["fold"]: event["score"] for event in events if event["ev"] == "fit.finished"}
    assert [fold for fold in sorted(scores) if scores[fold] is None] == [3]
    warnings = [event["message"] for event in events if event["ev"] == "log" and event["level"] == "warning"]
    assert [message for message in warnings if "undefined on 1 of 4 folds, whose rows are all 'fine'" in message]
    plans = [event["notes"] for event in events if event["ev"] == "plan.made"]
    assert plans[-1] == [message for message in warnings if "undefined" in message]
    (folder,) = list_runs(tmp_path / "runs")
    before = EventReader(folder.events).read_new()
    again = subprocess.run(
        [*program, "resume", str(folder.path), "--trials", "2", "--plain"],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert again.returncode == 0, again.stderr
    repeated = EventReader(folder.events).read_new()[len(before) :]
    assert not [event for event in repeated if isinstance(event, ev.Log) and "damaged" in event.message]
    assert {event.trial for event in repeated if isinstance(event, ev.FitStarted)} == {1}
    finished = repeated[-1]
    assert isinstance(finished, ev.RunFinished)
    assert (finished.status, finished.metric) == ("ok", "roc_auc")
