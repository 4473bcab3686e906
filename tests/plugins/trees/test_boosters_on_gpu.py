"""Boosters on a GPU: which tables go there, with which hyperparameters, and what happens where the GPU fails."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import catboost
import msgspec
import numpy as np
import optuna
import pytest
from tabapp_plugins._shared.catboost_gpu import PILOT_TREES, USED_SHARE, Stamps, gpu_settings, grown_in_time
from tabapp_plugins.trees import catboost_model, xgboost_model
from tabapp_plugins.trees.catboost_model import CatBoostParams

from tabapp import metrics
from tabapp.features.arrays import MISSING, FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.checks.subject import split_for_early_stopping
from tabapp.models.contract import FitContext, FitStopped, FittedModel, Params, Shape
from tabapp.task import Task
from tests.plugins.tables import make_context, make_table, shape_of

GPU = "cuda:0"
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
CLASSES = {"binary": 2, "multiclass": 3, "regression": 1}


def rows_with_gaps(task: Task, n_rows: int = 4_000) -> tuple[Table, Table, FeatureSpec, int]:
    """Training and other rows with categories, missing cells and weights."""
    table, spec, n_classes = make_table(task, n_rows=n_rows, cardinalities=(5, 80))
    generator = np.random.default_rng(1)
    table.numeric[generator.random(table.numeric.shape) < 0.1] = np.nan
    table.categorical[generator.random(table.categorical.shape) < 0.05] = MISSING
    weighted = replace(table, weight=generator.uniform(0.5, 2.0, n_rows).astype(np.float32))
    return *split_for_early_stopping(weighted), spec, n_classes


def context_on(device: str, task: Task, spec: FeatureSpec, n_classes: int, folder: Path, **changes: Any) -> FitContext:
    folder.mkdir(parents=True, exist_ok=True)
    context = make_context(task, spec, n_classes, folder, **changes)
    context.device = device
    return context


def quick(name: str, task: Task, train: Table, spec: FeatureSpec, n_classes: int, **changes: Any) -> Params:
    defaults = registry.get(name).defaults(task, shape_of(train, spec, n_classes), GPU)
    return msgspec.structs.replace(defaults, **{"n_trees": 120, "patience": 30, "refit": False, **changes})


def saved_and_loaded(name: str, model: FittedModel, folder: Path) -> FittedModel:
    folder.mkdir()
    model.save(folder)
    return registry.get(name).load(folder)


@pytest.mark.parametrize("name", ["xgboost", "catboost"])
def test_large_tables_go_to_the_gpu_of_the_run(name: str) -> None:
    plugin = registry.get(name)
    small, large = Shape(5_000, 10, 0, 2), Shape(500_000, 40, 10, 2)
    assert plugin.device_for("binary", small, GPU) == "cpu"
    assert plugin.device_for("binary", large, GPU) == GPU
    params = [plugin.defaults("binary", large, device) for device in ("cpu", GPU)]
    on_cpu, on_gpu = (
        plugin.cost("binary", large, each, device) for each, device in zip(params, ("cpu", GPU), strict=True)
    )
    assert 0 < on_gpu.seconds < on_cpu.seconds / 3
    assert on_gpu.n_bytes > 0


def test_models_without_cuda_stay_on_the_cpu() -> None:
    large = Shape(10_000_000, 100, 0, 2)
    for name in ("lightgbm", "hist_gradient_boosting", "random_forest", "linear"):
        assert registry.get(name).device_for("binary", large, GPU) == "cpu"
    # CatBoost has no monotonic constraints on a GPU; XGBoost has.
    constrained = replace(large, n_monotonic=1)
    assert registry.get("catboost").device_for("binary", constrained, GPU) == "cpu"
    assert registry.get("xgboost").device_for("binary", constrained, GPU) == GPU


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n_rows", [1_000, 100_000])
def test_catboost_is_tuned_on_a_gpu_with_what_it_has_there(task: Task, n_rows: int, tmp_path: Path) -> None:
    plugin, shape = registry.get("catboost"), Shape(n_rows, 40, 10, CLASSES[task])
    _, spec, n_classes = make_table(task)
    context = context_on(GPU, task, spec, n_classes, tmp_path)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [plugin.search_space(study.ask(), task, shape, GPU) for _ in range(20)]
    for params in (plugin.defaults(task, shape, GPU), *plugin.portfolio(task, shape, GPU), *drawn):
        assert plugin.only_on_cpu(params, context) is None
    lacking = [{"colsample_bylevel": 0.9}, {"one_hot_max_size": 256}, {"monotonic": {"x0": 1}}]
    for changes in lacking:
        assert "CPU only" in plugin.only_on_cpu(msgspec.structs.replace(drawn[0], **changes), context)
    sampled = msgspec.structs.replace(drawn[0], bootstrap_type="MVS")
    assert (plugin.only_on_cpu(sampled, context) is None) == (task != "multiclass")


@pytest.mark.parametrize("metric", ["rmse", "mae"])
def test_catboost_accepts_its_options_for_a_gpu(metric: str, tmp_path: Path) -> None:
    train, valid, spec, n_classes = rows_with_gaps("regression", 400)
    plugin = registry.get("catboost")
    for params in (CatBoostParams(), CatBoostParams(grow_policy="Depthwise", bootstrap_type="Bayesian", depth=4)):
        context = context_on(GPU, "regression", spec, n_classes, tmp_path / params.grow_policy, metric=metric)
        summary = plugin.fit(train, valid, msgspec.structs.replace(params, n_trees=5), context).summary()
        # Without a GPU, it fails only once the library has checked the options.
        assert summary["device"] == GPU or "catboost/cuda/" in summary["not on the GPU"]


@pytest.mark.parametrize("name", ["xgboost", "catboost"])
def test_a_fit_that_fails_on_the_gpu_is_that_of_the_cpu(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = registry.get(name)
    train, valid, spec, n_classes = rows_with_gaps("binary", 400)
    params = quick(name, "binary", train, spec, n_classes, n_trees=20)
    grow = type(plugin).grow

    def without_memory(self: Any, *arguments: Any) -> Any:
        if arguments[-1].device != "cpu":
            raise RuntimeError("out of\nmemory")
        return grow(self, *arguments)

    monkeypatch.setattr(type(plugin), "grow", without_memory)
    contexts = [context_on(device, "binary", spec, n_classes, tmp_path / device) for device in ("cpu", GPU)]
    on_cpu, on_gpu = (plugin.fit(train, valid, params, context) for context in contexts)
    np.testing.assert_array_equal(on_gpu.predict(valid), on_cpu.predict(valid))
    assert "device" not in on_cpu.summary()
    assert on_gpu.summary() == on_cpu.summary() | {"device": "cpu", "not on the GPU": "RuntimeError: out of memory"}
    again = plugin.refit(train, params, [on_gpu.summary()], contexts[1])
    assert again is not None
    assert again.summary()["device"] == "cpu"


def test_a_canceled_fit_on_the_gpu_is_not_repeated_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin, devices = registry.get("xgboost"), []
    train, valid, spec, n_classes = rows_with_gaps("binary", 400)

    def canceled(self: Any, *arguments: Any) -> Any:
        devices.append(arguments[-1].device)
        raise FitStopped

    monkeypatch.setattr(type(plugin), "grow", canceled)
    with pytest.raises(FitStopped):
        plugin.fit(
            train,
            valid,
            quick("xgboost", "binary", train, spec, n_classes),
            context_on(GPU, "binary", spec, n_classes, tmp_path),
        )
    assert devices == [GPU]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("task", TASKS)
def test_xgboost_from_a_gpu_predicts_with_the_bits_of_the_loaded_model(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a GPU, XGBoost trains on the CPU, and then does what follows a training on a GPU.
    monkeypatch.setattr(xgboost_model, "device_of", lambda booster: GPU)
    plugin = registry.get("xgboost")
    train, valid, spec, n_classes = rows_with_gaps(task, 400)
    model = plugin.fit(
        train, valid, quick("xgboost", task, train, spec, n_classes), context_on(GPU, task, spec, n_classes, tmp_path)
    )
    assert model.summary()["device"] == GPU
    assert model.booster.num_boosted_rounds() == model.summary()["trees"]
    loaded = saved_and_loaded("xgboost", model, tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(valid), model.predict(valid))


@pytest.fixture
def without_gpu_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets CatBoost train on the CPU as it does on a GPU: without callbacks."""

    def on_cpu(*arguments: Any) -> dict[str, Any]:
        found = gpu_settings(*arguments)
        return {name: value for name, value in found.items() if name not in ("task_type", "devices", "gpu_ram_part")}

    monkeypatch.setattr(catboost_model, "gpu_settings", on_cpu)


@pytest.mark.usefixtures("without_gpu_options")
@pytest.mark.parametrize(("task", "metric"), [*((task, None) for task in TASKS), ("regression", "mae")])
def test_catboost_without_callbacks_is_the_same_model(task: Task, metric: str | None, tmp_path: Path) -> None:
    train, valid, spec, n_classes = rows_with_gaps(task, 600)
    plugin, changes = registry.get("catboost"), {} if metric is None else {"metric": metric}
    params = quick("catboost", task, train, spec, n_classes, learning_rate=0.3, patience=10, refit=True)
    models = [
        plugin.fit(train, valid, params, context_on(device, task, spec, n_classes, tmp_path / device, **changes))
        for device in ("cpu", GPU)
    ]
    assert models[1].summary() == models[0].summary() | {"device": GPU}
    assert models[0].summary()["trees"] < 110
    np.testing.assert_array_equal(models[1].predict(valid), models[0].predict(valid))


@pytest.mark.usefixtures("without_gpu_options")
def test_catboost_without_callbacks_keeps_the_deadline(tmp_path: Path) -> None:
    train, valid, spec, n_classes = rows_with_gaps("binary", 2_000)
    params = quick("catboost", "binary", train, spec, n_classes, n_trees=100_000, patience=100_000, refit=True)
    context = context_on(GPU, "binary", spec, n_classes, tmp_path)
    context.soft_deadline = time.monotonic() + 4
    model = registry.get("catboost").fit(train, valid, msgspec.structs.replace(params, learning_rate=1e-4), context)
    assert model.summary()["device"] == GPU
    assert PILOT_TREES <= model.summary()["trees"] < 100_000
    assert context.seconds_left() > -8


def test_each_tree_of_catboost_has_a_stamp() -> None:
    x = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    stamps, started = Stamps(), time.monotonic()
    settings = {"iterations": 12, "loss_function": "RMSE", "logging_level": "Verbose", "allow_writing_files": False}
    booster = catboost.CatBoost(settings | {"thread_count": 1})
    booster.fit(catboost.Pool(x, x[:, 0]), log_cout=stamps, log_cerr=stamps)
    assert len(stamps.seconds) == 12
    assert started <= stamps.seconds[0]
    assert sorted(stamps.seconds) == stamps.seconds


def test_trees_are_planned_by_the_rate_of_a_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 8.0)
    stamps = Stamps()
    # Without a log, four trees in eight seconds.
    assert stamps.trees_in(100.0, started=0.0, n_trees=4) == 51
    # Five seconds of preparation, then a tree in each half of a second.
    stamps.seconds = [5.0, 5.5, 6.0, 6.5]
    assert stamps.trees_in(15.0, started=0.0, n_trees=4) == 21
    assert stamps.trees_in(5.0, started=0.0, n_trees=4) == 1
    assert stamps.trees_in(-3.0, started=0.0, n_trees=4) == 1


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[int, float | None], list[int]]:
    """The numbers of trees of the fits for a limit in seconds, on a clock that only trees advance: a second to prepare, and a
    tenth for each tree."""

    def of(n_trees: int, seconds: float | None) -> list[int]:
        now, grown = [100.0], []
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        _, spec, n_classes = make_table("binary")
        context = context_on(GPU, "binary", spec, n_classes, tmp_path)
        context.soft_deadline = None if seconds is None else now[0] + seconds

        def grow(n: int, log: Stamps | None) -> int:
            grown.append(n)
            now[0] += 0.9
            for tree in range(n):
                now[0] += 0.1
                if log is not None:
                    log.write(f"{tree}:\tlearn: 0.5\n")
            if log is not None:
                log.write("bestTest = 0.5\n")
            return n

        assert grown_in_time(grow, n_trees, context) == grown[-1]
        assert seconds is None or seconds < 5 or now[0] <= 100 + seconds
        return grown

    return of


def test_catboost_keeps_the_deadline_by_growing_fewer_trees(planned: Callable[[int, float | None], list[int]]) -> None:
    assert planned(1_000, None) == [1_000]
    assert planned(1_000, 1e4) == [PILOT_TREES, 1_000]
    pilot, fewer = planned(1_000, 53.0)
    # 50.1 seconds are left after the pilot.
    assert (pilot, fewer) == (PILOT_TREES, 1 + math.floor((USED_SHARE * 50.1 - 1) / 0.1 + 1e-6))
    assert planned(1_000, 4.0) == [PILOT_TREES]
    assert planned(1_000, -1.0) == [1]
    assert planned(5, 1e4) == [5]


@pytest.mark.gpu
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["xgboost", "catboost"])
def test_a_booster_learns_on_a_gpu_as_on_the_cpu(name: str, task: Task, tmp_path: Path) -> None:
    train, valid, spec, n_classes = rows_with_gaps(task)
    assert valid.target is not None
    params = quick(name, task, train, spec, n_classes)
    plugin, metric = registry.get(name), "rmse" if task == "regression" else "log_loss"
    scores: dict[str, list[float]] = {GPU: [], "cpu": []}
    for device, found in scores.items():
        for seed in range(3):
            folder = tmp_path / f"{device}-{seed}"
            context = context_on(device, task, spec, n_classes, folder, seed=seed, metric=metric)
            model = plugin.fit(train, valid, params, context)
            assert model.summary().get("device", "cpu") == device, model.summary()
            predicted = model.predict(valid)
            loaded = saved_and_loaded(name, model, folder / "model")
            np.testing.assert_array_equal(loaded.predict(valid), predicted)
            found.append(metrics.score(metric, valid.target, predicted, valid.weight))
    on_gpu, on_cpu = np.array(scores[GPU]), np.array(scores["cpu"])
    assert abs(on_gpu.mean() - on_cpu.mean()) <= 3 * max(on_cpu.std(), on_gpu.std()) + 0.05 * abs(on_cpu.mean())


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["xgboost", "catboost"])
def test_a_booster_is_trained_again_on_a_gpu(name: str, tmp_path: Path) -> None:
    train, valid, spec, n_classes = rows_with_gaps("binary")
    params = quick(name, "binary", train, spec, n_classes, refit=True)
    context = context_on(GPU, "binary", spec, n_classes, tmp_path)
    model = registry.get(name).fit(train, valid, params, context)
    again = registry.get(name).refit(train, params, [model.summary()], context)
    assert again is not None
    assert again.summary() == model.summary()
    assert again.summary()["device"] == GPU
    assert again.summary()["refit"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["xgboost", "catboost"])
@pytest.mark.parametrize("seconds", [-1.0, 4.0])
def test_a_booster_keeps_its_deadline_on_a_gpu(name: str, seconds: float, tmp_path: Path) -> None:
    train, valid, spec, n_classes = rows_with_gaps("binary", 200_000)
    params = quick(name, "binary", train, spec, n_classes, n_trees=100_000, patience=100_000, learning_rate=1e-4)
    context = context_on(GPU, "binary", spec, n_classes, tmp_path)
    started = time.monotonic()
    context.soft_deadline = started + seconds
    model = registry.get(name).fit(train, valid, params, context)
    assert time.monotonic() - started < max(0.0, seconds) + 5
    assert model.summary()["device"] == GPU
    assert 1 <= model.summary()["trees"] < 100_000
