"""Importances of fitted models by every method, on a table whose relevant columns are known."""

from __future__ import annotations

import numpy as np
import pytest

from tabapp.explain.fold_model import FoldModel
from tabapp.explain.permutation import permutation_importance
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext

RELEVANT, COPIES, NOISE = ("strong", "weak"), ("copy_a", "copy_b"), ("noise_1", "noise_2", "noise_3")
COLUMNS = (*RELEVANT, *COPIES, *NOISE)
SPEC = FeatureSpec(numeric=COLUMNS, categorical=(), cardinalities=(), sources=COLUMNS)


def table(n_rows, seed):
    """strong and weak have an effect of their own, the copies have one effect together, and noise has none."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n_rows, len(COLUMNS))).astype(np.float32)
    x[:, 3] = x[:, 2]
    y = 2 * x[:, 0] + np.abs(x[:, 1]) + 1.5 * x[:, 2] + generator.normal(scale=0.3, size=n_rows)
    return Table(numeric=x, categorical=np.empty((n_rows, 0), dtype=np.int32), target=y.astype(np.float64))


def fitted(name, folder, **params):
    plugin = registry.get(name)
    context = FitContext("regression", 1, "rmse", SPEC, seed=0, device="cpu", n_threads=1, folder=folder)
    model = plugin.fit(table(900, 1), table(200, 2), plugin.params_type(**params), context)
    return FoldModel(model, table(600, 3), SPEC, np.arange(600))


@pytest.fixture(scope="module")
def booster(tmp_path_factory):
    return fitted("xgboost", tmp_path_factory.mktemp("booster"), n_trees=80, colsample_bytree=0.5, max_depth=4)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return fitted("mlp", tmp_path_factory.mktemp("network"), learning_rate=5e-3, batch_size=64, max_epochs=12)


def permuted(fold):
    found = permutation_importance([fold], "rmse", COLUMNS, seed=0)
    return {each.column: each.mean for each in found.columns}


def contributed(fold):
    """Mean size of the contributions: TreeSHAP of a booster, integrated gradients of a network."""
    found = fold.model.contributions(fold.table.take(np.arange(40)), 0, fold.table.take(np.arange(590, 600)))
    return dict(zip(COLUMNS, np.abs(found.values).mean(axis=0), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("method", [permuted, contributed])
@pytest.mark.parametrize("model", ["booster", "network"])
def test_relevant_columns_are_first_and_copies_share(request, model, method):
    found = method(request.getfixturevalue(model))
    assert min(found[name] for name in (*RELEVANT, *COPIES)) > 5 * max(abs(found[name]) for name in NOISE)
    assert found["strong"] == max(found.values())
    assert 1 / 3 < found["copy_a"] / found["copy_b"] < 3, "both have an effect of one column"


def test_a_group_of_copies_is_worth_more_than_its_members(booster):
    found = permutation_importance([booster], "rmse", ["copy_a", "copy_b", COPIES, NOISE], seed=0).columns
    one, other, both, noise = (each.mean for each in found)
    assert both > one + other, "shuffled together, their errors add up before they are squared"
    assert found[3].low < 0.02 < both
    assert abs(noise) < 0.02
