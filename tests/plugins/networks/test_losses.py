"""Boosters with the Poisson deviance: where it is tried, what it predicts, and what is stored of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import optuna
import pytest
from tabapp_plugins._shared.boosting import BoostingPlugin, GradientBoostingParams
from tabapp_plugins.trees.catboost_model import CatBoost
from tabapp_plugins.trees.hist_gradient_boosting import HistGradientBoosting
from tabapp_plugins.trees.lightgbm_model import LightGBM
from tabapp_plugins.trees.xgboost_model import XGBoost

from tabapp.bundle.prediction.load import load_bundle
from tabapp.data.schema import Column, Schema
from tabapp.engine.plan.make_plan import approximate_shape
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models.contract import FitContext, FittedModel, Shape
from tests.bundle.portable import POISSON, make_bundle, new_rows

PLUGINS = [LightGBM(), XGBoost(), CatBoost(), HistGradientBoosting()]
SPEC = FeatureSpec(numeric=("a", "b"), categorical=("c",), cardinalities=(5,), sources=("a", "b", "c"))
N_ROWS = 900


def counts(offset: float = 0.0) -> Table:
    """Rows whose targets are Poisson variables with means from 0.5 to 60, plus an offset."""
    generator = np.random.default_rng(0)
    numeric = generator.uniform(-1, 1, (N_ROWS, 2)).astype(np.float32)
    numeric[::9, 1] = np.nan
    codes = generator.integers(1, 5, (N_ROWS, 1)).astype(np.int32)
    means = np.exp(1.5 + numeric[:, 0] + np.nan_to_num(numeric[:, 1]) + 0.2 * codes[:, 0])
    return Table(numeric=numeric, categorical=codes, target=generator.poisson(means) + offset)


def fitted(
    plugin: BoostingPlugin, loss: str, folder: Path, rows: Table | None = None, metric: str = "rmse"
) -> FittedModel:
    rows = counts() if rows is None else rows
    context = FitContext("regression", 1, metric, SPEC, seed=0, device="cpu", n_threads=1, folder=folder)
    params = plugin.params_type(loss=loss, n_trees=600)
    return plugin.fit(rows.take(slice(0, 700)), rows.take(slice(700, N_ROWS)), params, context)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_it_predicts_conditional_means(plugin: BoostingPlugin, tmp_path: Path) -> None:
    model, rows = fitted(plugin, "poisson", tmp_path), counts()
    predicted, target = model.predict(rows), np.asarray(rows.target)
    assert predicted.min() > 0
    for part in np.array_split(np.argsort(predicted), 4):
        assert predicted[part].mean() == pytest.approx(target[part].mean(), rel=0.2)
    assert not np.allclose(predicted, fitted(plugin, "squared_error", tmp_path).predict(rows), rtol=1e-3)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_a_stored_model_and_its_formula_predict_the_same(plugin: BoostingPlugin, tmp_path: Path) -> None:
    model, rows = fitted(plugin, "poisson", tmp_path), counts().take(slice(0, 60))
    model.save(tmp_path)
    np.testing.assert_array_equal(plugin.load(tmp_path).predict(rows), model.predict(rows))
    formula = model.formula(SPEC)
    assert formula is not None
    assert formula.head.link == "exponential"
    np.testing.assert_allclose(formula.predict(rows), model.predict(rows), rtol=1e-4)


@pytest.mark.parametrize("plugin", PLUGINS[:3], ids=lambda plugin: plugin.name)
def test_contributions_sum_up_to_the_logarithm_of_the_prediction(plugin: BoostingPlugin, tmp_path: Path) -> None:
    model, rows = fitted(plugin, "poisson", tmp_path), counts().take(slice(0, 60))
    found = model.contributions(rows, 0)
    assert found is not None
    assert found.unit == "log-target"
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), np.log(model.predict(rows)), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
@pytest.mark.parametrize(("offset", "metric"), [(-1.0, "rmse"), (0.0, "mae")])
def test_negative_targets_and_other_metrics_have_their_usual_loss(
    plugin: BoostingPlugin, offset: float, metric: str, tmp_path: Path
) -> None:
    rows = counts(offset)
    poisson, usual = (
        fitted(plugin, loss, tmp_path, rows, metric).predict(rows) for loss in ("poisson", "squared_error")
    )
    np.testing.assert_array_equal(poisson, usual)


def test_a_bundle_explains_the_logarithm_and_not_the_target(tmp_path: Path) -> None:
    predictor = load_bundle(make_bundle(tmp_path, "regression", ["lightgbm"], changes=POISSON)).predictor
    rows = predictor.typed_rows(new_rows("regression"))[0]
    found = predictor.decompose(rows, "lightgbm", 0)
    assert found is not None
    assert found.unit == "log-target"
    # The bundle averages the predictions of two folds, and the explanation their logarithms, which are close.
    total = found.base + sum(found.columns.values())
    np.testing.assert_allclose(total, np.log(predictor.predict_typed(rows)), atol=0.01)
    assert predictor.decompose_exactly(rows) is None


def losses(plugin: BoostingPlugin, shape: Shape) -> list[str]:
    """The losses of the defaults and of the portfolio."""
    tried = [plugin.defaults("regression", shape, "cpu"), *plugin.portfolio("regression", shape, "cpu")]
    assert len({msgspec.json.encode(params) for params in tried}) == len(tried)
    return [params.loss for params in tried if isinstance(params, GradientBoostingParams)]


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_it_is_tried_second_on_small_tables_with_a_skewed_target_and_first_on_others(plugin: BoostingPlugin) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for n_rows, first in ((600, "squared_error"), (1_000, "poisson"), (30_000, "poisson")):
        found = losses(plugin, Shape(n_rows, 8, 2, 1, target_ratio=4.0))
        assert found[0] == first
        assert {*found[:2]} == {"squared_error", "poisson"}
        even, skewed = (Shape(n_rows, 8, 2, 1, target_ratio=ratio) for ratio in (3.9, 4.0))
        assert {*losses(plugin, even)} == {"squared_error"}
        drawn = {
            shape.target_ratio: {plugin.search_space(study.ask(), "regression", shape, "cpu").loss for _ in range(20)}
            for shape in (even, skewed)
        }
        assert drawn == {3.9: {"squared_error"}, 4.0: {"squared_error", "poisson"}}


def schema(low: float, high: float, histogram: tuple[int, ...]) -> Schema:
    columns = (
        Column(name="x", kind="numeric", reason="numbers"),
        Column(name="y", kind="numeric", role="target", reason="numbers", low=low, high=high, histogram=histogram),
    )
    return Schema(columns=columns, target="y", target_reason="", task="regression", task_reason="", rows=3_000)


def test_the_ratio_of_the_largest_target_to_the_median_is_estimated_from_the_histogram() -> None:
    assert schema(0.0, 100.0, (50, 30, 20, 0, 0, 0, 0, 0, 0, 0)).target_ratio == pytest.approx(10.0)
    assert schema(10.0, 20.0, (1,) * 10).target_ratio == pytest.approx(20 / 15)
    assert schema(-1.0, 100.0, (50, 30, 20)).target_ratio == 0.0
    assert schema(0.0, 0.0, ()).target_ratio == 0.0


def test_the_metric_decides_whether_the_ratio_counts() -> None:
    skewed = schema(0.0, 100.0, (50, 30, 20, 0, 0, 0, 0, 0, 0, 0))
    ratios = {metric: approximate_shape(skewed, 1, metric=metric).target_ratio for metric in ("rmse", "r2", "mae")}
    assert ratios == {"rmse": pytest.approx(10.0), "r2": pytest.approx(10.0), "mae": 0.0}
