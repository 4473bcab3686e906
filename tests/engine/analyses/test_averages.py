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
from tabapp.engine.loop.board import select_ensemble
from tabapp.ensemble.averaging import Averaging, averaging_of
from tabapp.ensemble.calibration import ClassScaling
from tabapp.ensemble.scaling import of_mean
from tests.engine.finished_runs import make_run
from tests.tables import write_mixed, write_shops

FOLDS = 4


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    place = tmp_path_factory.mktemp("numbers")
    table = write_mixed(place / "mixed.csv", rows=240)
    return FinishedRun(make_run(place / "runs", table, "price", ("linear", "k_neighbors", "lightgbm"), FOLDS))


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    place = tmp_path_factory.mktemp("classes")
    table = write_shops(place / "shops.csv", rows=240)
    return FinishedRun(make_run(place / "runs", table, "sold", ("linear", "lightgbm"), FOLDS))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numbers", "classes"])
def test_the_fold_models_of_the_bundle_show_the_same_gain(name: str, request: pytest.FixtureRequest) -> None:
    run: FinishedRun = request.getfixturevalue(name)
    rows = run.data.scored
    found = averaging_of_ensemble(run.models, run.members, rows)
    assert found is not None
    predictor = load_bundle(run.folder.bundle).predictor
    assert isinstance(predictor, LocalPredictor)
    tables = {folder: preparer.transform(run.data.frame) for folder, preparer in predictor.preparers.items()}
    folds = [
        sum(
            candidate.weight * predictor.models[fold.model].predict(tables[fold.features]).astype(np.float64)
            for candidate in predictor.ensemble.candidates
            for fold in candidate.folds
            if fold.fold == number
        )
        for number in range(FOLDS)
    ]
    expected = averaging_of(np.stack(folds), run.data.fold, run.data.target, seed=run.plan.seed)
    assert 0 < found.share < 0.5
    # In the run, target encodings of the rows that a fold was fitted on are out-of-fold; the bundle knows only the final ones.
    assert found.share == pytest.approx(expected.share, rel=0.05)
    assert found.temperature == pytest.approx(expected.temperature, rel=0.02)


def test_no_model_predicts_after_the_deadline(numbers: FinishedRun) -> None:
    rows = numbers.data.scored
    late = time.monotonic() - 1
    assert averaging_of_ensemble(numbers.models, numbers.members, rows, late) is None


def test_rows_are_as_many_as_can_be_predicted_in_time(numbers: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(averages, "LEAST_ROWS", 50)
    seen: list[int] = []
    monkeypatch.setattr(averages, "averaging_of", lambda folds, *rest, **named: seen.append(folds.shape[1]))
    monkeypatch.setattr(averages, "time", SimpleNamespace(monotonic=lambda: 0.0))
    members = [(slower(candidate), weight) for candidate, weight in numbers.members]
    for seconds in (1_000.0, 1.0 * len(members), 0.49 * len(members)):
        averaging_of_ensemble(numbers.models, members, numbers.data.scored, seconds)
    assert seen == [len(numbers.data.scored), 100]


def slower(candidate: Candidate) -> Candidate:
    """A candidate whose models together predict a row in 10 ms."""
    results = {fold: replace(fit, predict_seconds=0.01 * fit.n_rows / FOLDS) for fold, fit in candidate.results.items()}
    return dataclasses.replace(candidate, results=results, further=())


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
