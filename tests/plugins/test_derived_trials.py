"""Where LightGBM tries features made from two columns, and that a fit of a run uses them."""

from __future__ import annotations

import msgspec
import optuna
import pytest
from tabapp_plugins.lightgbm_model import DERIVED_ROWS, LightGBM, LightGBMParams

from tabapp.engine.fit import recipe_id
from tabapp.metrics import Task
from tabapp.models.contract import Shape

SMALL, LARGE = Shape(2_000, 8, 2, 3), Shape(30_000, 8, 2, 3)


def tries(task: Task, shape: Shape) -> set[bool]:
    """The values of `derived` in the portfolio and in draws from the search space, which agree."""
    plugin, study = LightGBM(), optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    portfolio = {params.derived for params in plugin.portfolio(task, shape, "cpu")}
    drawn = {plugin.search_space(study.ask(), task, shape, "cpu").derived for _ in range(20)}
    assert portfolio == drawn
    assert not plugin.defaults(task, shape, "cpu").derived
    return drawn


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_features_of_two_columns_are_tried_where_they_helped(shape: Shape) -> None:
    assert tries("regression", shape) == tries("multiclass", shape) == {False, True}
    assert tries("binary", shape) == {False}


def test_they_are_not_tried_on_long_tables_or_on_one_column() -> None:
    assert tries("regression", Shape(DERIVED_ROWS + 1, 8, 2, 1)) == {False}
    assert tries("regression", Shape(2_000, 1, 0, 1)) == {False}


def test_a_trial_with_them_has_features_of_its_own_and_costs_more() -> None:
    plugin, plain = LightGBM(), LightGBMParams()
    derived = msgspec.structs.replace(plain, derived=True)
    assert plugin.features_for(plain) == plugin.features()
    assert recipe_id(plugin.features_for(derived)) == f"{recipe_id(plugin.features())}-derived"
    costs = [plugin.cost("regression", SMALL, params, "cpu") for params in (plain, derived)]
    assert costs[0].seconds < costs[1].seconds
    assert costs[0].n_bytes < costs[1].n_bytes
