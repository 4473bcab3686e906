"""The public checks of `tabapp.models.checks`, passed by every model of ours; and that they find what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from tabapp.features.arrays import Table
from tabapp.models import registry
from tabapp.models.check_subject import SitsOut, Subject
from tabapp.models.checks import CHECKS, Result, run_checks
from tabapp.models.contract import Cost, FeatureRecipe, FitStopped, FittedModel, Params, Plugin
from tests.plugins.tables import smaller

NAMES = [name for name in registry.names() if registry.find(name).reason is None]
SITS_OUT = {
    "tab_transformer": {"numeric columns only"},
}
"""Checks that a model may decline, beside those for tables of less than 400 rows and for cells that its recipe fills."""


@pytest.mark.parametrize(("check", "function"), CHECKS, ids=[check for check, _ in CHECKS])
@pytest.mark.parametrize("name", NAMES)
def test_keeps_its_promises(name: str, check: str, function: Callable[[Subject], None]) -> None:
    plugin = registry.get(name)
    try:
        function(Subject(plugin, fit_seconds=20.0, smaller=smaller(plugin)))
    except SitsOut as reason:
        if check == "missing numbers" or check.startswith(("few rows", "memory")):
            pytest.skip(str(reason))
        if check not in SITS_OUT.get(name, set()):
            pytest.fail(f"it sits out: {reason}")


class MeanModel(FittedModel):
    """Predicts by whether the first number is above zero: all that the made tables need."""

    def __init__(self, plugin: Means, low: list[float], high: list[float], task: str) -> None:
        self.plugin, self.low, self.high, self.task = plugin, low, high, task

    def predict(self, table):
        above = table.numeric[:, 0] > 0 if table.numeric.shape[1] else np.zeros(len(table), bool)
        values = np.where(above[:, None], self.high, self.low).astype(np.float32)
        prediction = values[:, 0] if self.task == "regression" else values
        return self.plugin.spoilt(prediction)

    def save(self, folder):
        saved = json.dumps({"low": self.low, "high": self.high, "task": self.task})
        (folder / self.plugin.file).write_text(saved)


class MeansParams(Params, frozen=True, kw_only=True):
    shrinkage: float = 1.0


class Means(Plugin):
    name, title, family, paper = "means", "Two means", "classic", "none"
    params_type = MeansParams
    file = "model.json"

    def spoilt(self, prediction):
        return prediction

    def supports(self, task, shape):
        return None if shape.n_features else "There are no features."

    def features(self):
        return FeatureRecipe()

    def defaults(self, task, shape, device):
        return MeansParams()

    def search_space(self, trial, task, shape, device):
        return MeansParams(shrinkage=trial.suggest_float("shrinkage", 0.1, 10.0, log=True))

    def cost(self, task, shape, params, device):
        return Cost(seconds=0.1, n_bytes=100_000_000)

    def fit(self, train, valid, params, context):
        y = train.target[:, None] if context.task == "regression" else np.eye(context.n_classes)[train.target]
        weight = np.ones(len(y)) if train.weight is None else train.weight
        above = train.numeric[:, 0] > 0 if train.numeric.shape[1] else np.zeros(len(y), bool)
        overall = np.average(y, axis=0, weights=weight)
        sides = [
            ((y[side] * weight[side, None]).sum(0) + params.shrinkage * overall)
            / (weight[side].sum() + params.shrinkage)
            for side in (~above, above)
        ]
        context.report(1, 0.5)
        return MeanModel(self, sides[0].tolist(), sides[1].tolist(), context.task)

    def load(self, folder):
        saved = json.loads((folder / self.file).read_text())
        return MeanModel(self, saved["low"], saved["high"], saved["task"])


class Unsure(Means):
    def spoilt(self, prediction):
        return prediction * 0.9 if prediction.ndim == 2 else prediction


class Pickled(Means):
    file = "model.pkl"


class Deaf(Means):
    def fit(self, train, valid, params, context):
        with suppress(FitStopped):
            context.report(1, 0.5)
        return super().fit(train, valid, params, replace(context, on_report=lambda step, value: None))


class Noisy(Means):
    def spoilt(self, prediction):
        if prediction.ndim == 1:
            return prediction + np.float32(np.random.default_rng().normal())
        return prediction[np.random.default_rng().permutation(len(prediction))]


class Proud(Means):
    def supports(self, task, shape):
        return None


class Careless(Means):
    def fit(self, train, valid, params, context):
        return super().fit(Table(train.numeric, train.categorical, train.target), valid, params, context)


class Free(Means):
    def cost(self, task, shape, params, device):
        return Cost(seconds=0.0, n_bytes=0)


def results_of(plugin: Plugin) -> dict[str, Result]:
    # The memory check trains in a process of its own, which knows registered models only.
    return {r.check: r for r in run_checks(Subject(plugin)) if not r.check.startswith("memory")}


def test_a_plugin_that_keeps_all_promises_passes() -> None:
    odd = [result for result in results_of(Means()).values() if result.status != "ok"]
    assert odd == []


@pytest.mark.parametrize(
    ("plugin", "check", "sentence"),
    [
        (Unsure(), "learns, saves and loads: binary", "sum to 1 ± 0.1"),
        (Pickled(), "learns, saves and loads: regression", "save writes model.pkl; only data may be saved"),
        (Deaf(), "can be stopped", "fit catches FitStopped"),
        (Noisy(), "same seed, same model", "two fits with one seed predict differently"),
        (Noisy(), "rows are independent", "predictions change with the rows beside them"),
        (Proud(), "describes itself", "does not decline a table without features"),
        (Careless(), "row weights count", "row weights change nothing"),
        (Free(), "parameters and costs: binary, 300 rows", "its cost is not positive"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Plugin) else None,
)
def test_a_broken_promise_is_found(plugin: Plugin, check: str, sentence: str) -> None:
    result = results_of(plugin)[check]
    assert result.status == "broken"
    assert sentence in result.sentence


def test_importing_one_plugin_imports_no_other() -> None:
    code = """
import sys
from importlib.metadata import entry_points
points = {p.name: p for p in entry_points(group="tabapp.models") if p.value.startswith("tabapp_plugins.")}
modules = {p.value.partition(":")[0] for p in points.values()}
for name in sys.argv[1:]:
    for module in modules & set(sys.modules):
        del sys.modules[module]
    points[name].load()
    others = modules & set(sys.modules) - {points[name].value.partition(":")[0]}
    libraries = {"xgboost", "catboost", "lightgbm", "optuna", "sklearn"} & set(sys.modules)
    assert not others and not libraries, (name, others, libraries)
"""
    done = subprocess.run([sys.executable, "-c", code, *NAMES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
