"""Every built-in model passes the public checks of `tabapp.models.checks`, and the checks find broken plugins."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import chain

import numpy as np
import pytest
from tabapp_plugins.trees.lightgbm_model import TREES_TOGETHER

from tabapp.explain.fold_model import FoldModel
from tabapp.explain.permutation import permutation_importance
from tabapp.features.arrays import Table
from tabapp.models import registry
from tabapp.models.checks import suite
from tabapp.models.checks.subject import Skipped, Subject, Trained
from tabapp.models.checks.suite import CHECKS, TASKS, run_checks
from tabapp.models.contract import Cost, FeatureRecipe, FitStopped, FittedModel, Params, Plugin, RowNeighbors
from tabapp.task import Task
from tests.plugins.tables import make_table, smaller

NAMES = [name for name in registry.names() if registry.find(name).reason is None]
SKIPPED = {
    "tab_transformer": {"numeric columns only"},
    "prior_fitted": {"large offset of the target", "can be stopped", "row weights"},
}
"""Checks that do not apply to a model. Every model may skip checks with fewer than 400 rows and checks of cells that its recipe
fills."""

NETWORKS = {name for name in NAMES if registry.get(name).uses_device} | {"prior_fitted"}
TAKE_TURNS = {"k_neighbors", "prior_fitted"}
"""Models of which one thread predicts at a time."""
USE_IS_KNOWN = {
    "catboost", "extra_trees", "hist_gradient_boosting", "lightgbm", "linear", "random_forest", "xgboost",
}  # fmt: skip
"""Models that tell how much they use each feature."""
KINDS_OF_MODELS = {*USE_IS_KNOWN, "k_neighbors", "mlp", "tabr"}
"""Every booster and forest, a linear model, neighbors, a network, and a network with stored rows."""


@cache
def subject_of(name: str) -> Subject:
    plugin = registry.get(name)
    # Deadlines that no busy machine reaches: NPT plans fewer steps if time is short.
    return Subject(plugin, fit_seconds=900.0, quick_seconds=900.0, smaller=smaller(plugin))


FAMILIES = [
    [check for check, _ in CHECKS if check.startswith(beginning)]
    for beginning in (
        "learns",
        "constant columns",
        "no training rows",
        "few rows",
        "metric ",
        "deadline",
        "hyperparameters",
        "attention",
    )
]
"""Checks that differ in a task, a class or a metric only."""
COMMON_CHECKS = (
    ("row weights", "undefined metric", "can be stopped"),
    ("same seed, same model", "independent rows"),
    ("unseen and missing levels, extreme numbers", "numeric columns only", "categorical columns only", "many levels"),
    tuple(
        check for family in FAMILIES for check in family if check.startswith(("constant", "no training", "few rows"))
    ),
)
"""Groups of checks of what networks share: the training loop, and the handling of features and targets."""


CHECKS_OF_NPT = {
    "large offset of the target",
    "training rows in saved models",
    "neighbors",
    "predictions in threads",
}
"""Checks of what is special in NPT; its own tests train it on small tables."""


def combinations() -> Iterator[object]:
    """Every model with every check.

    In `make test`, the models take turns with the variants of a check, networks with the checks of what they share, the memory
    check, which starts a process, runs for one model, and NPT, whose fits take several times as long as those of other models,
    has only the checks of what is special in it. All other combinations are marked slow.
    """
    for place, name in enumerate(NAMES):
        is_network = name in NETWORKS
        groups = [*FAMILIES, *(COMMON_CHECKS if is_network else ())]
        skipped = {check for group in groups for i, check in enumerate(group) if i != place % len(group)}
        if name != "lightgbm":
            skipped.add("memory within the estimate")
        if name == "prior_fitted":
            skipped.add("predictions in threads")
        if name == "dcap":
            # Its defaults take ten times as long as those of other networks.
            skipped |= {check for check, _ in CHECKS if check.startswith("learns")}
        if name == "npt":
            skipped = {check for check, _ in CHECKS} - CHECKS_OF_NPT
        for check, function in CHECKS:
            marks = [pytest.mark.slow] if check in skipped else []
            yield pytest.param(name, check, function, id=f"{name}-{check}", marks=marks)


def test_selected_checks_exist() -> None:
    assert {check for check, _ in CHECKS} >= {*CHECKS_OF_NPT, *chain(*COMMON_CHECKS)}


@pytest.mark.parametrize(("name", "check", "function"), combinations())
def test_built_in_model_passes_check(name: str, check: str, function: Callable[[Subject], None]) -> None:
    try:
        function(subject_of(name))
    except Skipped as reason:
        missing_task = any(f": {task}" in check for task in {*TASKS} - {*registry.get(name).tasks})
        if missing_task or check == "missing numbers" or check.startswith(("few rows", "memory")):
            pytest.skip(str(reason))
        if check not in SKIPPED.get(name, set()):
            pytest.fail(f"skipped: {reason}")


class MeanModel(FittedModel):
    """Predicts one of two values by the sign of the first number, which suffices for the generated tables."""

    def __init__(self, plugin: Means, low: list[float], high: list[float], task: str) -> None:
        self.plugin, self.low, self.high, self.task = plugin, low, high, task

    def predict(self, table):
        above = table.numeric[:, 0] > 0 if table.numeric.shape[1] else np.zeros(len(table), bool)
        values = np.where(above[:, None], self.high, self.low)
        prediction = values[:, 0] if self.task == "regression" else values.astype(np.float32)
        return self.plugin.changed(prediction)

    def save(self, folder):
        saved = json.dumps({"low": self.low, "high": self.high, "task": self.task})
        (folder / self.plugin.file).write_text(saved)


class MeansParams(Params, frozen=True, kw_only=True):
    shrinkage: float = 1.0


class Means(Plugin):
    name, title, family, paper = "means", "Two means", "classic", "none"
    params_type = MeansParams
    file = "model.json"

    def changed(self, prediction):
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


class ProbabilitiesBelowOne(Means):
    def changed(self, prediction):
        return prediction * 0.9 if prediction.ndim == 2 else prediction


class Pickled(Means):
    file = "model.pkl"


class RoundsNumbers(Means):
    def changed(self, prediction):
        return prediction.astype(np.float32).astype(prediction.dtype)


class CatchesFitStopped(Means):
    def fit(self, train, valid, params, context):
        with suppress(FitStopped):
            context.report(1, 0.5)
        return super().fit(train, valid, params, replace(context, on_report=lambda step, value: None))


class NeverReports(Means):
    def fit(self, train, valid, params, context):
        return super().fit(train, valid, params, replace(context, on_report=lambda step, value: None))


class OnlyKeepsRows(NeverReports):
    trains_nothing = True


class Random(Means):
    def changed(self, prediction):
        change = np.float32(np.random.default_rng().uniform(0.1, 0.9))
        return prediction + change if prediction.ndim == 1 else change * prediction + (1 - change) / prediction.shape[1]


class CentersOnTable(Means):
    def changed(self, prediction):
        return prediction / 2 + prediction.mean(axis=0) / 2


class AcceptsNoFeatures(Means):
    def supports(self, task, shape):
        return None


class IgnoresWeights(Means):
    def fit(self, train, valid, params, context):
        return super().fit(Table(train.numeric, train.categorical, train.target), valid, params, context)


class CostsNothing(Means):
    def cost(self, task, shape, params, device):
        return Cost(seconds=0.0, n_bytes=0)


class FlagOfText(Means):
    has_attention = "yes"


class ModelWithState(MeanModel):
    """Keeps the rows that it predicts, so that another thread may replace them."""

    def predict(self, table):
        self.rows = table
        time.sleep(0)
        return super().predict(self.rows)


class UnsafeModel(ModelWithState):
    thread_safe = True


class TakesTurns(Means):
    def load(self, folder):
        model = super().load(folder)
        return ModelWithState(self, model.low, model.high, model.task)


class ClaimsThreadSafety(Means):
    def load(self, folder):
        model = super().load(folder)
        return UnsafeModel(self, model.low, model.high, model.task)


class ModelWith(MeanModel):
    """A model whose optional methods and additional file come from its plugin."""

    train = valid = None

    def attention(self, table):
        return self.plugin.attention(table)

    def impute(self, table):
        return self.plugin.imputed(table)

    def row_neighbors(self, table, n):
        return self.plugin.neighbors(table, n)

    def use_of_features(self):
        return self.plugin.use()

    def save(self, folder):
        super().save(folder)
        self.plugin.save_more(folder, self.train, self.valid)


class Extended(Means):
    """Accepts a table without a target; the optional methods of its models return None."""

    def fit(self, train, valid, params, context):
        if train.target is None:
            return ModelWith(self, [0.0], [1.0], context.task)
        means = super().fit(train, valid, params, context)
        model = ModelWith(self, means.low, means.high, means.task)
        model.train, model.valid = train.numeric, valid.numeric
        return model

    def load(self, folder):
        model = super().load(folder)
        return ModelWith(self, model.low, model.high, model.task)

    def attention(self, table):
        return None

    def imputed(self, table):
        return None

    def neighbors(self, table, n):
        return None

    def use(self):
        return None

    def save_more(self, folder, train, valid):
        pass


class ClaimsAttention(Extended):
    has_attention = True


class HidesAttention(Extended):
    def attention(self, table):
        return np.full((len(table), 6), 1 / 6, np.float32)


class AttentionPerRow(Extended):
    has_attention = True

    def attention(self, table):
        return np.full(len(table), 1.0, np.float32)


class ClaimsImputation(Extended):
    can_impute = True


class HidesImputation(Extended):
    def imputed(self, table):
        return table


class ImputesNothing(Extended):
    can_impute = True

    def features(self):
        return FeatureRecipe(numeric="raw")

    def imputed(self, table):
        return table


class NegativeUse(Extended):
    def use(self):
        return np.array([1.0, -1.0])


class UseOfTooManyFeatures(Extended):
    def use(self):
        return np.ones(7)


class StoresRowsAsJSON(Extended):
    def save_more(self, folder, train, valid):
        rows = np.column_stack([train[:, ::-1], np.arange(len(train))])
        (folder / "more.json").write_text(json.dumps({"rows": rows.tolist()}))


class StoresRowsAsBytes(Extended):
    def save_more(self, folder, train, valid):
        (folder / "more.onnx").write_bytes(b"rows" + train[50:80].tobytes())


class StoresScaledColumns(Extended):
    def save_more(self, folder, train, valid):
        both = np.concatenate([train, valid])
        np.save(folder / "more.npy", np.random.default_rng(0).permutation(5 - 3 * both[:, 1]))


class HidesNeighbors(Extended):
    def neighbors(self, table, n):
        return RowNeighbors(np.zeros((len(table), n), np.int64), np.full((len(table), n), 1 / n, np.float32))


class UnknownNeighbors(HidesNeighbors):
    contains_training_rows = True

    def neighbors(self, table, n):
        found = super().neighbors(table, n)
        return RowNeighbors(found.index + 1_000_000, found.weight)


def test_correct_plugin_passes_all_checks() -> None:
    # The memory check trains in a separate process, which knows registered models only.
    results = [result for result in run_checks(Subject(Means())) if not result.check.startswith("memory")]
    assert [result for result in results if result.status != "ok"] == []


def test_a_fit_that_only_keeps_rows_need_not_report(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("learns, saves and loads: binary", "can be stopped")
    monkeypatch.setattr(suite, "CHECKS", [(name, function) for name, function in CHECKS if name in names])
    assert [each.status for each in run_checks(Subject(OnlyKeepsRows()))] == ["ok", "skipped"]


@pytest.mark.parametrize(
    ("plugin", "check", "sentence"),
    [
        (ProbabilitiesBelowOne(), "learns, saves and loads: binary", "sum to 1 ± 0.1"),
        (Pickled(), "learns, saves and loads: regression", "save writes model.pkl; only data may be saved"),
        (RoundsNumbers(), "large offset of the target", "if 1.7e+09 is added to the target"),
        (CatchesFitStopped(), "can be stopped", "fit catches FitStopped"),
        (NeverReports(), "learns, saves and loads: binary", "fit never calls context.report"),
        (NeverReports(), "can be stopped", "never calls context.report, so it cannot be stopped"),
        (Random(), "same seed, same model", "two fits with the same seed predict differently"),
        (CentersOnTable(), "independent rows", "the prediction of a row depends on the other rows"),
        (AcceptsNoFeatures(), "describes itself", "supports accepts a table without features"),
        (IgnoresWeights(), "row weights", "row weights have no effect"),
        (CostsNothing(), "hyperparameters and cost: binary, 300 rows", "cost returns a value that is not positive"),
        (ClaimsThreadSafety(), "predictions in threads", "from those in one thread, but thread_safe is True"),
        (FlagOfText(), "describes itself", "has_attention is 'yes', not True or False"),
        (ClaimsAttention(), "attention: binary", "has_attention is True, but attention returns None"),
        (HidesAttention(), "attention: regression", "attention returns an array, but has_attention is False"),
        (AttentionPerRow(), "attention: multiclass", "attention has the shape (300,), not (300, 6)"),
        (ClaimsImputation(), "imputation", "can_impute is True, but impute returns None"),
        (HidesImputation(), "imputation", "impute returns a table, but can_impute is False"),
        (ImputesNothing(), "imputation", "impute leaves numbers missing"),
        (StoresRowsAsJSON(), "training rows in saved models", "contains 300 of the rows passed to fit"),
        (StoresRowsAsBytes(), "training rows in saved models", "contains 30 of the rows passed to fit"),
        (StoresScaledColumns(), "training rows in saved models", "contains 400 of the rows passed to fit"),
        (NegativeUse(), "use of features", "use_of_features returns negative"),
        (UseOfTooManyFeatures(), "use of features", "use_of_features has the shape (7,); there are 6 features"),
        (HidesNeighbors(), "neighbors", "row_neighbors answers, but contains_training_rows is False"),
        (UnknownNeighbors(), "neighbors", "a neighbor is not a row passed to fit"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Plugin) else None,
)
def test_check_finds_broken_plugin(plugin: Plugin, check: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "CHECKS", [(name, function) for name, function in CHECKS if name == check])
    (result,) = run_checks(Subject(plugin))
    assert result.status == "broken"
    assert sentence in result.sentence


def test_a_model_with_state_that_does_not_claim_thread_safety_takes_turns() -> None:
    (function,) = [function for name, function in CHECKS if name == "predictions in threads"]
    function(Subject(TakesTurns()))


def demand_equal_importances(trained: Trained) -> None:
    """Demand that the importances in one thread and in four are equal, and reproducible."""
    _, spec, _ = make_table(trained.task)
    metric = "rmse" if trained.task == "regression" else "log_loss"
    # Two folds of one model, which therefore predicts in several threads at the same time.
    folds = [FoldModel(trained.model, trained.valid, spec)] * 2
    one, four = (
        permutation_importance(folds, metric, spec.sources, seed=0, n_repeats=2, n_jobs=n_jobs) for n_jobs in (1, 4)
    )
    off = [abs(a.mean - b.mean) for a, b in zip(one.columns, four.columns, strict=True)]
    assert max(off) <= 1e-9 * max(abs(each.mean) for each in one.columns)
    assert not any(each.unstable for each in (*one.columns, *four.columns))


@pytest.mark.parametrize("name", NAMES)
def test_models_say_whether_their_predictions_take_turns(name: str) -> None:
    assert subject_of(name).large().model.thread_safe is (name not in TAKE_TURNS)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in KINDS_OF_MODELS else [pytest.mark.slow]) for name in NAMES],
)
def test_importances_do_not_depend_on_the_threads(name: str) -> None:
    trained = subject_of(name).large()
    if name == "lightgbm":
        assert trained.model.booster.num_trees() > 3 * TREES_TOGETHER
    demand_equal_importances(trained)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task"), [(name, task) for name in NAMES for task in registry.get(name).tasks])
def test_importances_of_every_task_do_not_depend_on_the_threads(name: str, task: Task) -> None:
    demand_equal_importances(subject_of(name).trained(task))


@pytest.mark.parametrize("name", NAMES)
def test_models_that_know_their_use_of_features_rank_the_first_two(name: str) -> None:
    """The target of the generated tables depends on the first number and the first category."""
    found = subject_of(name).large().model.use_of_features()
    if name not in USE_IS_KNOWN:
        assert found is None
        return
    use = np.zeros(6)
    use[: len(found)] = found
    assert np.argmax(use) == 0
    assert set(np.argsort(-use)[:2]) == {0, 4}


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
