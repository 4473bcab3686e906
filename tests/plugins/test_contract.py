"""What every model must do, whatever it is: `tabapp.models.contract` held against ours."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import optuna
import pytest

from tabapp import metrics
from tabapp.features.arrays import MISSING, UNSEEN, Table
from tabapp.metrics import Task
from tabapp.models import registry
from tabapp.models.contract import FitStopped, Plugin
from tests.plugins.tables import defaults_of, make_context, make_table, shape_of

NAMES = (
    "xgboost", "catboost", "lightgbm", "mlp", "resnet", "ft_transformer", "tabm", "linear", "random_forest", "extra_trees",
    "hist_gradient_boosting", "k_neighbors", "snn", "dcn_v2", "autoint",
    "tab_transformer",
)  # fmt: skip
WITHOUT_CHANCE = ("linear", "hist_gradient_boosting", "k_neighbors")
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


@pytest.fixture(params=NAMES)
def plugin(request: pytest.FixtureRequest) -> Plugin:
    return registry.get(request.param)


def fit(plugin: Plugin, task: Task, table: Table, spec, n_classes, folder: Path, valid: Table | None = None, **context):
    n_train = len(table) * 3 // 4
    train, held_out = table.take(slice(0, n_train)), table.take(slice(n_train, None))
    params = defaults_of(plugin, task, table, spec, n_classes)
    if valid is not None:
        train, held_out = table, valid
    return plugin.fit(train, held_out, params, make_context(task, spec, n_classes, folder, **context))


def check_predictions(prediction: np.ndarray, task: Task, n_rows: int, n_classes: int) -> None:
    assert prediction.dtype == np.float32
    assert np.isfinite(prediction).all()
    if task == "regression":
        assert prediction.shape == (n_rows,)
    else:
        assert prediction.shape == (n_rows, n_classes)
        assert prediction.min() >= 0
        np.testing.assert_allclose(prediction.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_learns_saves_and_loads_bit_equal(plugin: Plugin, task: Task, tmp_path: Path) -> None:
    table, spec, n_classes = make_table(task, n_rows=400)
    reports: list[tuple[int, float]] = []
    model = fit(plugin, task, table, spec, n_classes, tmp_path, on_report=lambda *r: reports.append(r))
    test, _, _ = make_table(task, n_rows=300, seed=1)
    prediction = model.predict(test)
    check_predictions(prediction, task, 300, n_classes)
    constant = np.full(300, test.target.mean()) if task == "regression" else np.full((300, n_classes), 1 / n_classes)
    name = "rmse" if task == "regression" else "log_loss"
    assert metrics.loss(name, test.target, prediction) < 0.97 * metrics.loss(name, test.target, constant)
    assert reports
    assert all(math.isfinite(value) for _, value in reports)

    saved = tmp_path / "model"
    saved.mkdir()
    model.save(saved)
    assert {path.suffix for path in saved.iterdir()} <= {".json", ".safetensors", ".ubj", ".txt", ".cbm"}
    loaded = plugin.load(saved)
    np.testing.assert_array_equal(loaded.predict(test), prediction)
    assert loaded.summary() == model.summary()


def test_same_seed_gives_the_same_model(plugin: Plugin, tmp_path: Path) -> None:
    table, spec, n_classes = make_table("binary")
    first, second, other = (
        fit(plugin, "binary", table, spec, n_classes, tmp_path, seed=seed).predict(table) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, second)
    assert np.array_equal(first, other) == (plugin.name in WITHOUT_CHANCE)


def test_rows_are_predicted_independently(plugin: Plugin, tmp_path: Path) -> None:
    table, spec, n_classes = make_table("regression")
    model = fit(plugin, "regression", table, spec, n_classes, tmp_path)
    together = model.predict(table.take(slice(0, 10)))
    alone = np.concatenate([model.predict(table.take(slice(i, i + 1))) for i in range(10)])
    np.testing.assert_allclose(together, alone, rtol=1e-5)


def test_unseen_and_missing_levels_are_finite(plugin: Plugin, tmp_path: Path) -> None:
    table, spec, n_classes = make_table("multiclass")
    model = fit(plugin, "multiclass", table, spec, n_classes, tmp_path)
    for code in (UNSEEN, MISSING):
        odd = Table(table.numeric, np.full_like(table.categorical, code))
        check_predictions(model.predict(odd), "multiclass", len(table), n_classes)


@pytest.mark.parametrize("name", [name for name in NAMES if registry.get(name).features().numeric == "raw"])
def test_takes_missing_numbers(name: str, tmp_path: Path) -> None:
    table, spec, n_classes = make_table("binary")
    table.numeric[::3] = np.nan
    table.numeric[:, 3] = np.nan
    plugin = registry.get(name)
    model = fit(plugin, "binary", table, spec, n_classes, tmp_path)
    check_predictions(model.predict(table), "binary", len(table), 2)


@pytest.mark.parametrize(("n_numeric", "cardinalities"), [(3, ()), (0, (6, 4)), (1, (300,))])
def test_one_kind_of_column(plugin: Plugin, n_numeric: int, cardinalities: tuple[int, ...], tmp_path: Path) -> None:
    table, spec, n_classes = make_table("binary", n_numeric=n_numeric, cardinalities=cardinalities)
    model = fit(plugin, "binary", table, spec, n_classes, tmp_path)
    check_predictions(model.predict(table), "binary", len(table), 2)


@pytest.mark.parametrize("task", TASKS)
def test_constant_columns_and_constant_target(plugin: Plugin, task: Task, tmp_path: Path) -> None:
    table, spec, n_classes = make_table(task)
    flat = Table(np.zeros_like(table.numeric), np.full_like(table.categorical, 2), table.target)
    check_predictions(fit(plugin, task, flat, spec, n_classes, tmp_path).predict(flat), task, len(flat), n_classes)
    one_value = Table(table.numeric, table.categorical, np.full_like(table.target, table.target[0]))
    model = fit(plugin, task, one_value, spec, n_classes, tmp_path)
    prediction = model.predict(table)
    check_predictions(prediction, task, len(table), n_classes)
    if task == "regression":
        np.testing.assert_allclose(prediction, table.target[0], rtol=1e-6)
    else:
        assert (prediction.argmax(axis=1) == table.target[0]).all()
    saved = tmp_path / "model"
    saved.mkdir()
    model.save(saved)
    np.testing.assert_array_equal(plugin.load(saved).predict(table), prediction)


@pytest.mark.parametrize("missing_class", [0, 1, 3])
def test_a_class_that_training_lacks(plugin: Plugin, missing_class: int, tmp_path: Path) -> None:
    table, spec, n_classes = make_table("multiclass", n_classes=4)
    train, valid = table.take(table.target != missing_class), table.take(slice(0, 60))
    model = fit(plugin, "multiclass", train, spec, n_classes, tmp_path, valid=valid)
    prediction = model.predict(table)
    check_predictions(prediction, "multiclass", len(table), 4)
    assert prediction[:, missing_class].mean() < 0.2


@pytest.mark.parametrize("task", TASKS)
def test_few_rows(plugin: Plugin, task: Task, tmp_path: Path) -> None:
    table, spec, n_classes = make_table(task, n_rows=20)
    model = fit(plugin, task, table, spec, n_classes, tmp_path)
    check_predictions(model.predict(table), task, 20, n_classes)


def test_an_undefined_metric_on_the_early_stopping_rows(plugin: Plugin, tmp_path: Path) -> None:
    table, spec, n_classes = make_table("binary")
    one_class = table.take(table.target == 1).take(slice(0, 30))
    model = fit(plugin, "binary", table, spec, n_classes, tmp_path, valid=one_class)
    check_predictions(model.predict(table), "binary", len(table), 2)


@pytest.mark.parametrize("task", TASKS)
def test_a_deadline_in_the_past_still_gives_a_model(plugin: Plugin, task: Task, tmp_path: Path) -> None:
    table, spec, n_classes = make_table(task, n_rows=2000)
    started = time.monotonic()
    model = fit(plugin, task, table, spec, n_classes, tmp_path, soft_deadline=started - 1)
    assert time.monotonic() - started < 5
    check_predictions(model.predict(table), task, len(table), n_classes)
    assert np.ptp(model.predict(table)) > 0


def test_fit_stopped_passes(plugin: Plugin, tmp_path: Path) -> None:
    table, spec, n_classes = make_table("binary")

    def stop(step: int, value: float) -> None:
        raise FitStopped

    with pytest.raises(FitStopped):
        fit(plugin, "binary", table, spec, n_classes, tmp_path, on_report=stop)


def test_weights_count(plugin: Plugin, tmp_path: Path) -> None:
    table, spec, n_classes = make_table("regression", n_numeric=1, cardinalities=(3,))
    generator = np.random.default_rng(0)
    heavy = generator.random(len(table)) < 0.5
    target = np.where(heavy, 10.0, -10.0)
    weight = np.where(heavy, 1.0, 1e-3).astype(np.float32)
    weighted = Table(np.zeros_like(table.numeric), np.full_like(table.categorical, 2), target, weight)
    params_free = fit(plugin, "regression", weighted, spec, n_classes, tmp_path).predict(weighted)
    plain = Table(weighted.numeric, weighted.categorical, target)
    unweighted = fit(plugin, "regression", plain, spec, n_classes, tmp_path).predict(plain)
    assert params_free.mean() > unweighted.mean() + 2


@pytest.mark.parametrize("metric", ["accuracy", "f1", "average_precision", "brier", "balanced_accuracy", "log_loss"])
def test_any_metric_of_the_task(plugin: Plugin, metric: str, tmp_path: Path) -> None:
    table, spec, n_classes = make_table("binary")
    model = fit(plugin, "binary", table, spec, n_classes, tmp_path, metric=metric)
    check_predictions(model.predict(table), "binary", len(table), 2)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n_rows", [300, 200_000])
def test_search_space_draws_valid_parameters(plugin: Plugin, task: Task, n_rows: int) -> None:
    table, spec, n_classes = make_table(task)
    shape = shape_of(table, spec, n_classes)
    shape = type(shape)(n_rows, shape.n_numeric, shape.n_categorical, shape.n_classes)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        params = plugin.search_space(study.ask(), task, shape, "cpu")
        assert isinstance(params, plugin.params_type)
        cost = plugin.cost(task, shape, params, "cpu")
        assert cost.seconds > 0
        assert cost.n_bytes > 0


def test_says_why_it_sits_out(plugin: Plugin) -> None:
    table, spec, n_classes = make_table("binary")
    shape = shape_of(table, spec, n_classes)
    assert plugin.supports("binary", shape) is None
    reason = plugin.supports("binary", type(shape)(shape.n_rows, 0, 0, 2))
    assert reason
    assert reason.endswith(".")


def test_boosters_are_listed_without_importing_their_libraries() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from tabapp.models import registry\n"
        "for name in ('xgboost', 'catboost', 'lightgbm'): registry.get(name)\n"
        "print([m for m in ('xgboost', 'catboost', 'lightgbm', 'torch', 'optuna', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
