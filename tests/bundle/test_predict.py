import threading
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp.bundle.files.records import COVERAGES
from tabapp.bundle.prediction import local
from tabapp.bundle.prediction import predict as predict_module
from tabapp.bundle.prediction.intervals import fit_intervals, half_widths, residual_quantile, scale_at
from tabapp.bundle.prediction.load import load_bundle
from tabapp.errors import DataError, UsageError
from tests.bundle.making import INTERVALS, text_table

TASKS = ["binary", "multiclass", "regression"]


@pytest.fixture(scope="module")
def predictors(bundles):
    return {task: load_bundle(path).predictor for task, path in bundles.items()}


@pytest.mark.parametrize("task", TASKS)
def test_the_prediction_of_a_row_does_not_depend_on_its_position(predictors, task):
    frame, predictor = text_table(task, n_rows=60, seed=4), predictors[task]
    whole = predictor.predict_frame(frame).values
    order = np.random.default_rng(0).permutation(60)
    np.testing.assert_allclose(predictor.predict_frame(frame[order]).values, whole[order], rtol=1e-6)
    one_by_one = [predictor.predict_frame(frame[row]).values[0] for row in range(5)]
    np.testing.assert_allclose(one_by_one, whole[:5], rtol=1e-6)
    assert len(np.unique(whole.reshape(60, -1)[:, 0])) > 50


@pytest.mark.parametrize("task", TASKS)
def test_columns_may_be_reordered_or_added_and_the_target_may_be_absent(predictors, task):
    frame, predictor = text_table(task, n_rows=20, seed=4), predictors[task]
    expected = predictor.predict_frame(frame)
    assert expected.notes == ()
    changed = frame.drop("outcome").select(pl.lit("x").alias("surplus"), *reversed(frame.columns[:-1]))
    found = predictor.predict_frame(changed)
    np.testing.assert_array_equal(found.values, expected.values)
    assert len(found.notes) == 1
    assert "surplus" in found.notes[0]


@pytest.mark.parametrize("task", TASKS)
def test_missing_cells_and_new_categories_are_predicted(predictors, task):
    frame = text_table(task, n_rows=6, seed=4).drop("outcome")
    odd = frame.with_columns(color=pl.lit("never seen"), size=pl.lit(None, dtype=pl.String))
    empty = frame.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in frame.columns)
    for table in (odd, empty, pl.concat([frame, empty])):
        values = predictors[task].predict_frame(table).values
        assert len(values) == table.height
        assert np.isfinite(values).all()


@pytest.mark.parametrize("task", TASKS)
def test_an_empty_table_gives_an_empty_prediction_with_all_columns(predictors, task):
    frame, predictor = text_table(task).head(0), predictors[task]
    output = predictor.to_frame(predictor.predict_frame(frame))
    assert output.height == 0
    assert output.columns == predictor.to_frame(predictor.predict_frame(text_table(task).head(2))).columns


@pytest.mark.parametrize("task", TASKS)
def test_predictions_do_not_depend_on_batches(predictors, task, monkeypatch):
    frame = text_table(task, n_rows=50, seed=4)
    whole = predictors[task].predict_frame(frame).values
    monkeypatch.setattr(predict_module, "_BATCH_ROWS", 7)
    np.testing.assert_allclose(predictors[task].predict_frame(frame).values, whole, rtol=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_predictions_do_not_depend_on_threads(predictors, task, monkeypatch):
    table = text_table(task, n_rows=30, seed=3)
    expected = predictors[task].predict_frame(table).values
    threads = set()
    kind = type(next(iter(predictors[task].models.values())))
    predict = kind.predict

    def note_thread(model, table):
        threads.add(threading.get_ident())
        return predict(model, table)

    monkeypatch.setattr(kind, "predict", note_thread)
    monkeypatch.setattr(kind, "predicts_in_threads", True)
    monkeypatch.setattr(local, "_ROWS_FOR_THREADS", 30)
    assert (predictors[task].predict_frame(table).values == expected).all()
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("task", TASKS)
def test_one_predictor_serves_several_threads(predictors, task):
    tables = [text_table(task, n_rows=60 + n, seed=n) for n in range(4)]
    expected = [predictors[task].predict_frame(table).values for table in tables]
    with ThreadPoolExecutor(4) as pool:
        for turn in range(3):
            order = [(turn + n) % 4 for n in range(4)]
            found = pool.map(predictors[task].predict_frame, [tables[n] for n in order])
            for n, prediction in zip(order, found, strict=True):
                np.testing.assert_array_equal(prediction.values, expected[n])


def test_absent_and_mistyped_columns_are_named_or_filled(predictors):
    frame = text_table("binary", n_rows=20, seed=4).drop("color").with_columns(age=pl.lit("old"))
    with pytest.raises(DataError) as caught:
        predictors["binary"].predict_frame(frame)
    assert "'color'" in str(caught.value)
    assert "'age'" in str(caught.value)
    prediction = predictors["binary"].predict_frame(frame, fill_missing_columns=True)
    assert np.isfinite(prediction.values).all()
    assert any("color" in note for note in prediction.notes)


def test_table_without_training_columns_keeps_its_rows_when_filled(predictors):
    frame = pl.DataFrame({"else": ["1", "2", "3"]})
    for task in TASKS:
        values = predictors[task].predict_frame(frame, fill_missing_columns=True).values
        assert len(values) == 3
        assert np.isfinite(values).all()


def test_output_spells_classes_as_in_training(predictors):
    predictor = predictors["multiclass"]
    prediction = predictor.predict_frame(text_table("multiclass", n_rows=40, seed=4))
    output = predictor.to_frame(prediction)
    assert set(output.columns) == {"prediction", "probability_low", "probability_mid", "probability_high, very"}
    probabilities = output.select(pl.exclude("prediction")).to_numpy()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    chosen = [output.columns[1 + code].removeprefix("probability_") for code in probabilities.argmax(axis=1)]
    assert output["prediction"].to_list() == chosen
    assert len(set(chosen)) == 3


def test_regression_interval_contains_the_prediction(predictors):
    predictor = predictors["regression"]
    output = predictor.to_frame(predictor.predict_frame(text_table("regression", n_rows=40, seed=4)))
    assert output.columns == ["prediction", "low", "high"]
    half = 55.5 * np.interp(output["prediction"], INTERVALS.scale.predictions, INTERVALS.scale.factors)
    assert half.min() < 40 < 60 < half.max()
    np.testing.assert_allclose(output["high"] - output["prediction"], half)
    np.testing.assert_allclose(output["prediction"] - output["low"], half)


def test_residual_quantile_covers_nine_of_ten_new_rows():
    """Over many draws the mean coverage is between 0.9 and 0.9 + 1/(n+1) (Lei et al. 2018, theorem 2.2)."""
    generator = np.random.default_rng(0)
    coverage = []
    for _ in range(400):
        half = residual_quantile(generator.normal(size=99), np.zeros(99))
        coverage.append(np.mean(np.abs(generator.normal(size=200)) <= half))
    assert 0.89 < np.mean(coverage) < 0.92


def test_residual_quantile_rounds_the_rank_up_and_uses_weights():
    error = np.arange(1.0, 20.0)
    assert residual_quantile(error, np.zeros(19)) == 18.0  # ⌈20 · 0.9⌉ = 18
    assert residual_quantile(error[:3], np.zeros(3)) == 3.0
    weight = np.zeros(19)
    weight[4] = 1
    assert residual_quantile(error, np.zeros(19), weight) == 5.0


def test_half_widths_are_the_residual_quantiles_of_every_coverage():
    generator = np.random.default_rng(1)
    truth, weight = generator.normal(size=200), generator.random(200)
    for rows in (None, weight):
        widths = half_widths(truth, np.zeros(200), rows)
        assert widths == tuple(residual_quantile(truth, np.zeros(200), rows, coverage) for coverage in COVERAGES)
        assert list(widths) == sorted(widths)
        assert widths[COVERAGES.index(0.9)] == residual_quantile(truth, np.zeros(200), rows)


def test_every_coverage_is_kept_on_new_rows():
    generator = np.random.default_rng(0)
    covered = np.zeros((300, len(COVERAGES)))
    for draw in covered:
        widths = np.array(half_widths(generator.normal(size=1999), np.zeros(1999)))
        draw[:] = (np.abs(generator.normal(size=(100, 1))) <= widths).mean(axis=0)
    np.testing.assert_allclose(covered.mean(axis=0), COVERAGES, atol=0.015)


def errors_that_grow(n_rows, seed):
    """Predictions, and truths whose errors grow with them."""
    generator = np.random.default_rng(seed)
    prediction = generator.uniform(1, 10, n_rows)
    return prediction + prediction * generator.normal(size=n_rows), prediction


def test_intervals_are_wider_where_errors_are_larger_and_narrower_on_average():
    truth, prediction = errors_that_grow(2_000, 0)
    intervals = fit_intervals(truth, prediction)
    assert intervals.residual_quantile < 0.95 * residual_quantile(truth, prediction)
    assert intervals.residual_quantile == intervals.half_widths[COVERAGES.index(0.9)]
    truth, prediction = errors_that_grow(20_000, 1)
    factor = scale_at(intervals.scale, prediction)
    assert np.mean(factor) == pytest.approx(1, abs=0.05)
    # Quantiles of 2,000 rows have a standard error of 0.007 at 90 %, of 0.011 at 50 %.
    for coverage in (0.5, 0.9):
        covered = np.abs(truth - prediction) <= intervals.half_widths[COVERAGES.index(coverage)] * factor
        assert covered.mean() == pytest.approx(coverage, abs=0.03)
    assert covered[prediction < 3].mean() == pytest.approx(covered[prediction > 8].mean(), abs=0.1)


def test_intervals_of_few_rows_or_equal_errors_have_the_same_width_everywhere():
    truth, prediction = errors_that_grow(99, 0)
    assert fit_intervals(truth, prediction).scale is None
    assert fit_intervals(prediction, prediction).scale is None
    uniform = fit_intervals(np.tile([1.0, -1.0], 500), np.zeros(1000))
    assert uniform.scale is None
    assert uniform.half_widths == half_widths(np.tile([1.0, -1.0], 500), np.zeros(1000))


def test_rows_without_weight_have_no_influence_on_intervals():
    truth, prediction = errors_that_grow(2_000, 0)
    weight = np.ones(2_000)
    weight[::2] = 0
    truth[::2] += 1e6
    assert fit_intervals(truth, prediction, weight).residual_quantile < 100


def test_the_half_width_of_a_predictor_is_that_of_the_next_coverage(predictors):
    predictor = predictors["regression"]
    assert predictor.half_width(0.9) == pytest.approx(55.5)
    assert predictor.half_width(0.5) == pytest.approx(55.5 * 0.5 / 0.9)
    assert predictor.half_width(0.501) == predictor.half_width(0.51)
    for coverage in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="coverage"):
            predictor.half_width(coverage)
    with pytest.raises(UsageError, match="regression only"):
        predictors["binary"].half_width(0.9)


def test_a_bundle_of_the_first_format_has_ninety_percent_intervals_only(predictors):
    old = copy(predictors["regression"])
    old.ensemble = msgspec.structs.replace(old.ensemble, half_widths=())
    assert old.half_width(0.9) == 55.5
    with pytest.raises(UsageError, match="older tabapp"):
        old.half_width(0.8)
