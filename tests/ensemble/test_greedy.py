import time

import numpy as np
import pytest

from tabapp import metrics
from tabapp.ensemble.blending import blend
from tabapp.ensemble.greedy import cross_fitted, select
from tabapp.metrics import registry


def binary_candidates(n_rows=600, n_candidates=6, seed=0, noise=1.0):
    """Noisy views of the same signal: their mean is better than any of them."""
    generator = np.random.default_rng(seed)
    signal = generator.normal(size=n_rows)
    target = (signal + generator.normal(scale=0.5, size=n_rows) > 0.8).astype(np.int64)
    candidates = []
    for _ in range(n_candidates):
        positive = 1 / (1 + np.exp(-2 * (signal + generator.normal(scale=noise, size=n_rows) - 0.8)))
        candidates.append(np.column_stack([1 - positive, positive]).astype(np.float32))
    return candidates, target


def regression_candidates(n_rows=500, n_candidates=4, seed=0):
    generator = np.random.default_rng(seed)
    target = generator.normal(size=n_rows) * 100
    return [target + generator.normal(scale=30, size=n_rows) for _ in range(n_candidates)], target


def reference_select(predictions, target, metric, weight=None, n_rounds=25):
    """The loop of the paper without optimizations."""
    metric = metrics.get(metric).selected_by or metric
    chosen, trajectory = [], []
    for _ in range(n_rounds):
        losses = [
            metrics.loss(metric, target, np.mean([predictions[i] for i in [*chosen, j]], axis=0), weight)
            for j in range(len(predictions))
        ]
        chosen.append(int(np.argmin(losses)))
        trajectory.append(min(losses))
    size = int(np.argmin(np.round(trajectory, 12))) + 1
    return np.bincount(chosen[:size], minlength=len(predictions)) / size


@pytest.mark.parametrize("metric", ["roc_auc", "log_loss", "accuracy", "brier", "average_precision"])
@pytest.mark.parametrize("weighted", [False, True])
def test_selection_equals_the_loop_of_the_paper(metric, weighted):
    candidates, target = binary_candidates()
    candidates = [c.astype(np.float64) for c in candidates]
    weight = np.random.default_rng(1).uniform(0.5, 2, len(target)) if weighted else None
    weights = select(candidates, target, metric, weight)
    reference = reference_select(candidates, target, metric, weight)
    ours, theirs = (metrics.loss(metric, target, blend(candidates, w), weight) for w in (weights, reference))
    if metric == "accuracy":  # many ties, which the reference breaks differently
        assert ours == pytest.approx(theirs, abs=0.01)
    else:
        np.testing.assert_allclose(weights, reference)


def test_multiclass_and_regression_selection_equals_the_loop_of_the_paper():
    candidates, target = regression_candidates()
    for metric in ("rmse", "mae", "r2"):
        np.testing.assert_allclose(select(candidates, target, metric), reference_select(candidates, target, metric))
    generator = np.random.default_rng(0)
    target = generator.integers(0, 3, 400)
    candidates = [generator.dirichlet(np.ones(3), 400) + np.eye(3)[target] * strength for strength in (0.2, 0.3, 0.4)]
    candidates = [c / c.sum(axis=1, keepdims=True) for c in candidates]
    for metric in ("log_loss", "roc_auc"):
        np.testing.assert_allclose(select(candidates, target, metric), reference_select(candidates, target, metric))


def test_weights_are_a_distribution_in_steps_of_one_round():
    candidates, target = binary_candidates()
    weights = select(candidates, target, "roc_auc", n_rounds=10)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    assert any(np.allclose(weights * size, np.round(weights * size)) for size in range(1, 11))


def test_blend_beats_the_best_single_candidate_on_the_rows_it_was_selected_on():
    candidates, target = binary_candidates()
    weights = select(candidates, target, "log_loss")
    best = min(metrics.loss("log_loss", target, c) for c in candidates)
    assert metrics.loss("log_loss", target, blend(candidates, weights)) < best


def test_ties_prefer_current_members_then_the_first():
    candidates, target = binary_candidates(n_candidates=1)
    np.testing.assert_array_equal(select([*candidates, *candidates, *candidates], target, "roc_auc"), [1, 0, 0])


def test_candidates_with_nan_predictions_are_never_selected():
    candidates, target = binary_candidates(n_candidates=3)
    broken = candidates[0].copy()
    broken[3] = np.nan
    weights = select([broken, *candidates], target, "roc_auc")
    assert weights[0] == 0
    assert cross_fitted([broken, *candidates], target, "roc_auc").weights[0] == 0
    with pytest.raises(ValueError, match="finite"):
        select([broken], target, "roc_auc")
    with pytest.raises(ValueError, match="finite"):
        cross_fitted([broken], target, "roc_auc")


def test_sampled_selection_is_nearly_as_good_and_reproducible():
    candidates, target = binary_candidates(n_rows=20_000, n_candidates=5)
    full = select(candidates, target, "roc_auc", max_rows=20_000)
    sampled = select(candidates, target, "roc_auc", max_rows=2_000, seed=3)
    np.testing.assert_array_equal(sampled, select(candidates, target, "roc_auc", max_rows=2_000, seed=3))
    scores = [metrics.score("roc_auc", target, blend(candidates, w)) for w in (full, sampled)]
    assert scores[1] == pytest.approx(scores[0], abs=0.003)


def test_selection_is_fast_enough_to_run_after_every_fit():
    candidates, target = binary_candidates(n_rows=50_000, n_candidates=40)
    started = time.process_time()
    select(candidates, target, "roc_auc")
    assert time.process_time() - started < 2.5


@pytest.mark.parametrize("metric", ["roc_auc", "log_loss"])
def test_cross_fitted_score_matches_its_prediction_and_is_at_least_the_best(metric):
    candidates, target = binary_candidates()
    result = cross_fitted(candidates, target, metric)
    assert result.score == metrics.score(metric, target, result.prediction)
    assert result.low < result.score < result.high
    best = min(metrics.loss(metric, target, c) for c in candidates)
    assert metrics.loss(metric, target, result.prediction) < best
    assert np.count_nonzero(result.weights) > 1


def test_an_interim_ensemble_is_not_calibrated():
    generator = np.random.default_rng(0)
    target = generator.integers(0, 2, 3_000)
    # Overconfident: the log loss is lower at a temperature above 1.
    positive = 1 / (1 + np.exp(-4 * (2 * target - 1 + generator.normal(0, 2, len(target)))))
    prediction = np.column_stack([1 - positive, positive])
    final = cross_fitted([prediction], target, "log_loss")
    interim = cross_fitted([prediction], target, "log_loss", is_final=False)
    assert final.calibration is not None
    assert interim.calibration is None
    assert interim.score > final.score
    assert np.array_equal(interim.prediction, interim.blend)


def test_cross_fitted_weights_do_not_depend_on_the_rows_they_are_scored_on():
    """Changing the targets of one group must not change how the rows of that group are blended."""
    candidates, target = regression_candidates(n_rows=200)
    groups = np.arange(200) % 8
    before = cross_fitted(candidates, target, "rmse", groups=groups)
    changed = target.copy()
    changed[groups == 2] += 300 * np.random.default_rng(0).normal(size=25)
    after = cross_fitted(candidates, changed, "rmse", groups=groups)
    np.testing.assert_array_equal(before.prediction[groups == 2], after.prediction[groups == 2])
    assert not np.array_equal(before.prediction[groups != 2], after.prediction[groups != 2])


@pytest.mark.parametrize("row", [0, 57, 199])
def test_the_target_of_a_row_does_not_change_the_blend_of_the_row(row):
    candidates, target = regression_candidates(n_rows=200)
    changed = target.copy()
    changed[row] += 1e4
    before, after = (cross_fitted(candidates, values, "rmse").prediction for values in (target, changed))
    assert before[row] == after[row]
    assert not np.array_equal(before, after)


def test_scores_of_groups_that_differ_are_of_weights_from_other_groups():
    """Each candidate knows half of the groups: weights of other groups say nothing of a group, and those of other rows of it do."""
    generator = np.random.default_rng(0)
    groups, target = np.arange(600) % 2, generator.normal(size=600)
    known = [np.where(groups == group, target, generator.normal(size=600)) for group in (0, 1)]
    grouped, independent = (cross_fitted(known, target, "rmse", groups=each).score for each in (groups, None))
    assert grouped > 1.3
    assert independent < 0.8


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 30])
def test_few_rows_are_blended(n_rows):
    candidates, target = regression_candidates(n_rows=n_rows, n_candidates=3)
    result = cross_fitted(candidates, target, "mae")
    assert result.weights.sum() == pytest.approx(1)
    assert np.isfinite(result.prediction).all()


def test_noise_candidates_do_not_join_the_best_candidate():
    """With thirty noise candidates and a good one, the blend is almost the good one."""
    generator = np.random.default_rng(5)
    target = generator.normal(size=60)
    good = target + generator.normal(scale=0.05, size=60)
    useless = [generator.normal(size=60) for _ in range(30)]
    result = cross_fitted([*useless, good], target, "rmse")
    assert result.weights[30] > 0.95
    assert result.score < 1.05 * metrics.score("rmse", target, good)


def test_many_equal_candidates_are_averaged():
    generator = np.random.default_rng(0)
    target, shared = generator.normal(size=(2, 120))
    candidates = [target + 0.9 * shared + 0.45 * generator.normal(size=120) for _ in range(40)]
    result = cross_fitted(candidates, target, "rmse")
    assert np.count_nonzero(result.weights) > 1
    # On new rows, every candidate has an error of √(0.9² + 0.45²), and the blend a lower one.
    assert np.hypot(0.9, 0.45 * np.linalg.norm(result.weights)) < 0.96 * np.hypot(0.9, 0.45)
    assert result.low < np.hypot(0.9, 0.45 * np.linalg.norm(result.weights)) < result.high


@pytest.mark.parametrize("metric", ["rmse", "r2"])
def test_a_candidate_whose_model_of_one_fold_is_broken_is_left_out(metric):
    predictions, target = regression_candidates()
    folds = np.arange(len(target)) % 5
    best = target + 0.5 * (predictions[0] - target)
    assert cross_fitted([*predictions, best], target, metric).weights[-1] > 0.5
    broken = np.where(folds == 3, -200.0, best)
    found, expected = (cross_fitted(each, target, metric) for each in ([*predictions, broken], predictions))
    assert found.weights[-1] == 0
    np.testing.assert_array_equal(found.weights[:-1], expected.weights)
    assert found.score == expected.score


@pytest.mark.parametrize("constant", [-20.0, -50.0, -100.0, -200.0])
def test_a_broken_model_of_one_fold_does_not_raise_the_error_of_new_rows(constant):
    """New rows get the mean of the models of five folds, of which one predicts a constant."""
    predictions, target = regression_candidates()
    best = target + 0.5 * (predictions[0] - target)
    broken = np.where(np.arange(len(target)) % 5 == 3, constant, best)
    of_new_rows = 0.8 * best + 0.2 * constant
    found, without = (cross_fitted(each, target, "rmse") for each in ([*predictions, broken], predictions))
    errors = [
        metrics.score("rmse", target, blend(members, result.weights))
        for members, result in (([*predictions, of_new_rows], found), (predictions, without))
    ]
    # The weights of the others differ a little, too.
    assert errors[0] < 1.001 * errors[1]
    assert found.weights[-1] < 0.1


def test_a_metric_without_a_best_value_leaves_no_useful_candidate_out(monkeypatch):
    profit = metrics.Metric(
        name="profit",
        title="Profit",
        description="Falls with the error.",
        tasks=("regression",),
        greater_is_better=True,
        needs_probability=False,
        function=lambda truth, prediction, weight: 1e4 - metrics.score("rmse", truth, prediction, weight),
    )
    monkeypatch.setitem(registry.BUILT_IN, "profit", profit)
    predictions, target = regression_candidates()
    found, expected = (cross_fitted(predictions, target, metric) for metric in ("profit", "rmse"))
    np.testing.assert_allclose(found.weights, expected.weights)
    assert (found.weights > 0).sum() > 1


def test_single_candidate_is_the_ensemble():
    candidates, target = binary_candidates(n_candidates=1)
    result = cross_fitted(candidates, target, "log_loss")
    np.testing.assert_array_equal(result.weights, [1])
    np.testing.assert_array_equal(result.blend, candidates[0])


def test_groups_with_a_single_class_are_supported():
    candidates, target = binary_candidates(n_rows=60)
    result = cross_fitted(candidates, target, "roc_auc", groups=target)
    assert np.isfinite(result.score)
    assert result.weights.sum() == pytest.approx(1)
