"""Several targets from Python: predictors, options and reports."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import polars as pl
import pytest

import tabapp
from tabapp.run.options.keywords import config_from_keywords, with_column_names
from tests.bundle.test_targets import FIXTURE
from tests.formats.make import PREDICTIONS, ROWS, RUN, TARGETS


@pytest.fixture(scope="module")
def predictor() -> tabapp.TargetsPredictor:
    found = tabapp.load(FIXTURE / TARGETS)
    assert isinstance(found, tabapp.TargetsPredictor)
    return found


@pytest.fixture
def run(tmp_path: Path) -> tabapp.Run:
    with zipfile.ZipFile(FIXTURE / RUN) as archive:
        archive.extractall(tmp_path)
    return tabapp.runs(tmp_path)[0]


def test_predictions_have_a_column_for_each_target(predictor: tabapp.TargetsPredictor) -> None:
    expected = pl.read_csv(FIXTURE / PREDICTIONS)
    frame = pl.read_csv(FIXTURE / ROWS)
    found = predictor.predict(frame)
    assert found.columns == ["price", "city"]
    assert found["city"].to_list() == expected["city_prediction"].to_list()
    assert found["price"].to_list() == pytest.approx(expected["price_prediction"].to_list(), rel=1e-5)
    probabilities = predictor.predict_proba(FIXTURE / ROWS)
    assert probabilities.columns == ["city_Berlin", "city_Hamburg", "city_Köln"]
    intervals = predictor.predict_interval(frame)
    assert intervals.columns == ["price_low", "price_high"]
    assert intervals["price_low"].to_list() == pytest.approx(expected["price_low"].to_list(), rel=1e-5)


def test_each_target_has_its_own_predictor(predictor: tabapp.TargetsPredictor) -> None:
    assert predictor.targets == ("price", "city")
    assert predictor["city"].classes == ("Berlin", "Hamburg", "Köln")
    assert predictor["city"].path == predictor.path == FIXTURE / TARGETS
    assert {target: next(iter(values)) for target, values in predictor.metrics.items()} == {
        "price": "rmse",
        "city": "log_loss",
    }
    assert "'price', 'city'" in repr(predictor)
    with pytest.raises(KeyError, match="is not a target"):
        predictor["town"]


def test_the_predictor_of_a_target_is_pickled_alone_or_with_the_others(predictor: tabapp.TargetsPredictor) -> None:
    frame = pl.read_csv(FIXTURE / ROWS)
    for again in (pickle.loads(pickle.dumps(predictor["city"])), pickle.loads(pickle.dumps(predictor))["city"]):
        assert again.target == "city"
        assert again.predict(frame).equals(predictor["city"].predict(frame))


def test_targets_are_a_list_or_one_text() -> None:
    assert config_from_keywords("t.csv", {"target": ["a", "b,c"]}).target == ("a", "b,c")
    assert config_from_keywords("t.csv", {"target": "a,b"}).target == "a,b"
    assert with_column_names({"target": ["a  b ", "c"]}) == {"target": ["a b", "c"]}


def test_a_run_has_a_run_for_each_target(run: tabapp.Run, tmp_path: Path) -> None:
    assert list(run.targets) == ["price", "city"]
    assert run.targets["city"].metric == "log_loss"
    assert run.targets["city"].leaderboard()["model"].to_list() == ["ensemble", "linear"]
    assert run.leaderboard()["score"].to_list() == run.targets["price"].leaderboard()["score"].to_list()
    text = run.report(tmp_path / "report.md").read_text()
    assert "price · Leaderboard" in text
    assert "city · Leaderboard" in text


def test_an_unknown_target_of_a_frame_is_named() -> None:
    with pytest.raises(tabapp.DataError, match="no column 'c'"):
        tabapp.fit(pl.DataFrame({"a": [1], "b": [2]}), target=["a", "c"])
