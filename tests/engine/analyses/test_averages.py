"""The gain of the mean of fold models in finished runs, and what it changes in an ensemble and its bundle."""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.prediction.local import LocalPredictor
from tabapp.engine.analyses import averages
from tabapp.engine.analyses.averages import averaging_of_ensemble
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.loop.selection import select_ensemble
from tabapp.ensemble.averaging import NO_AVERAGING, Averaging, averaging_of
from tabapp.ensemble.calibration import ClassScaling
from tabapp.ensemble.scaling import of_mean
from tests.engine.finished_runs import make_run
from tests.tables import write_mixed, write_shops

FOLDS = 4
ROWS = 600


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    place = tmp_path_factory.mktemp("numbers")
    table = write_mixed(place / "mixed.csv", rows=ROWS)
    return FinishedRun(make_run(place / "runs", table, "price", ("linear", "k_neighbors", "lightgbm"), FOLDS))


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    place = tmp_path_factory.mktemp("classes")
    table = write_shops(place / "shops.csv", rows=ROWS)
    return FinishedRun(make_run(place / "runs", table, "sold", ("linear", "lightgbm"), FOLDS))


def by_the_bundle(run: FinishedRun) -> Averaging:
    """The gain, by what the fold models of the bundle predict for the rows that two folds hold out."""
    predictor = load_bundle(run.folder.bundle).predictor
    assert isinstance(predictor, LocalPredictor)
    tables = {folder: preparer.transform(run.data.frame) for folder, preparer in predictor.preparers.items()}
    folds = np.stack(
        [
            sum(
                candidate.weight * predictor.models[fold.model].predict(tables[fold.features]).astype(np.float64)
                for candidate in predictor.ensemble.candidates
                for fold in candidate.folds
                if fold.fold == number
            )
            for number in range(FOLDS)
        ]
    )
    rows = np.flatnonzero(run.data.second_fold >= 0)
    first, second = (folds[fold[rows], rows] for fold in (run.data.fold, run.data.second_fold))
    return averaging_of(first, second, run.data.target[rows], FOLDS)


@pytest.mark.parametrize("name", ["numbers", "classes"])
def test_the_fold_models_of_the_bundle_show_the_same_gain(name: str, request: pytest.FixtureRequest) -> None:
    run: FinishedRun = request.getfixturevalue(name)
    found, expected = averaging_of_ensemble(run.models, run.members, run.data.scored), by_the_bundle(run)
    assert found is not None
    assert 0 < found.share < 0.5
    assert found.share == pytest.approx(expected.share, rel=1e-3)
    assert found.temperature == pytest.approx(expected.temperature, rel=1e-3)


def test_no_model_predicts_after_the_deadline(numbers: FinishedRun) -> None:
    rows = numbers.data.scored
    late = time.monotonic() - 1
    assert averaging_of_ensemble(numbers.models, numbers.members, rows, late) is None


def test_no_model_predicts_if_the_time_is_expected_to_be_too_short(
    numbers: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(averages, "time", SimpleNamespace(monotonic=lambda: 0.0))
    members = [(slower(candidate), weight) for candidate, weight in numbers.members]
    seconds = 0.01 * len(members) * int((numbers.data.second_fold >= 0).sum()) / FOLDS
    assert averaging_of_ensemble(numbers.models, members, numbers.data.scored, 0.99 * seconds) is None
    assert averaging_of_ensemble(numbers.models, members, numbers.data.scored, 1.01 * seconds) is not None


def slower(candidate: Candidate) -> Candidate:
    """A candidate whose models together predict a row in 10 ms."""
    results = {fold: replace(fit, predict_seconds=0.01 * fit.n_rows / FOLDS) for fold, fit in candidate.results.items()}
    return dataclasses.replace(candidate, results=results, further=())


def test_a_run_of_an_earlier_version_shows_no_gain(numbers: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers.data, "second_fold", np.full_like(numbers.data.fold, -1))
    assert averaging_of_ensemble(numbers.models, numbers.members, numbers.data.scored) == NO_AVERAGING


def test_features_of_a_row_are_those_of_a_new_one_for_both_folds(numbers: FinishedRun) -> None:
    """Its target reaches neither of them."""
    member = next(candidate for candidate, _ in numbers.members if candidate.model == "lightgbm")
    for fold in range(FOLDS):
        features = numbers.models.features(member, fold)
        rows = UsableRows.where((numbers.data.fold == fold) | (numbers.data.second_fold == fold))
        assert not set(rows.places) & set(features.training.places)
        assert len(rows) + len(features.training) == len(numbers.data.fold)
        expected = features.preparer.transform(rows.of(numbers.data.frame))
        np.testing.assert_array_equal(rows.of(features.table).numeric, expected.numeric)
        np.testing.assert_array_equal(rows.of(features.table).categorical, expected.categorical)


def test_an_ensemble_gets_the_score_and_the_temperature_of_the_mean(classes: FinishedRun) -> None:
    members = [candidate for candidate, _ in classes.members]
    selected = select_ensemble(members, classes.scorer, "log_loss", 0)
    assert selected is not None
    averaged = selected.averaged(Averaging(share=0.1, temperature=0.8), "log_loss")
    assert averaged.score.value == pytest.approx(0.9 * selected.score.value)
    assert averaged.score.low < averaged.score.value < averaged.score.high
    if isinstance(selected.calibration, ClassScaling):
        assert averaged.calibration_of_mean == of_mean(selected.calibration, 0.8)
    else:
        assert averaged.calibration_of_mean == pytest.approx(0.8 * (selected.calibration or 1.0), abs=1e-4)
    assert averaged.calibration == selected.calibration
    np.testing.assert_array_equal(averaged.prediction, selected.prediction)


def test_a_regression_has_no_temperature(numbers: FinishedRun) -> None:
    members = [candidate for candidate, _ in numbers.members]
    selected = select_ensemble(members, numbers.scorer, "rmse", 0)
    assert selected is not None
    averaged = selected.averaged(Averaging(share=0.19), "rmse")
    assert averaged.score.value == pytest.approx(0.9 * selected.score.value)
    assert averaged.calibration_of_mean is None
