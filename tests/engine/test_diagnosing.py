"""Analyses of a finished run, through the process that appends them to it."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp.analyst import result_of
from tabapp.bundle.contents import open_bundle
from tabapp.bundle.load import load_bundle
from tabapp.bundle.threshold import set_threshold
from tabapp.bundle.write import write_bundle
from tabapp.cli.diagnose import diagnose
from tabapp.cli.predict import evaluate, predict
from tabapp.engine import diagnosing
from tabapp.engine.scored_run import ScoredRun
from tabapp.errors import UsageError
from tabapp.run import analyses as running
from tabapp.run import events as ev
from tabapp.run.diagnoses import diagnosis_tables
from tabapp.run.folder import EventReader
from tabapp.run.state import seconds_used
from tests.bundle.making import make_contents, register_linear, text_table
from tests.cli.test_predicting import call
from tests.engine.finished import make_finished_run, write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    return make_finished_run(write_table(place / "all.csv", "binary", 300), place)


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    place = tmp_path_factory.mktemp("regression")
    return make_finished_run(write_table(place / "all.csv", "regression", 300), place)


@pytest.fixture
def in_this_process(monkeypatch):
    """Run analyses here: another process would import the same libraries."""

    def analyze(kind, words):
        return running.read_result(kind, msgspec.json.encode(result_of(words)), b"", 0)

    monkeypatch.setattr("tabapp.cli.diagnose.analyze", analyze)


def test_the_score_falls_as_cells_are_damaged(folder):
    found = diagnosing.measure_robustness(ScoredRun(folder))
    run = ScoredRun(folder)
    assert found.missing[0].score == pytest.approx(found.noisy[0].score)
    assert found.missing[0].score == pytest.approx(run.state.ensemble.score, abs=1e-6)
    assert found.missing[-1].score < found.missing[0].high
    assert found.noisy[-1].score < found.noisy[0].low
    assert [point.place for point in found.noisy] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def test_more_rows_give_a_better_score_and_all_rows_that_of_the_run(regression):
    run = ScoredRun(regression)
    found = diagnosing.measure_row_curve(run)
    assert found.model == "linear"
    assert [point.place for point in found.points] == [50, 100, 200]
    assert found.points[-1].score == pytest.approx(run.state.ensemble.score)
    assert found.low <= found.gain <= found.high
    with pytest.raises(UsageError, match="no score of the model 'mlp'"):
        diagnosing.measure_row_curve(run, "mlp")


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_groups_of_a_column(folder, regression, kind):
    run = ScoredRun(folder if kind == "binary" else regression)
    found = diagnosing.measure_fairness(run, "group")
    assert [group.level for group in found.groups] == ["= east", "= west"]
    assert sum(group.n for group in found.groups) == 300
    assert not any(gap.clear for gap in found.gaps), "the group does not matter"
    with pytest.raises(UsageError, match="did you mean 'group'"):
        diagnosing.measure_fairness(run, "groups")
    with pytest.raises(UsageError, match="is the target"):
        diagnosing.measure_fairness(run, "outcome")


def test_results_are_kept_in_the_run(folder, in_this_process):
    before = seconds_used(EventReader(folder.events).read_new())
    words = [str(folder.path), "--fairness", "group", "--robustness"]
    lines = call(diagnose, *words, "--json").stdout.splitlines()
    assert [json.loads(line)["ev"] for line in lines] == ["robustness.ready", "fairness.ready"]
    text = call(diagnose, str(folder.path)).stdout
    assert "Robustness" in text
    assert "Groups by group" in text
    state = folder.state()
    assert [table.title for table in diagnosis_tables(state)] == ["Robustness", "Groups by group"]
    assert state.finished is not None
    assert seconds_used(EventReader(folder.events).read_new()) == before
    with pytest.raises(running.AnalysisError, match="has no bundle"):
        call(diagnose, str(folder.path), "--threshold", "f1")
    with pytest.raises(UsageError, match="Add --learning-curve"):
        call(diagnose, str(folder.path), "--model", "linear")


def test_a_resumed_run_forgets_the_results(folder):
    state = folder.state()
    from tabapp.run.state import reduce

    state = reduce(state, ev.RowCurveReady(seq=state.seq + 1, model="linear", points=(), gain=0, low=0, high=0))
    assert state.row_curve is not None
    started = ev.RunStarted(
        seq=state.seq + 1, run=folder.run, name="", data="", pid=1, seed=0, budget=None, version="0", resumed=True
    )
    assert reduce(state, started).row_curve is None


def test_the_bundle_labels_rows_by_its_threshold(tmp_path, monkeypatch):
    register_linear(monkeypatch)
    bundle = tmp_path / "model.tabapp"
    write_bundle(bundle, make_contents(tmp_path, "binary"))
    models = {m.path: m.sha256 for m in open_bundle(bundle).manifest.members if m.kind == "model"}
    data = tmp_path / "new.csv"
    text_table("binary", n_rows=40, seed=7).write_csv(data)
    before = pl.read_csv(_predicted(bundle, data, tmp_path))
    set_threshold(bundle, 0.8)
    after = pl.read_csv(_predicted(bundle, data, tmp_path))
    assert before.drop("prediction").equals(after.drop("prediction"))
    assert (after["prediction"] == "yes").to_list() == (after["probability_yes"] >= 0.8).to_list()
    assert (after["prediction"] != before["prediction"]).any()
    assert {m.path: m.sha256 for m in open_bundle(bundle).manifest.members if m.kind == "model"} == models
    scores = {row["name"]: row["score"] for row in json.loads(call(evaluate, bundle, data, "--json").stdout)["metrics"]}
    truth = pl.read_csv(data)["outcome"]
    assert scores["accuracy"] == pytest.approx((after["prediction"] == truth).mean())
    set_threshold(bundle, None)
    assert pl.read_csv(_predicted(bundle, data, tmp_path)).equals(before)


def _predicted(bundle, data, tmp_path):
    call(predict, bundle, data, "-o", tmp_path / "out.csv")
    return tmp_path / "out.csv"


def test_a_threshold_is_chosen_and_restored(folder, tmp_path, monkeypatch):
    register_linear(monkeypatch)
    write_bundle(folder.bundle, make_contents(tmp_path, "binary"))
    try:
        found = diagnosing.choose_bundle_threshold(ScoredRun(folder), "cost:fn=5,fp=1")
        assert found.value < 0.5, "a missed positive is expensive"
        assert load_bundle(folder.bundle).predictor.ensemble.threshold == found.value
        assert found.tp + found.fp + found.fn + found.tn == 300
        with pytest.raises(UsageError, match="does not depend on a threshold"):
            diagnosing.choose_bundle_threshold(ScoredRun(folder), "roc_auc")
        assert diagnosing.measure_fairness(ScoredRun(folder), "group").threshold == found.value
        assert diagnosing.choose_bundle_threshold(ScoredRun(folder), "none").value is None
        assert load_bundle(folder.bundle).predictor.ensemble.threshold is None
    finally:
        folder.bundle.unlink()


def test_a_threshold_outside_its_range_is_rejected(tmp_path, monkeypatch):
    from tabapp.bundle.contents import _ensemble_problem

    register_linear(monkeypatch)
    bundle = tmp_path / "model.tabapp"
    write_bundle(bundle, make_contents(tmp_path, "binary"))
    contents = open_bundle(bundle)
    for threshold in (0.0, 1.0, -3.0, np.inf, np.nan):
        changed = msgspec.structs.replace(contents.ensemble, threshold=threshold)
        assert "threshold" in _ensemble_problem(contents.manifest, changed)
