import numpy as np
import pytest

from tabapp import metrics
from tabapp.ensemble.sampling import sample_rows


def test_small_tables_are_not_sampled():
    target = np.arange(10) % 2
    sample = sample_rows(target, "roc_auc", 10, seed=0)
    np.testing.assert_array_equal(sample.rows, np.arange(10))
    assert sample.weight is None


def test_rare_class_is_kept_and_weights_restore_the_class_balance():
    target = np.zeros(100_000, dtype=np.int64)
    target[:150] = 1
    sample = sample_rows(target, "log_loss", 2_000, seed=0)
    assert len(sample.rows) == 2_000
    assert (target[sample.rows] == 1).sum() == 150
    assert sample.weight is not None
    share = sample.weight[target[sample.rows] == 1].sum() / sample.weight.sum()
    assert share == pytest.approx(0.0015)


def test_sampled_score_estimates_the_full_score():
    generator = np.random.default_rng(0)
    target = (generator.random(50_000) < 0.05).astype(np.int64)
    positive = np.clip(0.05 + 0.2 * target + generator.normal(scale=0.03, size=50_000), 0.001, 0.999)
    prediction = np.column_stack([1 - positive, positive])
    sample = sample_rows(target, "log_loss", 5_000, seed=0)
    estimate = metrics.score("log_loss", target[sample.rows], prediction[sample.rows], sample.weight)
    assert estimate == pytest.approx(metrics.score("log_loss", target, prediction), rel=0.02)


def test_row_weights_are_kept():
    target = np.repeat([0, 1], [900, 100])
    weight = np.linspace(1, 2, 1000)
    sample = sample_rows(target, "log_loss", 400, seed=0, weight=weight)
    assert sample.weight is not None
    stands_for = np.where(target[sample.rows] == 1, 1.0, 3.0) * weight[sample.rows]
    np.testing.assert_allclose(sample.weight, stands_for / stands_for.mean())


def test_regression_sample_covers_the_range_and_depends_only_on_the_seed():
    target = np.random.default_rng(0).exponential(size=10_000)
    sample = sample_rows(target, "rmse", 500, seed=1)
    assert target[sample.rows].max() == target.max()
    assert target[sample.rows].mean() == pytest.approx(target.mean(), rel=0.05)
    np.testing.assert_array_equal(sample.rows, sample_rows(target, "rmse", 500, seed=1).rows)
    assert len(np.unique(sample.rows)) == 500


def test_more_classes_than_sampled_rows_are_supported():
    target = np.arange(100)
    assert len(sample_rows(target, "log_loss", 10, seed=0).rows) == 10
