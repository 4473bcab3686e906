"""Where LightGBM tries features made from two columns, and that the fits of a run and its bundle use them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import optuna
import polars as pl
import pytest
from tabapp_plugins.lightgbm_model import DERIVED_ROWS, LightGBM, LightGBMParams

import tabapp
from tabapp.cli.main import run_command_line
from tabapp.engine.fit import recipe_id
from tabapp.metrics import Task
from tabapp.models.contract import Shape

SMALL, LARGE = Shape(2_000, 8, 2, 3), Shape(30_000, 8, 2, 3)


def tries(task: Task, shape: Shape) -> set[bool]:
    """The values of `derived_features` in the portfolio and in draws from the search space, which agree."""
    plugin, study = LightGBM(), optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    portfolio = {params.derived_features for params in plugin.portfolio(task, shape, "cpu")}
    drawn = {plugin.search_space(study.ask(), task, shape, "cpu").derived_features for _ in range(20)}
    assert portfolio == drawn
    assert not plugin.defaults(task, shape, "cpu").derived_features
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
    derived = msgspec.structs.replace(plain, derived_features=True)
    assert plugin.features_for(plain) == plugin.features()
    assert recipe_id(plugin.features_for(derived)) == f"{recipe_id(plugin.features())}-derived"
    costs = [plugin.cost("regression", SMALL, params, "cpu") for params in (plain, derived)]
    assert costs[0].seconds < costs[1].seconds
    assert costs[0].n_bytes < costs[1].n_bytes


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
        "lightgbm",
        "--trials",
        "2",
        "--folds",
        "2",
    ]
    arguments += ["--runs-dir", str(tmp_path), "--out", str(tmp_path / "b.tabapp"), "--quiet"]
    assert run_command_line(arguments) == 0
    (features,) = tmp_path.glob("*/features")
    plain, derived = (LightGBM().features_for(LightGBMParams(derived_features=each)) for each in (False, True))
    names = {
        f"{recipe_id(msgspec.structs.replace(each, target_encoding=False))}-f{fold}"
        for each in (plain, derived)
        for fold in (0, 1)
    }
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
