"""Trees as arrays compared with scikit-learn, which trained them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from tabapp_plugins._shared.tree_arrays import BLOCK, Trees, lower_float32
from tabapp_plugins._shared.trees import Grown, classes_of, from_sklearn
from tabapp_plugins.trees.catboost_model import with_weights
from tabapp_plugins.trees.hist_gradient_boosting import from_predictor

Rows = tuple[np.ndarray, np.ndarray]


def rows(n_classes: int, n_rows: int = 600) -> Rows:
    """Rows with missing cells and repeated values, which coincide with thresholds."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, 5)).astype(np.float32)
    X[:, 1] = X[:, 1].round()
    signal = X[:, 0] + np.abs(X[:, 1]) + 0.3 * generator.normal(size=n_rows)
    X[generator.random(n_rows) < 0.2, 2] = np.nan
    if n_classes == 1:
        return X, signal.astype(np.float64)
    return X, np.searchsorted(np.quantile(signal, np.linspace(0, 1, n_classes + 1)[1:-1]), signal)


@pytest.mark.parametrize(
    ("forest", "n_classes"),
    [
        (RandomForestRegressor(12, random_state=0), 1),
        (RandomForestClassifier(12, max_depth=4, random_state=0), 2),
        (ExtraTreesClassifier(12, random_state=0), 3),
    ],
    ids=["random_forest", "classes", "extra_trees"],
)
def test_forest_predictions_equal_scikit_learn(forest: Any, n_classes: int) -> None:
    X, y = rows(n_classes)
    forest.fit(X[:400], y[:400])
    ours = Grown(Trees.join([from_sklearn(e.tree_) for e in forest.estimators_]), classes_of(forest))
    expected = forest.predict(X) if n_classes == 1 else forest.predict_proba(X)
    np.testing.assert_allclose(ours.output(X, n_classes), expected, atol=1e-6)


@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_boosted_predictions_equal_scikit_learn(n_classes: int) -> None:
    X, y = rows(n_classes)
    kind = HistGradientBoostingRegressor if n_classes == 1 else HistGradientBoostingClassifier
    booster: Any = kind(max_iter=15, early_stopping=False, random_state=0).fit(X[:400], y[:400])
    trees = Trees.join([from_predictor(tree) for group in booster._predictors for tree in group])
    ours = Grown(trees, classes_of(booster), tuple(np.ravel(booster._baseline_prediction)))
    expected = booster.predict(X) if n_classes == 1 else booster.predict_proba(X)
    np.testing.assert_allclose(ours.output(X, n_classes), expected, atol=1e-5)
    fewer = Grown(trees.first(5 * len(ours.baseline)), ours.classes, ours.baseline)
    staged = list(booster.staged_predict(X) if n_classes == 1 else booster.staged_predict_proba(X))[4]
    np.testing.assert_allclose(fewer.output(X, n_classes), staged, atol=1e-5)


def test_predictions_do_not_depend_on_the_number_of_rows() -> None:
    X, y = rows(1)
    forest = RandomForestRegressor(7, random_state=0).fit(X, y)
    trees = Trees.join([from_sklearn(e.tree_) for e in forest.estimators_])
    many = np.tile(X, (BLOCK // len(X) + 2, 1))
    total = trees.total(many)
    np.testing.assert_allclose(total[: len(X)], trees.total(X))
    np.testing.assert_allclose(total[-5:], trees.total(X[-5:]))
    assert trees.total(X[:0]).shape == (0, 1)


def test_thresholds_are_rounded_down() -> None:
    exact = np.array([0.1, -0.1, 1.0, 1e300, -1e300, np.inf, -np.inf, 0.0])
    lowered = lower_float32(exact)
    assert (lowered.astype(np.float64) <= exact).all()
    with np.errstate(over="ignore"):
        above = np.nextafter(lowered, np.float32(np.inf)).astype(np.float64)
    assert (above > exact)[np.isfinite(exact)].all()
    assert lowered[5] == np.inf
    assert lowered[6] == -np.inf


def test_tree_with_one_leaf() -> None:
    forest = RandomForestRegressor(3, random_state=0).fit(np.zeros((5, 2)), np.full(5, 2.0))
    trees = Trees.join([from_sklearn(e.tree_) for e in forest.estimators_])
    np.testing.assert_array_equal(trees.total(np.ones((4, 2), np.float32)), np.full((4, 1), 6.0))


def test_catboost_reports_a_metric_of_rows_with_weights() -> None:
    values = {"Accuracy:use_weights=true": [0.5], "Accuracy:use_weights=false": [0.4], "PRAUC:type=Classic": [0.3]}
    assert with_weights(values, "Accuracy") == "Accuracy:use_weights=true"
    assert with_weights(values, "PRAUC:type=Classic") == "PRAUC:type=Classic"
    assert with_weights(values, "F1:average=Macro") == "F1:average=Macro;use_weights=true"
