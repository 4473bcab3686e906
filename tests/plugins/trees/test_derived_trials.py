"""Where boosters use features made from two columns, and that the fits of a run and its bundle do."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import optuna
import polars as pl
import pytest
from tabapp_plugins._shared.boosting import BoostingPlugin
from tabapp_plugins._shared.derived import MOST_ROWS
from tabapp_plugins.trees.catboost_model import CatBoost
from tabapp_plugins.trees.hist_gradient_boosting import HistGradientBoosting
from tabapp_plugins.trees.lightgbm_model import LightGBM
from tabapp_plugins.trees.xgboost_model import XGBoost

import tabapp
from tabapp.cli.main import run_command_line
from tabapp.engine.fit.features import recipe_id
from tabapp.models.contract import Shape
from tabapp.task import Task

PLUGINS = [LightGBM(), XGBoost(), CatBoost()]
SMALL, MEDIUM, LARGE = Shape(1_000, 8, 2, 3), Shape(5_000, 8, 2, 3), Shape(30_000, 8, 2, 3)


def tries(plugin: BoostingPlugin, task: Task, shape: Shape) -> list[bool]:
    """The values of `derived_features` in the defaults and in the portfolio."""
    tried = [plugin.defaults(task, shape, "cpu"), *plugin.portfolio(task, shape, "cpu")]
    return [plugin.features_for(params).derived for params in tried]


def draws(plugin: BoostingPlugin, task: Task, shape: Shape) -> set[bool]:
    """Its values in the search space."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return {plugin.features_for(plugin.search_space(study.ask(), task, shape, "cpu")).derived for _ in range(20)}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
@pytest.mark.parametrize("task", ["regression", "multiclass"])
@pytest.mark.parametrize("shape", [SMALL, MEDIUM, LARGE])
def test_features_of_two_columns_are_among_the_first_trials(plugin: BoostingPlugin, task: Task, shape: Shape) -> None:
    assert True in tries(plugin, task, shape)[:2]
    assert draws(plugin, task, shape) == {False, True}


def test_boosters_begin_with_them_where_they_helped_and_one_without() -> None:
    def begins(task: Task, shape: Shape) -> set[str]:
        return {plugin.name for plugin in PLUGINS if tries(plugin, task, shape)[0]}

    assert begins("regression", SMALL) == set()
    assert begins("regression", MEDIUM) == {"lightgbm", "catboost"}
    assert begins("regression", LARGE) == {"lightgbm"}
    assert begins("multiclass", SMALL) == begins("multiclass", MEDIUM) == {"lightgbm"}
    assert begins("multiclass", LARGE) == set()


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
@pytest.mark.parametrize("shape", [SMALL, MEDIUM, LARGE])
def test_two_classes_are_predicted_without_them(plugin: BoostingPlugin, shape: Shape) -> None:
    assert not any(tries(plugin, "binary", shape))
    assert draws(plugin, "binary", shape) == {False}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
@pytest.mark.parametrize("shape", [Shape(MOST_ROWS + 1, 8, 2, 1), Shape(5_000, 1, 0, 1), Shape(5_000, 0, 5, 1)])
def test_they_are_not_tried_on_long_tables_or_without_two_columns(plugin: BoostingPlugin, shape: Shape) -> None:
    assert not any(tries(plugin, "regression", shape))
    assert draws(plugin, "regression", shape) == {False}


def test_no_trial_is_tried_twice() -> None:
    for plugin in PLUGINS:
        for task in ("binary", "multiclass", "regression"):
            for shape in (SMALL, MEDIUM, LARGE):
                tried = [plugin.defaults(task, shape, "cpu"), *plugin.portfolio(task, shape, "cpu")]
                assert len({msgspec.json.encode(params) for params in tried}) == len(tried)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_a_trial_with_them_has_features_of_its_own_and_costs_more(plugin: BoostingPlugin) -> None:
    plain = plugin.defaults("binary", SMALL, "cpu")
    derived = msgspec.structs.replace(plain, derived_features=True)
    assert plugin.features_for(plain) == plugin.features()
    assert recipe_id(plugin.features_for(derived)) == f"{recipe_id(plugin.features())}-derived"
    costs = [plugin.cost("regression", SMALL, params, "cpu") for params in (plain, derived)]
    assert costs[0].seconds < costs[1].seconds
    assert costs[0].n_bytes < costs[1].n_bytes


def test_any_booster_can_use_them() -> None:
    plugin = HistGradientBoosting()
    assert not any(tries(plugin, "regression", MEDIUM))
    params = msgspec.structs.replace(plugin.defaults("regression", MEDIUM, "cpu"), derived_features=True)
    assert plugin.features_for(params).derived


@pytest.mark.slow
def test_a_run_and_its_bundle_use_the_features_of_each_trial(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    a, b = generator.uniform(1, 5, 400), generator.uniform(1, 5, 400)
    table = pl.DataFrame({"a": a, "b": b, "y": a / b})
    table.write_csv(tmp_path / "table.csv")
    arguments = [
        "--auto",
        str(tmp_path / "table.csv"),
        "--target",
        "y",
        "--models",
        "lightgbm,catboost",
        "--trials",
        "3",
    ]
    arguments += ["--folds", "2", "--runs-dir", str(tmp_path), "--out", str(tmp_path / "b.tabapp"), "--quiet"]
    assert run_command_line(arguments) == 0
    (features,) = tmp_path.glob("*/features")
    recipes = [msgspec.structs.replace(CatBoost().features(), derived=derived) for derived in (False, True)]
    names = {f"{recipe_id(recipe)}-f{fold}" for recipe in recipes for fold in (0, 1)}
    assert names <= {path.name for path in features.iterdir()}
    loaded = tabapp.load(tmp_path / "b.tabapp")
    error = np.abs(np.asarray(loaded.predict(table.drop("y"))) - a / b).mean()
    assert error < 0.1 * np.abs(a / b - (a / b).mean()).mean()
    # Both columns have a part in the explanation of a feature that is made from them.
    explained = loaded.explain(table.drop("y").head(2))
    for row in explained["rows"]:
        parts = row["contributions"]
        assert set(parts) == {"a", "b"}
        assert all(parts.values())
        assert explained["base"] + sum(parts.values()) == pytest.approx(row["output"], abs=1e-4)
