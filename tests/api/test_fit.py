"""Runs from Python: real engines on small tables."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tabapp
from tests.api.tables import customers, houses

FAST = {"trials": 1, "models": ["linear"], "folds": 2, "seed": 3, "progress": False}


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(runs_dir) -> tabapp.Run:
    """A classification on a polars table."""
    return tabapp.fit(customers(), target="bought", runs_dir=runs_dir, name="shop", **FAST)


@pytest.fixture(scope="module")
def regression(runs_dir) -> tabapp.Run:
    """A regression on a pandas table with an index of its own, scored on test rows as well."""
    table = pd.DataFrame(houses().to_dict(as_series=False), index=range(500, 500 + houses().height))
    return tabapp.fit(table, target="price", runs_dir=runs_dir, test=houses(30), **FAST)


def scores(run: tabapp.Run) -> list[tuple[str, float]]:
    return run.leaderboard().select("model", "score").rows()


def test_a_run_knows_what_it_found(run, runs_dir):
    assert run.status == "ok"
    assert run.path == runs_dir / run.id
    assert (run.target, run.task, run.metric, run.test_score) == ("bought", "binary", "roc_auc", None)
    board = run.leaderboard()
    assert board["model"].to_list() == ["ensemble", "linear"]
    assert run.score == board["score"][0]
    assert 0.5 < run.score <= 1
    assert board.schema["rank"] == pl.Int64()
    assert sorted(run.importances()["feature"]) == sorted(set(customers().columns) - {"bought"})
    assert repr(run) == f"<Run {run.id!r}, ok, 'bought' (binary), ensemble roc_auc={run.score:.4f}>"


def test_types_of_a_frame_are_kept(run):
    kinds = {column.name: column.kind for column in run.predictor().schema.columns}
    assert kinds == {
        "age": "numeric",
        "spent": "numeric",
        "plan": "categorical",
        "member": "boolean",
        "since": "datetime",
        "bought": "boolean",
    }
    assert run.predictor().schema.column("plan").missing == 0, "none is a level of a categorical column"


@pytest.mark.slow
def test_a_frame_and_its_pandas_twin_give_the_same_scores(run, runs_dir):
    twin = pd.DataFrame(customers().to_dict(as_series=False))
    twin["age"] = twin["age"].astype("Int64")
    twin["plan"] = twin["plan"].astype("category")
    twin["since"] = pd.to_datetime(twin["since"])
    assert scores(tabapp.fit(twin, target="bought", runs_dir=runs_dir, **FAST)) == scores(run)


def test_a_frame_and_its_csv_file_give_the_same_scores(run, runs_dir, tmp_path):
    customers().write_csv(tmp_path / "shop.csv")
    command = [
        sys.executable,
        "-m",
        "tabapp",
        "--auto",
        str(tmp_path / "shop.csv"),
        "--target",
        "bought",
        "--trials",
        "1",
    ]
    options = ["--models", "linear", "--folds", "2", "--seed", "3", "--json", "--runs-dir", str(runs_dir)]
    # The levels of `plan` look like numbers and a missing cell in a text file.
    kind = ["--kind", "plan=categorical"]
    plain = customers().with_columns(pl.col("plan").cast(pl.String).replace("none", "more"))
    plain.write_csv(tmp_path / "shop.csv")
    done = subprocess.run([*command, *options, *kind], capture_output=True, text=True, check=True)
    finished = json.loads(done.stdout.splitlines()[-1])
    assert [(row["model"], row["score"]) for row in finished["leaderboard"]] == scores(run)


def test_runs_lists_them_and_export_copies_the_bundle(run, runs_dir, tmp_path):
    assert run in tabapp.runs(runs_dir)
    copy = run.export(tmp_path / "shop.tabapp")
    predictor = tabapp.load(copy)
    assert (predictor.target, predictor.task, predictor.classes) == ("bought", "binary", ("no", "yes"))
    assert next(iter(predictor.metrics)) == "roc_auc"
    assert predictor.metrics["roc_auc"].score == pytest.approx(run.score)
    assert repr(predictor).startswith("<Predictor of 'bought' (binary), roc_auc=0.")
    with pytest.raises(tabapp.UsageError, match="cannot be written"):
        run.export(tmp_path / "nowhere" / "shop.tabapp")


def test_predictions_keep_the_rows_and_the_library(run):
    predictor, frame = run.predictor(), customers()
    shuffled = frame.with_row_index("extra").sample(fraction=1.0, shuffle=True, seed=1)
    with pytest.warns(UserWarning, match="1 columns are unknown from training and are ignored: 'extra'"):
        labels = predictor.predict(shuffled)
    assert isinstance(labels, pl.Series)
    assert labels.name == "bought"
    whole = predictor.predict(frame)
    assert labels.to_list() == [whole[i] for i in shuffled["extra"]]
    probabilities = predictor.predict_proba(frame)
    assert probabilities.columns == ["no", "yes"]
    np.testing.assert_allclose(probabilities.sum_horizontal(), 1)
    assert [predictor.classes[i] for i in probabilities.to_numpy().argmax(axis=1)] == whole.to_list()
    table = pd.DataFrame(frame.head(5).to_dict(as_series=False), index=list("vwxyz"))
    series = predictor.predict(table)
    assert isinstance(series, pd.Series)
    assert list(series.index) == list("vwxyz")
    assert list(series) == whole.head(5).to_list()


def test_predicting_a_file_gives_the_same(run, tmp_path):
    frame = customers().drop("plan", "bought").with_columns(plan=pl.lit("1"))
    frame.write_csv(tmp_path / "new.csv")
    predictor = run.predictor()
    assert predictor.predict(tmp_path / "new.csv").equals(predictor.predict(frame))


def test_a_pickled_predictor_loads_its_bundle_again(run, regression, tmp_path):
    path = tmp_path / "shop.tabapp"
    run.export(path)
    predictor = tabapp.load(path)
    pickled = pickle.dumps(predictor)
    again = pickle.loads(pickled)
    assert again.path == path
    assert again.predict(customers()).equals(predictor.predict(customers()))
    regression.export(path)
    with pytest.raises(tabapp.BundleError, match="has changed since its predictor was pickled"):
        pickle.loads(pickled)
    path.unlink()
    with pytest.raises(tabapp.BundleError, match="There is no bundle"):
        pickle.loads(pickled)


def test_memory_to_predict_a_file_is_limited(run, tmp_path):
    customers().write_csv(tmp_path / "shop.csv")
    predictor = run.predictor()
    for limit in ("1kB", 1000):
        with pytest.raises(tabapp.DataError, match=r"needs about .* raise max_memory\.$"):
            predictor.predict_proba(tmp_path / "shop.csv", max_memory=limit)
    with pytest.raises(tabapp.UsageError, match="'much' is not a size"):
        predictor.predict(tmp_path / "shop.csv", max_memory="much")
    assert len(predictor.predict(tmp_path / "shop.csv", max_memory="8GiB")) == customers().height


def test_dates_may_come_in_another_type_than_in_training(run):
    predictor, frame = run.predictor(), customers()
    moments = frame.with_columns(pl.col("since").cast(pl.Datetime("ns")))
    assert predictor.predict_proba(moments).equals(predictor.predict_proba(frame))


def test_missing_columns_are_rejected_or_filled(run):
    predictor, frame = run.predictor(), customers().drop("age", "member")
    with pytest.raises(tabapp.DataError, match=r"'age', 'member'.*missing_columns='fill'"):
        predictor.predict(frame)
    with pytest.warns(UserWarning, match="'age', 'member'"):
        assert len(predictor.predict(frame, missing_columns="fill")) == frame.height
    with pytest.raises(tabapp.UsageError, match="missing_columns='ignore'"):
        predictor.predict(frame, missing_columns="ignore")


def test_columns_that_differ_from_training_are_warned_of_or_refused(run, tmp_path):
    predictor, frame = run.predictor(), customers()
    scaled = frame.with_columns(pl.col("age") * 1000)
    with pytest.warns(UserWarning, match="'age' has .* values outside of the training range"):
        predictor.predict(scaled)
    for method in (predictor.predict, predictor.predict_proba, predictor.explain):
        with pytest.raises(tabapp.DataError, match=r"'age' has .* Omit strict to predict it anyway"):
            method(scaled, strict=True)
    frame.head(20).with_columns(pl.col("age").cast(pl.String).str.replace(".", ",", literal=True)).write_csv(
        tmp_path / "new.csv"
    )
    expected = predictor.predict_proba(frame.head(20))
    assert predictor.predict_proba(tmp_path / "new.csv", decimal=",").equals(expected)


@pytest.mark.slow
def test_intervals_cover_the_share_that_is_asked_for(regression):
    predictor, frame = regression.predictor(), houses(400)
    assert regression.test_score is not None
    predicted = predictor.predict(frame)
    widths = []
    for coverage in (0.5, 0.8, 0.9, 0.99):
        interval = predictor.predict_interval(frame, coverage)
        assert interval.columns == ["low", "high"]
        inside = ((frame["price"] >= interval["low"]) & (frame["price"] <= interval["high"])).mean()
        assert abs(inside - coverage) < 0.12
        np.testing.assert_allclose((interval["low"] + interval["high"]) / 2, predicted)
        widths.append((interval["high"] - interval["low"])[0])
    assert widths == sorted(widths)
    table = pd.DataFrame(frame.head(3).to_dict(as_series=False), index=[5, 6, 7])
    assert list(predictor.predict_interval(table).index) == [5, 6, 7]


def test_intervals_are_for_regression(run):
    with pytest.raises(tabapp.UsageError, match="regression only"):
        run.predictor().predict_interval(customers())


@pytest.mark.slow
def test_probabilities_are_for_classification_and_coverages_for_shares(regression):
    with pytest.raises(tabapp.UsageError, match="classification only"):
        regression.predictor().predict_proba(houses())
    with pytest.raises(tabapp.UsageError, match=r"coverage 1\.5 is out of range"):
        regression.predictor().predict_interval(houses(), 1.5)


def test_a_complete_run_is_resumed_only_with_more_to_do(run, runs_dir):
    with pytest.raises(tabapp.UsageError, match="is complete; give it more with budget or trials"):
        tabapp.resume(run)
    with pytest.raises(tabapp.UsageError, match="There is no run 'nothing'"):
        tabapp.resume("nothing", runs_dir=runs_dir)


@pytest.mark.slow
def test_more_trials_continue_a_run(runs_dir):
    run = tabapp.fit(customers(), target="bought", runs_dir=runs_dir, **FAST)
    again = tabapp.resume(run.id, trials=2, progress=False, runs_dir=runs_dir)
    assert again == run
    assert again.leaderboard().filter(pl.col("model") == "linear")["trials"].to_list() == [2]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target": "bougt"}, tabapp.DataError, "There is no column 'bougt'; did you mean 'bought'?"),
        (
            {"target": "bought", "model": "linear"},
            tabapp.UsageError,
            "There is no option 'model'; did you mean 'models'?",
        ),
        ({"target": "bought", "progress": "yes"}, tabapp.UsageError, "progress='yes' is not known"),
        ({"target": "bought", "test": "nowhere.csv"}, tabapp.DataError, "There is no file nowhere.csv"),
        ({"target": "bought", "test": [1]}, tabapp.UsageError, "test is a list"),
    ],
    ids=str,
)
def test_what_needs_no_engine_is_rejected_before_there_is_a_run(options, error, message, tmp_path):
    with pytest.raises(error) as raised:
        tabapp.fit(customers(), runs_dir=tmp_path, **options)
    assert message in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_there_is_rejected(tmp_path):
    (tmp_path / "shop.csv").write_text("a,b\n1,2\n")
    with pytest.raises(tabapp.DataError, match=r"There is no file .*shp\.csv; did you mean 'shop\.csv'"):
        tabapp.fit(str(tmp_path / "shp.csv"), target="b", runs_dir=tmp_path)
    with pytest.raises(tabapp.BundleError, match="There is no bundle"):
        tabapp.load(tmp_path / "model.tabapp")
    with pytest.raises(tabapp.DataError, match="has no rows"):
        tabapp.fit(customers().head(0), target="bought", runs_dir=tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"metric": "rmse"}, tabapp.UsageError, "rmse"),
        ({"target": "constant"}, tabapp.DataError, "constant.*choose another with target"),
    ],
    ids=str,
)
def test_what_the_engine_rejects_is_an_exception(options, error, message, tmp_path):
    table = customers().with_columns(constant=pl.lit("same"))
    with pytest.raises(error, match=message):
        tabapp.fit(table, **{"target": "bought", "runs_dir": tmp_path, **FAST, **options})
    assert tabapp.runs(tmp_path) == [], "nothing was trained that could be resumed"


@pytest.mark.slow
def test_names_of_columns_in_options_follow_those_of_the_frame(tmp_path):
    table = pd.DataFrame(customers().to_dict(as_series=False)).rename(columns={"bought": 0, "age": " the  age "})
    run = tabapp.fit(table, target=0, ignore=[" the  age "], runs_dir=tmp_path, **FAST)
    roles = {column.name: column.role for column in run.predictor().schema.columns}
    assert (roles["0"], roles["the age"]) == ("target", "ignore")
