"""Temperatures of blended probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from tabapp import metrics
from tabapp.ensemble.greedy import cross_fitted
from tabapp.ensemble.scaling import calibrated
from tabapp.ensemble.temperature import fit_temperature, tempered


def labeled(n_rows, n_classes, seed=0):
    """True probabilities, and classes drawn from them."""
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.5), n_rows)
    draws = generator.random((n_rows, 1))
    codes = np.minimum((np.cumsum(probabilities, axis=1) < draws).sum(axis=1), n_classes - 1)
    return probabilities, codes


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("distortion", [0.6, 1.6])
def test_the_temperature_that_distorted_probabilities_is_found(n_classes, distortion):
    probabilities, codes = labeled(20_000, n_classes)
    found = fit_temperature(tempered(probabilities, distortion), codes, "log_loss")
    # About 1 / sqrt(20,000) in relative terms.
    assert found == pytest.approx(1 / distortion, rel=0.05)
    np.testing.assert_allclose(tempered(tempered(probabilities, distortion), 1 / distortion), probabilities, atol=1e-9)


def test_calibrated_probabilities_stay_nearly_as_they_are_and_few_rows_have_no_temperature():
    found = [fit_temperature(*labeled(2_000, 3, seed), "log_loss") or 1.0 for seed in range(20)]
    assert max(abs(np.log(found))) < 0.1
    probabilities, codes = labeled(99, 2)
    assert fit_temperature(tempered(probabilities, 3.0), codes, "log_loss") is None


def test_a_small_table_without_errors_gets_no_extreme_temperature():
    codes = np.arange(150) % 3
    probabilities = np.full((150, 3), 0.05)
    probabilities[np.arange(150), codes] = 0.9
    found = fit_temperature(probabilities, codes, "log_loss")
    # The best temperature is the lowest that there is, 0.25; of 150 rows, its logarithm counts by 150 / 650.
    assert found == pytest.approx(0.25 ** (150 / 650), rel=0.01)


def test_a_temperature_counts_rows_by_their_weight():
    probabilities, codes = labeled(4_000, 2)
    values = tempered(probabilities, 0.5)
    values[::2] = tempered(probabilities[::2], 3.0)
    weight = np.ones(4_000)
    weight[::2] = 0
    assert fit_temperature(values, codes, "log_loss", weight) == pytest.approx(2, rel=0.1)


def test_extreme_probabilities_stay_probabilities():
    values = tempered(np.array([[1.0, 0.0, 0.0], [1e-300, 1e-300, 1e-300], [1 / 3, 1 / 3, 1 / 3]]), 0.25)
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values.sum(axis=1), 1)
    np.testing.assert_allclose(values[0], [1, 0, 0])


def test_an_ensemble_keeps_its_ranking_and_lowers_its_log_loss():
    probabilities, codes = labeled(4_000, 2)
    members = [tempered(probabilities, 1.8), tempered(labeled(4_000, 2, 1)[0], 1.8)]
    result = cross_fitted(members, codes, "roc_auc")
    of_all = calibrated(result.blend, result.calibration)
    assert metrics.score("roc_auc", codes, of_all) == metrics.score("roc_auc", codes, result.blend)
    before, after = (metrics.score("log_loss", codes, each) for each in (result.blend, result.prediction))
    assert after < before
    assert result.score == metrics.score("roc_auc", codes, result.prediction)


def test_an_informative_candidate_with_even_probabilities_is_selected_by_log_loss():
    """As they are, its probabilities have a higher log loss than those of a candidate that knows less."""
    probabilities, codes = labeled(6_000, 4)
    noisy = probabilities * np.exp(np.random.default_rng(1).normal(0, 1.0, probabilities.shape))
    even, rough = tempered(probabilities, 3.0), tempered(noisy / noisy.sum(axis=1, keepdims=True), 1.5)
    alone = [metrics.score("log_loss", codes, each) for each in (even, rough)]
    assert alone[0] > alone[1]
    result = cross_fitted([even, rough], codes, "log_loss")
    interim = cross_fitted([even, rough], codes, "log_loss", is_final=False)
    assert interim.weights[0] < 0.5 < result.weights[0]
    truth = metrics.score("log_loss", codes, probabilities)
    assert result.score < truth + 0.1 * (alone[1] - truth)
