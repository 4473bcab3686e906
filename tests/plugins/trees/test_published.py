"""The presets of boosting have the tables of the supplement of Gorishniy et al. 2021, value by value."""

from __future__ import annotations

import pytest

from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.models.describe import Distribution, search_space

SMALL, LARGE = Shape(50_000, 10, 0, 2), Shape(500_000, 10, 0, 2)


def log(name: str, low: float, high: float) -> Distribution:
    return Distribution(name, "float", low, high, log=True)


def zero_or_log(name: str) -> list[Distribution]:
    used = f"use_{name}"
    return [
        Distribution(used, "categorical", choices=(False, True)),
        Distribution(name, "float", 1e-8, 1e2, log=True, condition=((used, (True,)),)),
    ]


@pytest.mark.parametrize(("shape", "least_depth"), [(SMALL, 3), (LARGE, 6)])
def test_xgboost_is_tuned_in_the_space_of_table_6(shape, least_depth):
    plugin = registry.get("xgboost:paper")
    expected = [
        Distribution("max_depth", "int", least_depth, 10, 1),
        log("min_child_weight", 1e-8, 1e5),
        Distribution("subsample", "float", 0.5, 1),
        log("learning_rate", 1e-5, 1),
        Distribution("colsample_bylevel", "float", 0.5, 1),
        Distribution("colsample_bytree", "float", 0.5, 1),
        *zero_or_log("gamma"),
        *zero_or_log("reg_lambda"),
        *zero_or_log("reg_alpha"),
    ]
    found = search_space(plugin, "binary", shape, "cpu")
    assert sorted(found, key=lambda each: each.name) == sorted(expected, key=lambda each: each.name)
    params = plugin.defaults("binary", shape, "cpu")
    assert (params.n_trees, params.patience) == (2000, 50)


@pytest.mark.parametrize(("shape", "least_depth"), [(SMALL, 3), (LARGE, 6)])
def test_catboost_is_tuned_in_the_space_of_table_7(shape, least_depth):
    plugin = registry.get("catboost:paper")
    assert list(search_space(plugin, "binary", shape, "cpu")) == [
        Distribution("depth", "int", least_depth, 10, 1),
        log("learning_rate", 1e-5, 1),
        Distribution("bagging_temperature", "float", 0, 1),
        log("l2_leaf_reg", 1, 10),
        Distribution("leaf_estimation_iterations", "int", 1, 10, 1),
    ]
    params = plugin.defaults("binary", shape, "cpu")
    assert (params.n_trees, params.patience) == (2000, 50)
