"""Scaling of blended probabilities by class."""

from __future__ import annotations

import numpy as np
import pytest

from tabapp import metrics
from tabapp.ensemble.calibration import ClassScaling
from tabapp.ensemble.greedy import cross_fitted
from tabapp.ensemble.scaling import calibrated, fit_scaling, of_mean, scaled
from tabapp.ensemble.temperature import fit_temperature, tempered
from tests.ensemble.test_temperature import labeled

DISTORTIONS = {
    2: ClassScaling((0.6, 1.4), (0.7, 1.5)),
    4: ClassScaling((0.7, 1.3, 1.0, 1.1), (0.5, 1.0, 2.0, 0.8)),
}


def distorted(n_rows, n_classes, seed=0):
    """Probabilities whose powers and factors were undone, and classes drawn from the true ones."""
    probabilities, codes = labeled(n_rows, n_classes, seed)
    values = np.log(np.maximum(probabilities, 1e-12)) - np.log(DISTORTIONS[n_classes].factors)
    return values, probabilities, codes


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_distortion_by_class_is_undone(n_classes):
    logarithms, truth, codes = distorted(40_000, n_classes)
    # Each row sums to 1 after the distortion only if its logarithms are shifted, which a factor per class cannot undo exactly.
    values = np.exp(logarithms / DISTORTIONS[n_classes].powers)
    values /= values.sum(axis=1, keepdims=True)
    temperature = fit_temperature(values, codes, "log_loss")
    found = fit_scaling(values, codes, "log_loss", temperature)
    assert found is not None
    scaling, own = found
    best, before, after, of_others = (
        metrics.score("log_loss", codes, each)
        for each in (truth, tempered(values, temperature), scaled(values, scaling), own)
    )
    assert after < of_others < before
    assert of_others - best < 0.2 * (before - best)


def test_the_scaling_of_a_temperature_is_its_power():
    probabilities, _ = labeled(500, 3)
    scaling = ClassScaling((1.25,) * 3, (1.0,) * 3)
    np.testing.assert_allclose(scaled(probabilities, scaling), tempered(probabilities, 0.8), rtol=1e-9)
    np.testing.assert_array_equal(calibrated(probabilities, 0.8), tempered(probabilities, 0.8))
    np.testing.assert_array_equal(calibrated(probabilities, scaling), scaled(probabilities, scaling))
    np.testing.assert_allclose(scaled(probabilities, of_mean(scaling, 0.5)), tempered(probabilities, 0.4), rtol=1e-9)
    assert of_mean(ClassScaling((3.0, 0.3), (1.0, 1.0)), 0.5).powers == (4.0, 0.6)


def test_calibrated_probabilities_and_few_rows_have_no_scaling_that_matters():
    for seed in range(20):
        probabilities, codes = labeled(2_000, 3, seed)
        found = fit_scaling(probabilities, codes, "log_loss")
        if found is not None:
            # The prior has the standard deviation 0.14, and the rows leave less.
            assert np.abs(np.asarray(found[0].powers) - 1).max() < 0.3
            assert np.abs(found[1] - probabilities).mean() < 0.02
    values, _, codes = distorted(99, 2)
    assert fit_scaling(np.exp(values) / np.exp(values).sum(axis=1, keepdims=True), codes, "log_loss") is None


def test_rows_count_by_their_weight():
    probabilities, codes = labeled(8_000, 2)
    values = probabilities.copy()
    values[::2] = scaled(probabilities[::2], ClassScaling((0.5, 2.0), (1.0, 1.0)))
    weight = np.ones(8_000)
    weight[::2] = 0
    of_others = fit_scaling(values[1::2], codes[1::2], "log_loss")
    weighted = fit_scaling(values, codes, "log_loss", weight=weight)
    kept = [ClassScaling((1.0, 1.0), (1.0, 1.0)) if found is None else found[0] for found in (of_others, weighted)]
    # Without their weights, the distorted half would halve one power and double the other.
    np.testing.assert_allclose(kept[0].powers, kept[1].powers, atol=0.1)
    unweighted = fit_scaling(values, codes, "log_loss")
    assert unweighted is not None
    assert max(np.abs(np.asarray(unweighted[0].powers) - 1)) > 0.15


def test_extreme_probabilities_stay_probabilities():
    values = scaled(np.array([[1.0, 0.0, 0.0], [1e-300, 1.0, 1e-300]]), ClassScaling((4.0, 0.25, 1.0), (0.1, 5.0, 1.0)))
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values.sum(axis=1), 1)
    np.testing.assert_allclose(values[0], [1, 0, 0])


def test_an_ensemble_is_scored_by_scalings_of_other_rows():
    logarithms, _, codes = distorted(6_000, 2)
    values = np.exp(logarithms / DISTORTIONS[2].powers)
    values /= values.sum(axis=1, keepdims=True)
    result = cross_fitted([values], codes, "log_loss")
    assert isinstance(result.calibration, ClassScaling)
    assert result.score == metrics.score("log_loss", codes, result.prediction)
    in_sample = metrics.score("log_loss", codes, scaled(result.blend, result.calibration))
    assert in_sample < result.score < metrics.score("log_loss", codes, result.blend)
    assert metrics.score("roc_auc", codes, result.prediction) == pytest.approx(
        metrics.score("roc_auc", codes, result.blend), abs=1e-9
    )
    interim = cross_fitted([values], codes, "log_loss", is_final=False)
    assert interim.calibration is None


@pytest.mark.parametrize(("before", "after"), [(0.2, 0.3), (0.3, 0.2)])
def test_the_metric_of_the_run_does_not_get_worse(monkeypatch, before, after):
    """A scaling changes which class is most probable, which may lower the accuracy."""
    logarithms, _, codes = distorted(6_000, 2)
    values = np.exp(logarithms / DISTORTIONS[2].powers)
    values /= values.sum(axis=1, keepdims=True)
    losses = iter([before, after])
    monkeypatch.setattr(metrics, "loss", lambda *arguments: next(losses))
    assert (fit_scaling(values, codes, "accuracy") is None) == (after > before)
