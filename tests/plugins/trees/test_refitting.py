"""Models trained again on all rows, for as long as the models of the folds were trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tabapp_plugins._shared.boosting import BoostingParams, BoostingPlugin, max_bins

from tabapp.engine.fit.candidates import pilots_of
from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, Shape, Task

CHANGES = {
    "realmlp": {"max_epochs": 3, "widths": (8,)},
    "amformer": {"max_epochs": 2, "n_layers": 1, "d_token": 16, "warmup_steps": 1},
    "npt": {"n_steps": 12, "n_evaluations": 2, "d_embedding": 8, "n_layers": 2, "n_heads": 2},
    "grownet": {"n_learners": 3, "width": 8},
    "k_neighbors": {},
    "xrfm": {},
}

SAME = {"realmlp": "best_epoch", "amformer": "best_epoch", "npt": "best_step", "grownet": "best_stage"}


def table(n_rows: int, seed: int) -> Table:
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(n_rows, 3)).astype(np.float32)
    return Table(
        numeric=numeric,
        categorical=generator.integers(2, 5, (n_rows, 1)).astype(np.int32),
        target=(numeric[:, 0] + 0.5 * generator.normal(size=n_rows) > 0).astype(np.int64),
    )


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_model_is_trained_on_all_rows_for_as_long_as_those_of_the_folds(name, tmp_path):
    plugin = registry.get(name)
    spec = FeatureSpec(numeric=("a", "b", "c"), categorical=("d",), cardinalities=(5,), sources=("a", "b", "c", "d"))
    context = FitContext("binary", 2, "roc_auc", spec, seed=0, device="cpu", n_threads=1, folder=tmp_path)
    shape = Shape(n_rows=160, n_numeric=3, n_categorical=1, n_classes=2)
    params = msgspec.structs.replace(plugin.defaults("binary", shape, "cpu"), **CHANGES[name])
    train, valid, rows = table(160, 0), table(40, 1), table(50, 2)
    fold = plugin.fit(train, valid, params, context)
    model = plugin.refit(train, params, [fold.summary(), fold.summary()], context)
    assert model is not None
    found = model.predict(rows)
    assert np.isfinite(found).all()
    assert (
        np.corrcoef(found[:, 1], rows.numeric[:, 0])[0, 1]
        * np.corrcoef(fold.predict(rows)[:, 1], rows.numeric[:, 0])[0, 1]
        > 0
    )
    if name in ("k_neighbors", "xrfm"):
        assert model.summary()["rows"] == 160
    else:
        assert model.summary()[SAME[name]] == fold.summary()[SAME[name]]
    model.save(tmp_path)
    np.testing.assert_array_equal(plugin.load(tmp_path).predict(rows), found)


def test_patience_falls_with_the_number_of_rows() -> None:
    assert [BoostingParams().patience_on(n_rows) for n_rows in (500, 10_000, 20_000, 1_000_000)] == [200, 200, 100, 50]
    assert BoostingParams(patience=7).patience_on(500) == 7


def test_more_than_five_folds_have_three_pilots() -> None:
    assert [pilots_of(registry.get("lightgbm"), n_folds) for n_folds in (1, 2, 5, 8)] == [1, 2, 2, 3]
    assert pilots_of(registry.get("linear"), 5) == 0


def test_later_folds_of_models_that_reuse_steps_are_expected_to_be_shorter() -> None:
    shape = Shape(2_000, 10, 0, 2)
    shares = {name: registry.get(name).later_share(shape) for name in ("linear", "lightgbm", "extra_trees", "xrfm")}
    assert shares["linear"] == 1.0
    assert 0 < shares["lightgbm"] < shares["xrfm"] < shares["extra_trees"] < 1
    large = Shape(BoostingPlugin.refit_rows + 1, 10, 0, 2)
    assert shares["lightgbm"] < registry.get("lightgbm").later_share(large) < 1, "its first folds are trained once, too"


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_boosters_and_forests_of_many_columns_are_cheaper(task: Task) -> None:
    """Ten times the columns have fewer bins and, in forests, fewer columns for each split."""
    assert (max_bins(999), max_bins(1_000)) == (255, 63)
    few, many = Shape(2_000, 999, 0, 2), Shape(2_000, 1_000, 0, 2)
    for name in ("lightgbm", "xgboost", "hist_gradient_boosting", "random_forest", "extra_trees"):
        plugin = registry.get(name)
        seconds = [
            # Two classes, because features made from two columns would add columns to both.
            plugin.cost(task, shape, plugin.defaults("binary", shape, "cpu"), "cpu").seconds
            for shape in (few, many)
        ]
        assert seconds[1] < seconds[0], name


@pytest.mark.parametrize("name", ["extra_trees", "random_forest"])
def test_a_forest_is_grown_once_on_all_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = registry.get(name)
    spec = FeatureSpec(numeric=("a", "b", "c"), categorical=("d",), cardinalities=(5,), sources=("a", "b", "c", "d"))
    reported: list[tuple[int, float]] = []
    context = FitContext("binary", 2, "roc_auc", spec, seed=0, device="cpu", n_threads=1, folder=tmp_path)
    context.on_report = lambda step, value: reported.append((step, value))
    params = plugin.defaults("binary", Shape(n_rows=200, n_numeric=3, n_categorical=1, n_classes=2), "cpu")
    grown: list[tuple[int, int]] = []
    grow = type(plugin).grow

    def counted(self: Any, train: Table, valid: Any, n_trees: int, *others: Any) -> Any:
        grown.append((len(train), n_trees))
        return grow(self, train, valid, n_trees, *others)

    monkeypatch.setattr(type(plugin), "grow", counted)
    train, valid, rows = table(160, 0), table(40, 1), table(50, 2)
    model = plugin.fit(train, valid, params, context)
    assert grown == [(160, 10), (200, 100)]
    assert [step for step, _ in reported] == [10]
    assert 0.6 < reported[0][1] < 1
    # The same trees as those of later folds, which train on all of their rows.
    later = plugin.refit(train.joined(valid), params, [model.summary()], context)
    assert later is not None
    np.testing.assert_array_equal(model.predict(rows), later.predict(rows))
    context.soft_deadline = 0.0
    assert plugin.fit(train, valid, params, context).summary() == {"trees": 1, "refit": True}


@pytest.mark.parametrize(("seconds_left", "n_trees"), [(0.0, 1), (5.0, 3), (23.0, 12), (1_000.0, 100)])
def test_a_forest_grows_no_tree_that_would_end_after_its_deadline(
    seconds_left: float, n_trees: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tree takes two seconds of a clock that only the trees move, and the first one is always grown."""
    import sklearn.ensemble

    plugin, clock, n_grown = registry.get("extra_trees"), [0.0], [0]
    fit = sklearn.ensemble.ExtraTreesClassifier.fit

    def slow(self: Any, *arguments: Any, **options: Any) -> Any:
        found = fit(self, *arguments, **options)
        clock[0] += 2.0 * (len(self.estimators_) - n_grown[0])
        n_grown[0] = len(self.estimators_)
        return found

    spec = FeatureSpec(numeric=("a", "b", "c"), categorical=("d",), cardinalities=(5,), sources=("a", "b", "c", "d"))
    context = FitContext("binary", 2, "roc_auc", spec, seed=0, device="cpu", n_threads=1, folder=tmp_path)
    monkeypatch.setattr(sklearn.ensemble.ExtraTreesClassifier, "fit", slow)
    monkeypatch.setattr("tabapp_plugins._shared.trees.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(FitContext, "seconds_left", lambda self: 2.0 + seconds_left - clock[0])
    params = plugin.defaults("binary", Shape(n_rows=200, n_numeric=3, n_categorical=1, n_classes=2), "cpu")
    model = plugin.refit(table(160, 0), params, [{"trees": 100}], context)
    assert model is not None
    assert model.summary()["trees"] == n_trees
