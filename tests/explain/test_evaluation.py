from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as reference

from tabapp.explain import evaluation


def binary(rows=5000, seed=0):
    generator = np.random.default_rng(seed)
    probability = generator.beta(1, 2, rows)
    return generator.random(rows) < probability, probability


def area(curve):
    x, y = np.array(curve).T
    return float(np.trapezoid(y, x)) if hasattr(np, "trapezoid") else float(np.trapz(y, x))


def test_confusion_counts_rows_by_truth_and_prediction():
    generator = np.random.default_rng(0)
    truth, prediction = generator.integers(0, 4, 300), generator.random((300, 4))
    labels, matrix = evaluation.confusion(truth, prediction, ("a", "b", "c", "d"))
    assert labels == ("a", "b", "c", "d")
    np.testing.assert_array_equal(matrix, reference.confusion_matrix(truth, prediction.argmax(axis=1)))


def test_rare_classes_are_merged():
    generator = np.random.default_rng(0)
    truth = np.r_[np.repeat(np.arange(40), 10), np.repeat(np.arange(11, 40), 90)]
    prediction = np.eye(40)[generator.permutation(truth)]
    labels, matrix = evaluation.confusion(truth, prediction, tuple(f"c{code}" for code in range(40)))
    assert labels == (*(f"c{code}" for code in range(11, 40)), "other 11")
    assert np.shape(matrix) == (30, 30)
    assert np.sum(matrix) == len(truth)
    assert sum(matrix[-1]) == 110, "the rows of the eleven rare classes"
    full = reference.confusion_matrix(truth, prediction.argmax(axis=1))
    assert matrix[0][0] == full[11, 11]
    assert matrix[-1][-1] == full[:11, :11].sum()


@pytest.mark.parametrize("ties", [False, True])
def test_roc_curve_has_the_area_of_the_metric(ties):
    positive, score = binary()
    score = np.round(score, 1) if ties else score
    curve = evaluation.roc_curve(positive, score)
    assert curve[0] == (0, 0)
    assert curve[-1] == (1, 1)
    assert len(curve) <= evaluation.MOST_POINTS
    assert area(curve) == pytest.approx(reference.roc_auc_score(positive, score), abs=2e-3)


def test_precision_recall_curve_equals_scikit_learns():
    positive, score = binary()
    curve = evaluation.precision_recall_curve(positive, score)
    precision, recall, _ = reference.precision_recall_curve(positive, score)
    assert len(curve) <= evaluation.MOST_POINTS
    assert curve[-1] == (1.0, pytest.approx(positive.mean(), abs=1e-4))
    for x, y in curve[5::10]:
        assert np.abs(precision - y)[np.argmin(np.abs(recall - x))] < 0.02
    assert area(curve) == pytest.approx(reference.average_precision_score(positive, score), abs=0.01)


def test_undefined_curves_are_empty():
    scores = np.array([0.1, 0.4])
    assert evaluation.roc_curve(np.array([True, True]), scores) == ()
    assert evaluation.roc_curve(np.array([False, False]), scores) == ()
    assert evaluation.precision_recall_curve(np.array([False, False]), scores) == ()
    assert evaluation.mean_curve([(), ()]) == ()


def test_mean_curve_is_the_macro_average():
    mean = evaluation.mean_curve([((0, 0), (1, 1)), (), ((0, 0.5), (1, 1))], n_points=3)
    assert mean == ((0, 0.25), (0.5, 0.625), (1, 1))


def test_steep_curves_keep_their_corner():
    positive = np.r_[np.ones(500, bool), np.zeros(5000, bool)]
    score = np.r_[np.linspace(1, 0.9, 500), np.linspace(0.8, 0, 5000)]
    assert any(x < 0.02 and y > 0.97 for x, y in evaluation.roc_curve(positive, score))


def test_calibrated_probabilities_are_on_the_diagonal():
    came_true, probability = binary(20_000)
    bins, error = evaluation.calibration(came_true, probability)
    assert sum(row.count for row in bins) == 20_000
    assert error < 0.02
    for row in bins:
        assert row.low <= row.observed <= row.high
        assert row.predicted == pytest.approx(row.observed, abs=0.1)


def test_calibration_error_of_overconfidence():
    came_true = np.arange(1000) % 2 == 0
    bins, error = evaluation.calibration(came_true, np.full(1000, 0.95))
    assert error == pytest.approx(0.45)
    assert [(row.predicted, row.observed, row.count) for row in bins] == [(0.95, 0.5, 1000)]
    assert (bins[0].low, bins[0].high) == (pytest.approx(0.469, abs=0.001), pytest.approx(0.531, abs=0.001))


def test_the_interval_equals_wilsons():
    low, high = evaluation.wilson(np.array([0.0, 3.0, 10.0]), np.array([10.0, 10.0, 10.0]))
    np.testing.assert_allclose(low, [0.0, 0.1078, 0.7225], atol=1e-4)
    np.testing.assert_allclose(high, [0.2775, 0.6032, 1.0], atol=1e-4)


def test_density_of_good_predictions_is_on_the_diagonal():
    truth = np.random.default_rng(0).normal(size=3000)
    counts, (low, high) = evaluation.density(truth, truth)
    assert np.sum(counts) == 3000
    assert np.trace(np.array(counts)) == 3000
    assert low < -2 < 2 < high


def test_an_outlier_does_not_widen_the_bins():
    generator = np.random.default_rng(0)
    truth = np.r_[generator.normal(size=2000), 1e9]
    _, (low, high) = evaluation.density(truth, truth * 0.9)
    assert -5 < low < high < 5
    assert evaluation.residuals(truth, truth * 0.9).span[1] < 5


def test_residuals_are_truth_minus_prediction():
    generator = np.random.default_rng(0)
    prediction = generator.uniform(0, 100, 5000)
    residual = generator.normal(0, 1 + prediction / 10)
    found = evaluation.residuals(prediction + residual, prediction)
    assert sum(found.counts) == 5000
    np.testing.assert_allclose(found.quantiles, np.quantile(residual, (0.05, 0.25, 0.5, 0.75, 0.95)), rtol=1e-3)
    assert len(found.bands) == 10
    first, last = found.bands[0], found.bands[-1]
    assert first.predicted < last.predicted
    assert last.high - last.low > 3 * (first.high - first.low), "the spread grows with the prediction"


def test_constant_predictions_have_plots():
    truth = np.zeros(50)
    counts, _ = evaluation.density(truth, truth)
    assert np.sum(counts) == 50
    assert sum(evaluation.residuals(truth, truth).counts) == 50


def test_a_sample_is_seeded_and_keeps_its_order():
    assert evaluation.sample_rows(10, 10, 0) == slice(None)
    rows = evaluation.sample_rows(1000, 100, 0)
    assert len(rows) == 100
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, evaluation.sample_rows(1000, 100, 0))
