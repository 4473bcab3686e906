"""Boosters keep to monotonic constraints, on data whose noise makes free models break them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import optuna
import pytest

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, Params, Shape
from tabapp.task import Task

SPEC = FeatureSpec(
    numeric=("age", "income", "size", "size missing"),
    categorical=("color",),
    cardinalities=(5,),
    sources=("age", "income", "size", "size", "color"),
)
BOOSTERS = ["lightgbm", "xgboost", "catboost", "hist_gradient_boosting"]
N_ROWS = 400


def noisy_rows(task: Task) -> Table:
    generator = np.random.default_rng(0)
    numeric = generator.uniform(-1, 1, (N_ROWS, 4)).astype(np.float32)
    numeric[::7, 2] = np.nan
    numeric[:, 3] = np.isnan(numeric[:, 2])
    codes = generator.integers(1, 5, (N_ROWS, 1)).astype(np.int32)
    signal = numeric[:, 0] - numeric[:, 1] + 0.3 * codes[:, 0] + generator.normal(0, 1.5, N_ROWS)
    target = signal.astype(np.float64) if task == "regression" else (signal > np.median(signal)).astype(np.int64)
    return Table(numeric=numeric, categorical=codes, target=target)


def predicted(name: str, task: Task, folder: Path, params: Params, monotonic: dict[str, int]) -> np.ndarray:
    """(rows, steps, 3) predictions of some rows while one of the numeric columns takes increasing values."""
    plugin, rows = registry.get(name), noisy_rows(task)
    context = FitContext(
        task, 1 if task == "regression" else 2, "rmse" if task == "regression" else "log_loss", SPEC, seed=0, device="cpu",
        n_threads=1, folder=folder,
    )  # fmt: skip
    params = msgspec.structs.replace(params, monotonic=monotonic)
    model = plugin.fit(rows.take(slice(0, 320)), rows.take(slice(320, N_ROWS)), params, context)
    steps, n_rows = np.linspace(-1.2, 1.2, 60, dtype=np.float32), 40
    varied = rows.take(np.repeat(np.arange(n_rows), len(steps)))
    found: list[np.ndarray] = []
    for column in range(3):
        numeric = varied.numeric.copy()
        numeric[:, column] = np.tile(steps, n_rows)
        prediction = model.predict(replace(varied, numeric=numeric, target=None))
        found.append((prediction if task == "regression" else prediction[:, 1]).reshape(n_rows, len(steps)))
    return np.stack(found, axis=2)


@pytest.mark.parametrize("task", ["regression", "binary"])
@pytest.mark.parametrize("name", BOOSTERS)
def test_predictions_rise_or_fall_with_a_constrained_column(name: str, task: Task, tmp_path: Path) -> None:
    plugin, shape = registry.get(name), Shape(N_ROWS, 4, 1, 1 if task == "regression" else 2, n_monotonic=2)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    drawn = [plugin.search_space(study.ask(), task, shape, "cpu") for _ in range(4)]
    tried = [plugin.defaults(task, shape, "cpu"), *plugin.portfolio(task, shape, "cpu"), *drawn]
    shorter = [msgspec.structs.replace(params, n_trees=60, learning_rate=0.1) for params in tried]
    for short in shorter:
        constrained = np.diff(predicted(name, task, tmp_path, short, {"age": 1, "income": -1, "size": 0}), axis=1)
        assert constrained[:, :, 0].min() >= -1e-6, short
        assert constrained[:, :, 1].max() <= 1e-6, short
        assert constrained[:, :, 0].max() > 1e-3
    free = np.diff(predicted(name, task, tmp_path, shorter[0], {}), axis=1)
    assert free[:, :, 0].min() < -1e-3


def test_constraints_are_on_values_and_not_on_indicators() -> None:
    assert SPEC.directions({"size": -1, "income": 1}) == [0, 1, -1, 0, 0]
    assert SPEC.directions(None) == [0] * 5


def test_features_made_from_two_columns_are_not_tried_beside_a_constraint() -> None:
    shape = Shape(5_000, 8, 2, 1, n_monotonic=1)
    for name in BOOSTERS:
        plugin = registry.get(name)
        tried = [plugin.defaults("regression", shape, "cpu"), *plugin.portfolio("regression", shape, "cpu")]
        assert not any(plugin.features_for(params).derived for params in tried)
