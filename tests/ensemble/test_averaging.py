"""What the mean of fold models gains over single ones, estimated from predictions of known rows."""

from __future__ import annotations

import numpy as np
import pytest

from tabapp import metrics
from tabapp.ensemble.averaging import NO_AVERAGING, Averaging, averaging_of
from tabapp.ensemble.temperature import lowest_temperature, tempered

N_ROWS, N_FOLDS = 20_000, 8
SPREAD, NOISE = 0.5, 1.0
"""Standard deviations of fold models around their mean, and of the target around it."""


def folds_of(learned, seed=0):
    """Predictions of fold models, the fold of each row, the target, and the gain of the mean of models that know none of the rows.

    Args:
        learned: (rows,) the part of a prediction of a known row that is its target.
    """
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=N_ROWS)
    target = truth + NOISE * generator.normal(size=N_ROWS)
    unknown = truth + SPREAD * generator.normal(size=(N_FOLDS, N_ROWS))
    own = generator.integers(0, N_FOLDS, N_ROWS)
    knows = np.arange(N_FOLDS)[:, np.newaxis] != own
    predictions = np.where(knows, (1 - learned) * unknown + learned * target, unknown)
    single = np.mean((unknown - target) ** 2)
    return predictions, own, target, 1 - np.mean((unknown.mean(axis=0) - target) ** 2) / single


def test_models_that_learn_no_row_by_heart_show_the_whole_gain():
    predictions, own, target, gain = folds_of(np.zeros(N_ROWS))
    # The slope on the residual, which contains the deviation of the model, is taken for learning: 0.2 of the gain at most.
    assert averaging_of(predictions, own, target).share == pytest.approx(gain, rel=0.3)


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_rows_learned_by_heart_do_not_hide_the_gain(share):
    learned = (np.random.default_rng(1).random(N_ROWS) < share).astype(float)
    predictions, own, target, gain = folds_of(learned)
    assert averaging_of(predictions, own, target).share == pytest.approx(gain, rel=0.3)


@pytest.mark.parametrize("learned", [0.3, 0.6, 0.9])
def test_rows_learned_in_part_make_the_estimate_too_low_and_never_too_high(learned):
    predictions, own, target, gain = folds_of(np.full(N_ROWS, learned))
    assert 0 < averaging_of(predictions, own, target).share < gain * 1.1


def test_rows_with_weight_zero_do_not_count():
    predictions, own, target, _ = folds_of(np.zeros(N_ROWS))
    weight = np.ones(N_ROWS)
    weight[::2] = 0
    kept = averaging_of(predictions[:, 1::2], own[1::2], target[1::2])
    assert averaging_of(predictions, own, target, weight).share == pytest.approx(kept.share)


def test_two_folds_and_exact_predictions_show_no_gain():
    predictions, _, target, _ = folds_of(np.zeros(N_ROWS))
    assert averaging_of(predictions[:2], np.zeros(N_ROWS, dtype=int), target) == NO_AVERAGING
    exact = np.tile(target, (N_FOLDS, 1))
    assert averaging_of(exact, np.zeros(N_ROWS, dtype=int), target) == NO_AVERAGING


def noisy_probabilities(n_classes, seed=0):
    """Predictions of fold models that know none of the rows, without noise and with it, and class codes."""
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.5), 4_000)
    codes = np.minimum((np.cumsum(probabilities, axis=1) < generator.random((4_000, 1))).sum(axis=1), n_classes - 1)
    logarithms = np.log(np.maximum(probabilities, 1e-6)) + generator.normal(size=(N_FOLDS, *probabilities.shape))
    return probabilities, np.exp(logarithms) / np.exp(logarithms).sum(axis=-1, keepdims=True), codes


def test_rows_learned_by_heart_do_not_hide_the_temperature_of_the_mean():
    _, unknown, codes = noisy_probabilities(5)
    generator = np.random.default_rng(1)
    own, is_learned = generator.integers(0, N_FOLDS, len(codes)), generator.random(len(codes)) < 0.5
    knows = (np.arange(N_FOLDS)[:, np.newaxis] != own) & is_learned
    predictions = np.where(knows[:, :, np.newaxis], np.eye(5)[codes], unknown)
    found, unlearned = (averaging_of(each, own, codes).temperature for each in (predictions, unknown))
    assert found < 1
    assert np.log(found) == pytest.approx(np.log(unlearned), rel=0.3)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_a_mean_of_noisy_probabilities_gets_a_lower_temperature(n_classes):
    probabilities, predictions, codes = noisy_probabilities(n_classes)
    own = np.random.default_rng(1).integers(0, N_FOLDS, 4_000)
    found = averaging_of(predictions, own, codes)
    assert 0 < found.share < 0.5
    assert 0.5 <= found.temperature < 0.9
    shares = np.ones(4_000)
    of_single = lowest_temperature(predictions[own, np.arange(4_000)], codes, shares)
    mean = predictions.mean(axis=0)
    losses = [
        metrics.score("log_loss", codes, tempered(mean, each)) for each in (of_single, of_single * found.temperature)
    ]
    assert losses[1] < losses[0]
    alike = averaging_of(np.tile(probabilities, (N_FOLDS, 1, 1)), own, codes)
    assert alike.temperature == pytest.approx(1)
    assert alike.share == pytest.approx(0)


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
