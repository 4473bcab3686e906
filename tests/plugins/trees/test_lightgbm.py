"""LightGBM: its predictions by parts of the trees are those of the library, and what it tries first."""

from __future__ import annotations

import numpy as np
import pytest
from tabapp_plugins.trees.lightgbm_model import TREES_TOGETHER, LightGBM, LightGBMModel, Target

from tabapp.features.arrays import Table
from tabapp.models.contract import Shape

lightgbm = pytest.importorskip("lightgbm")


@pytest.mark.parametrize(("task", "n_classes"), [("regression", 1), ("binary", 2), ("multiclass", 5)])
def test_many_trees_predict_as_the_library_does(task, n_classes):
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(300, 4)).astype(np.float32)
    target = rows[:, 0] * rows[:, 1] if task == "regression" else generator.integers(0, n_classes, len(rows))
    settings = {"objective": task, "num_class": 1 if n_classes == 2 else n_classes, "verbosity": -1, "num_leaves": 4}
    n_iterations = 2 * TREES_TOGETHER // n_classes + 3
    booster = lightgbm.train(settings, lightgbm.Dataset(rows, target), n_iterations)
    model = LightGBMModel(booster, Target(task, n_classes, 0.0, 1.0), {}, n_threads=1)
    found = model.output(Table(numeric=rows, categorical=np.empty((len(rows), 0), np.int32)))
    expected = booster.predict(rows)
    # A sum of values in another order differs by the rounding of each addition.
    tolerance = booster.num_trees() * np.finfo(np.float64).eps * np.abs(booster.predict(rows, raw_score=True)).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("task", "n_classes", "first"), [("regression", 1, 0.8), ("binary", 2, 0.5), ("multiclass", 5, 0.8)]
)
def test_large_tables_try_trees_on_half_and_on_most_of_the_columns(task, n_classes, first):
    shape = Shape(n_rows=20_000, n_numeric=8, n_categorical=4, n_classes=n_classes)
    tried = [LightGBM().defaults(task, shape, "cpu"), *LightGBM().portfolio(task, shape, "cpu")]
    assert tried[0].feature_fraction == first
    assert {params.feature_fraction for params in tried if params.num_leaves == 63} == {0.5, 0.8}
    assert len(set(map(str, tried))) == len(tried)
