"""Analyses of a finished run, through the process that appends them to it."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.threshold import set_threshold
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.commands.diagnose import diagnose
from tabapp.cli.commands.evaluate import evaluate
from tabapp.cli.commands.predict import predict
from tabapp.engine.analyses import diagnosing
from tabapp.engine.analyses.dependences import find_attention, find_dependence, find_interactions
from tabapp.engine.analyses.faithfulness import advice, drop_and_refit, measure_faithfulness
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.analyses.fitting_again import TimeLimit
from tabapp.errors import UsageError
from tabapp.explain.attention import AttentionShare
from tabapp.explain.permutation import ColumnImportance
from tabapp.findings import ImportanceRow
from tabapp.processes import analyst
from tabapp.processes.analyst import result_of
from tabapp.run.analyses.learning_curve import RowCurveReady
from tabapp.run.protocol import analyses as running
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader
from tabapp.run.record.state import seconds_used
from tabapp.run.texts.diagnoses import known_results, tables_of
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

    def analyze(kind, request, *folders):
        return running.read_result(kind, msgspec.json.encode(result_of(request, *folders)), b"", 0)

    monkeypatch.setattr("tabapp.cli.commands.diagnose.analyze", analyze)


def test_the_score_falls_as_cells_are_damaged(folder):
    found = diagnosing.measure_robustness(FinishedRun(folder))
    run = FinishedRun(folder)
    assert found.missing[0].score == pytest.approx(found.noisy[0].score)
    assert found.missing[0].score == pytest.approx(run.state.ensemble.score, abs=1e-6)
    assert found.missing[-1].score < found.missing[0].high
    assert found.noisy[-1].score < found.noisy[0].low
    assert [point.place for point in found.noisy] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_groups_of_a_column(folder, regression, kind):
    run = FinishedRun(folder if kind == "binary" else regression)
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
    assert [table.title for found in known_results(state) for table in tables_of(found, state)] == [
        "Robustness",
        "Groups by group",
    ]
    assert state.finished is not None
    assert seconds_used(EventReader(folder.events).read_new()) == before
    with pytest.raises(running.AnalysisError, match="has no bundle"):
        call(diagnose, str(folder.path), "--threshold", "f1")
    with pytest.raises(UsageError, match="Add --learning-curve"):
        call(diagnose, str(folder.path), "--model", "linear")
    with pytest.raises(UsageError, match="--budget limits the analysis of a model"):
        call(diagnose, *words, "--budget", "5m")


def test_the_steps_of_an_analysis_are_events(folder, monkeypatch):
    monkeypatch.setattr(analyst, "REPORT_SECONDS", 0.0)
    before = len(EventReader(folder.events).read_new())
    result_of(running.Diagnose("robustness"), folder.path)
    failed = result_of(running.Diagnose("fairness", "outcome"), folder.path)
    assert isinstance(failed, running.AnalysisFailed)
    events = EventReader(folder.events).read_new()[before:]
    started, *shares, found, ended, _, refused = events
    assert isinstance(started, ev.AnalysisStarted)
    assert [event.share for event in shares] == sorted(event.share for event in shares)
    assert shares[-1].share == 1.0
    assert len(shares) == 14, "a share for each prediction"
    assert found.n_rows == 300
    assert (ended.option, ended.status, ended.message) == ("robustness", "done", "")
    assert (refused.value, refused.status, refused.message) == ("outcome", "failed", failed.error)
    assert folder.state().underway is None
    assert seconds_used(events) == 0.0


def test_a_resumed_run_forgets_the_results(folder):
    state = folder.state()
    from tabapp.run.record.reducing.reduce import reduce

    state = reduce(state, RowCurveReady(seq=state.seq + 1, model="linear", points=(), gain=0, low=0, high=0))
    assert state.result(RowCurveReady) is not None
    started = ev.RunStarted(
        seq=state.seq + 1, run=folder.run, name="", data="", pid=1, seed=0, budget=None, version="0", resumed=True
    )
    assert reduce(state, started).result(RowCurveReady) is None


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
        found = diagnosing.choose_bundle_threshold(FinishedRun(folder), "cost:fn=5,fp=1")
        assert found.value < 0.5, "a missed positive is expensive"
        assert load_bundle(folder.bundle).predictor.ensemble.threshold == found.value
        assert found.tp + found.fp + found.fn + found.tn == 300
        chosen = diagnosing.choose_bundle_threshold(FinishedRun(folder), "cost:fn=5,fp=1@0.6")
        assert chosen.by_hand
        assert load_bundle(folder.bundle).predictor.ensemble.threshold == chosen.value == 0.6
        assert chosen.metric == "cost:fn=5,fp=1"
        assert chosen.score > found.score, "a better place was known"
        with pytest.raises(UsageError, match="not a number between 0 and 1"):
            diagnosing.choose_bundle_threshold(FinishedRun(folder), "f1@1.2")
        with pytest.raises(UsageError, match="does not depend on a threshold"):
            diagnosing.choose_bundle_threshold(FinishedRun(folder), "roc_auc")
        assert diagnosing.measure_fairness(FinishedRun(folder), "group").threshold == 0.6
        assert diagnosing.choose_bundle_threshold(FinishedRun(folder), "none").value is None
        assert load_bundle(folder.bundle).predictor.ensemble.threshold is None
    finally:
        folder.bundle.unlink()


def test_a_threshold_outside_its_range_is_rejected(tmp_path, monkeypatch):
    from tabapp.bundle.files.contents import _ensemble_problem

    register_linear(monkeypatch)
    bundle = tmp_path / "model.tabapp"
    write_bundle(bundle, make_contents(tmp_path, "binary"))
    contents = open_bundle(bundle)
    for threshold in (0.0, 1.0, -3.0, np.inf, np.nan):
        changed = msgspec.structs.replace(contents.ensemble, threshold=threshold)
        assert "threshold" in _ensemble_problem(contents.manifest, changed)


@pytest.mark.slow
def test_attention_is_compared_with_what_the_score_needs(tmp_path):
    """A quick network of one layer: the score needs `strong` and its twin, so permutation ranks one of them first."""
    params = {
        "n_layers": 1,
        "d_token": 8,
        "learning_rate": 1e-2,
        "average_decay": 0.0,
        "batch_size": 64,
        "max_epochs": 12,
    }
    run = make_finished_run(
        write_table(tmp_path / "all.csv", "binary", 400), tmp_path, model="ft_transformer", params=params, folds=2
    )
    found = measure_faithfulness(FinishedRun(run))
    assert found.methods == ("attention", "permutation", "integrated gradients", "drop and refit")
    assert {row.feature for row in found.rows} == {"strong", "twin", "weak", "noise", "group"}
    assert found.rows[0].feature in ("strong", "twin")
    by_name = {row.feature: row.values for row in found.rows}
    assert all(value is not None for values in by_name.values() for value in values), "five columns are dropped in turn"
    assert sum(values[0] for values in by_name.values()) == pytest.approx(1)
    assert sum(values[2] for values in by_name.values()) == pytest.approx(1)
    assert by_name["strong"][2] > by_name["noise"][2]
    assert [row[i] for i, row in enumerate(found.correlations)] == [pytest.approx(1)] * 4
    finished = FinishedRun(run)
    attention = find_attention(finished.models, finished.best_of("ft_transformer"))
    (layer,) = attention.maps
    assert layer.queries == ("[CLS]",)
    assert sum(layer.heads[0][0]) == pytest.approx(1, abs=0.01)
    with pytest.raises(UsageError, match="with attention"):
        measure_faithfulness(FinishedRun(run), "linear")


def test_dropping_a_column_that_has_a_twin_costs_little(folder):
    run = FinishedRun(folder)
    limit = TimeLimit(None)
    found = drop_and_refit(run, run.best_of("linear"), ["strong", "weak", "noise", "group"], limit)
    assert limit.trained == 10, "two folds of the whole table, and without each of four columns"
    assert found["weak"] > 3 * max(abs(found[name]) for name in ("strong", "noise", "group"))
    stopped = TimeLimit(0.001)
    assert drop_and_refit(run, run.best_of("linear"), ["strong"], stopped) == {}
    assert stopped.trained == 0


def test_dependence_and_interactions_of_a_run(folder):
    run = FinishedRun(folder)
    candidate = run.best_of("linear")
    rows = tuple(
        ImportanceRow(feature=name, attention=None, permutation=value, low=value, high=value)
        for name, value in (("strong", 0.2), ("twin", 0.1), ("weak", 0.02), ("noise", 0.0), ("group", 0.0))
    )
    importances = ev.ImportancesReady(rows=rows, model="linear", attention_model=None, n_rows=300, agreement=None)
    found = find_dependence(run.models, candidate, importances, None)
    (group,) = found.groups
    assert set(group.columns) == {"strong", "twin"}
    assert group.low > 0
    conditional = {each.feature: each for each in found.conditional}
    assert conditional["twin"].permutation < group.permutation
    pairs = find_interactions(run.models, candidate, importances, None)
    assert pairs.label == "yes"
    assert {frozenset((p.a, p.b)) for p in pairs.pairs} == {
        frozenset(pair) for pair in (("strong", "twin"), ("strong", "weak"), ("twin", "weak"))
    }
    few = msgspec.structs.replace(importances, rows=rows[3:])
    assert find_interactions(run.models, candidate, few, None) is None
    first = msgspec.structs.replace(rows[0], unstable=True)
    unstable = msgspec.structs.replace(importances, rows=(first, *rows[1:]))
    found = find_interactions(run.models, candidate, unstable, None)
    assert found.columns == ("twin", "weak"), "an unstable importance says nothing of its column"


LAST_BY_ATTENTION = {"a": 0.0, "b": 0.4, "c": 0.3, "d": 0.2}
FIRST_BY_ATTENTION = {"a": 0.9, "b": 0.1, "c": 0.0, "d": 0.0}
FIRST = {"a": 0.3, "b": 0.2, "c": 0.1, "d": 0.0}
LAST = {"a": 0.0, "b": 0.3, "c": 0.2, "d": 0.1}


@pytest.mark.parametrize(
    ("attention", "permutation", "low", "drops", "raw", "words"),
    [
        (FIRST_BY_ATTENTION, LAST, -0.1, {}, 0.9, "hardly needs it, or other columns replace it"),
        (FIRST_BY_ATTENTION, {"a": 0.05, "b": 0.3, "c": 0.2, "d": 0.1}, 0.01, {}, 0.9, "less than attention suggests"),
        (LAST_BY_ATTENTION, FIRST, 0.2, {"a": -0.1}, 0.0, "can replace it"),
        (LAST_BY_ATTENTION, FIRST, 0.2, {"a": 0.1}, 0.0, "needs the column"),
        (LAST_BY_ATTENTION, FIRST, 0.2, {"a": 0.1}, 0.6, "its features together have 60 %"),
        (LAST_BY_ATTENTION, FIRST, -0.2, {"a": 0.1}, 0.0, ""),
        ({"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}, LAST, -0.1, {}, 0.25, ""),
        (FIRST, FIRST, 0.2, {}, 0.3, ""),
    ],
    ids=["unused", "less", "replaced", "needed", "many-features", "uncertain", "chance", "agree"],
)
def test_advice_where_attention_disagrees(attention, permutation, low, drops, raw, words):
    shares = {name: AttentionShare(each, each, each, raw if name == "a" else each) for name, each in attention.items()}
    importances = {name: ColumnImportance(name, each, low, each, 5) for name, each in permutation.items()}
    found = advice("a", shares, importances, drops)
    assert words in found
    assert bool(found) == bool(words)
