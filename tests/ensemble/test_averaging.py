"""What the mean of fold models gains over single ones, estimated from what two of them predict for the same rows."""

from __future__ import annotations

import numpy as np
import pytest

from tabapp import metrics
from tabapp.ensemble.averaging import LEAST_ROWS, NO_AVERAGING, Averaging, averaging_of, compared_rows
from tabapp.ensemble.temperature import lowest_temperature, tempered

N_ROWS, N_FOLDS = 20_000, 8
SPREAD, NOISE = 0.5, 1.0
"""Standard deviations of fold models around their mean, and of the target around it."""


def numbers(seed=0):
    """What fold models predict for new rows, the target, and the gain of their mean."""
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=N_ROWS)
    target = truth + NOISE * generator.normal(size=N_ROWS)
    predictions = truth + SPREAD * generator.normal(size=(N_FOLDS, N_ROWS))
    single = np.mean((predictions - target) ** 2)
    return predictions, target, 1 - np.mean((predictions.mean(axis=0) - target) ** 2) / single


def test_two_models_show_the_gain_of_the_mean_of_all():
    predictions, target, gain = numbers()
    assert averaging_of(predictions[0], predictions[1], target, N_FOLDS).share == pytest.approx(gain, rel=0.1)


def test_few_rows_show_the_gain_with_their_standard_error():
    predictions, target, gain = numbers()
    parts = np.arange(N_ROWS).reshape(-1, 100)
    found = [averaging_of(predictions[0, rows], predictions[1, rows], target[rows], N_FOLDS) for rows in parts]
    shares, errors = (np.array([getattr(each, name) for each in found]) for name in ("share", "error"))
    assert shares.mean() == pytest.approx(gain, abs=4 * shares.std() / np.sqrt(len(parts)))
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(shares.std(), rel=0.2)


def test_the_interval_of_a_score_contains_the_error_of_the_gain():
    averaging = Averaging(share=0.19, error=0.04)
    # The derivative of the RMSE by the share is half of it over one minus the share.
    assert averaging.error_of("rmse", 10.0) == pytest.approx(10 * (np.sqrt(0.85) - 0.9))
    score, low, high = averaging.interval("rmse", 10.0, 9.0, 11.0)
    assert (score, low) == pytest.approx((9.0, 9 - np.hypot(0.9, 1.96 * averaging.error_of("rmse", 10.0))))
    assert high - score == pytest.approx(score - low)
    assert averaging.interval("log_loss", 0.1, 0.0, 0.2)[1] == 0
    assert averaging.interval("roc_auc", 0.99, 0.98, 1.0)[2] == 1
    assert NO_AVERAGING.interval("r2", 0.5, 0.4, 0.6) == (0.5, 0.4, 0.6)
    assert averaging.interval("cost:fn=5,fp=1", 5.0, 4.0, 6.0) == (5.0, 4.0, 6.0)


def test_rows_with_weight_zero_do_not_count():
    predictions, target, _ = numbers()
    weight = np.ones(N_ROWS)
    weight[::2] = 0
    kept = averaging_of(predictions[0, 1::2], predictions[1, 1::2], target[1::2], N_FOLDS)
    assert averaging_of(predictions[0], predictions[1], target, N_FOLDS, weight).share == pytest.approx(kept.share)
    assert averaging_of(predictions[0], predictions[1], target, N_FOLDS, 0 * weight) == NO_AVERAGING


def test_two_folds_few_rows_and_exact_predictions_show_no_gain():
    predictions, target, _ = numbers()
    assert averaging_of(predictions[0], predictions[1], target, 2) == NO_AVERAGING
    few = slice(LEAST_ROWS - 1)
    assert averaging_of(predictions[0, few], predictions[1, few], target[few], N_FOLDS) == NO_AVERAGING
    assert averaging_of(target, target, target, N_FOLDS) == NO_AVERAGING


def test_small_tables_spare_no_rows_and_large_ones_a_small_share():
    assert compared_rows(100) == 0
    assert [compared_rows(n_rows) for n_rows in (10_000, 1_000_000)] == [200, 2_000]


def noisy_probabilities(n_classes, seed=0):
    """Probabilities without noise, those that fold models predict for new rows, and class codes."""
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.5), 4_000)
    codes = np.minimum((np.cumsum(probabilities, axis=1) < generator.random((4_000, 1))).sum(axis=1), n_classes - 1)
    logarithms = np.log(np.maximum(probabilities, 1e-6)) + generator.normal(size=(N_FOLDS, *probabilities.shape))
    return probabilities, np.exp(logarithms) / np.exp(logarithms).sum(axis=-1, keepdims=True), codes


@pytest.mark.parametrize("n_classes", [2, 5])
def test_a_mean_of_noisy_probabilities_gets_a_lower_temperature(n_classes):
    probabilities, predictions, codes = noisy_probabilities(n_classes)
    found = averaging_of(predictions[0], predictions[1], codes, N_FOLDS)
    mean, shares = predictions.mean(axis=0), np.ones(len(codes))
    of_single, of_mean = (lowest_temperature(each, codes, shares) for each in (predictions[2], mean))
    assert np.log(found.temperature) == pytest.approx(np.log(of_mean / of_single), rel=0.3)
    losses = [
        metrics.score("log_loss", codes, tempered(mean, each)) for each in (of_single, of_single * found.temperature)
    ]
    assert losses[1] < losses[0]
    assert averaging_of(probabilities, probabilities, codes, N_FOLDS) == NO_AVERAGING


@pytest.mark.parametrize(
    ("metric", "score", "expected"),
    [
        ("rmse", 10.0, 9.0),
        ("r2", 0.5, 0.595),
        ("log_loss", 0.5, 0.405),
        ("roc_auc", 0.9, 0.919),
        ("cost:fn=5,fp=1", 5.0, 5.0),
    ],
)
def test_a_score_gets_better_by_the_gain_in_its_own_units(metric, score, expected):
    assert Averaging(share=0.19).score(metric, score) == pytest.approx(expected)
    assert NO_AVERAGING.score(metric, score) == pytest.approx(score)
    assert np.isnan(Averaging(share=0.19).score(metric, float("nan")))
