"""Every metric compared with scikit-learn's, with and without weights, and the properties that the engine relies on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as reference

from tabapp import discovery, metrics, plugin_files
from tabapp.errors import UsageError
from tabapp.metrics import Metric, registry
from tabapp.metrics.registry import BUILT_IN
from tabapp.models import registry as model_registry
from tabapp.models.checks.subject import Subject
from tabapp.models.checks.tables import make_table

N_ROWS = 400
COST = "cost:fn=5,fp=1"
BINARY = [name for name, metric in BUILT_IN.items() if "binary" in metric.tasks]
MULTICLASS = [name for name, metric in BUILT_IN.items() if "multiclass" in metric.tasks]
REGRESSION = [name for name, metric in BUILT_IN.items() if "regression" in metric.tasks]


def make(task: str, seed: int = 0, n_rows: int = N_ROWS):
    """Truth and a prediction that correlates with it, with tied scores."""
    random = np.random.default_rng(seed)
    if task == "regression":
        truth = random.normal(50, 20, n_rows)
        return truth, (truth + random.normal(0, 10, n_rows)).astype(np.float32)
    n_classes = 2 if task == "binary" else 4
    truth = random.integers(0, n_classes, n_rows)
    logits = np.round(random.normal(size=(n_rows, n_classes)) + 1.5 * np.eye(n_classes)[truth], 1)
    odds = np.exp(logits)
    return truth, odds / odds.sum(axis=1, keepdims=True)


def weights(kind: str, n_rows: int = N_ROWS):
    random = np.random.default_rng(9)
    return {"none": None, "real": random.uniform(0.1, 3.0, n_rows), "counts": random.integers(0, 4, n_rows)}[kind]


def by_scikit_learn(name: str, truth, prediction, weight):
    """The same metric computed by scikit-learn."""
    keywords = {"sample_weight": weight}
    if name in REGRESSION:
        function = {
            "rmse": reference.root_mean_squared_error,
            "mae": reference.mean_absolute_error,
            "r2": reference.r2_score,
            "mape": reference.mean_absolute_percentage_error,
            "median_absolute_error": reference.median_absolute_error,
        }[name]
        return function(truth, prediction, **keywords)
    n_classes = prediction.shape[1]
    label = prediction.argmax(axis=1)
    if name == "roc_auc":
        if n_classes == 2:
            return reference.roc_auc_score(truth, prediction[:, 1], **keywords)
        return reference.roc_auc_score(truth, prediction, multi_class="ovr", **keywords)
    if name == "average_precision":
        return reference.average_precision_score(truth, prediction[:, 1], **keywords)
    if name == "brier":
        if n_classes == 2:
            return reference.brier_score_loss(truth, prediction[:, 1], **keywords)
        return np.average(((prediction - np.eye(n_classes)[truth]) ** 2).sum(axis=1), weights=weight)
    if name == "log_loss":
        return reference.log_loss(truth, prediction, **keywords)
    if name == "f1":
        return reference.f1_score(truth, label, average="binary" if n_classes == 2 else "macro", **keywords)
    function = {"accuracy": reference.accuracy_score, "balanced_accuracy": reference.balanced_accuracy_score}[name]
    return function(truth, label, **keywords)


CASES = [
    (name, task)
    for task, names in (("binary", BINARY), ("multiclass", MULTICLASS), ("regression", REGRESSION))
    for name in names
]


WITHOUT_MEDIAN = [case for case in CASES if case[0] != "median_absolute_error"]
"""Excludes the median: with integer weights it may lie between two values, where definitions differ."""


@pytest.mark.parametrize(
    ("name", "task", "weight"),
    [(*case, weight) for weight in ("none", "real") for case in CASES] + [(*case, "counts") for case in WITHOUT_MEDIAN],
)
def test_equals_scikit_learn(name, task, weight):
    truth, prediction = make(task)
    w = weights(weight)
    assert metrics.score(name, truth, prediction, w) == pytest.approx(
        by_scikit_learn(name, truth, prediction, w), rel=1e-6
    )


def test_built_in_metrics_and_their_directions():
    assert set(BUILT_IN) == {
        "roc_auc", "log_loss", "accuracy", "balanced_accuracy", "f1", "average_precision", "brier",
        "rmse", "mae", "r2", "mape", "median_absolute_error",
    }  # fmt: skip
    assert {name for name, metric in BUILT_IN.items() if metric.greater_is_better} == {
        "roc_auc", "accuracy", "balanced_accuracy", "f1", "average_precision", "r2",
    }  # fmt: skip
    for task, default in (("binary", "roc_auc"), ("multiclass", "log_loss"), ("regression", "rmse")):
        assert metrics.default_metric(task) == default
        assert task in metrics.get(default).tasks


@pytest.mark.parametrize("name", [*BUILT_IN, COST])
def test_describes_itself_in_one_line(name):
    metric = metrics.get(name)
    assert metric.title
    assert 20 < len(metric.description) < 90
    assert metric.description[0].isupper()
    assert metric.description[-1] != "."


def test_early_stopping_monitors_a_loss_of_the_same_task():
    monitored = {name: metric.early_stopping for name, metric in BUILT_IN.items()}
    assert {monitored[name] for name in {*BINARY, *MULTICLASS}} == {"log_loss"}
    for loss, names in (("mae", ("mae", "mape", "median_absolute_error")), ("rmse", ("rmse", "r2"))):
        assert {monitored[name] for name in names} == {loss}


@pytest.mark.parametrize(("name", "task"), WITHOUT_MEDIAN)
def test_integer_weights_equal_repeated_rows(name, task):
    """The bootstrap relies on this property."""
    truth, prediction = make(task)
    counts = weights("counts")
    repeated = np.repeat(np.arange(N_ROWS), counts)
    assert metrics.score(name, truth, prediction, counts) == pytest.approx(
        metrics.score(name, truth[repeated], prediction[repeated]), rel=1e-9
    )


@pytest.mark.parametrize(("name", "task"), CASES)
def test_does_not_depend_on_the_order_of_rows(name, task):
    truth, prediction = make(task)
    order = np.random.default_rng(3).permutation(N_ROWS)
    assert metrics.score(name, truth[order], prediction[order]) == pytest.approx(
        metrics.score(name, truth, prediction), rel=1e-9
    )


@pytest.mark.parametrize(("name", "task"), CASES)
def test_loss_is_lower_for_the_better_prediction(name, task):
    truth, prediction = make(task)
    noise = np.random.default_rng(4).permutation(N_ROWS)
    assert metrics.loss(name, truth, prediction) < metrics.loss(name, truth, prediction[noise])
    assert metrics.is_better(
        name, metrics.score(name, truth, prediction), metrics.score(name, truth, prediction[noise])
    )


@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
def test_area_without_positives_is_undefined(name):
    _, prediction = make("binary")
    truth = np.zeros(N_ROWS, dtype=int)
    assert np.isnan(metrics.score(name, truth, prediction))
    assert metrics.loss(name, truth, prediction) == np.inf


def test_mean_roc_auc_leaves_out_absent_classes():
    truth, prediction = make("multiclass")
    present = truth != 3
    parts = [reference.roc_auc_score(truth[present] == c, prediction[present][:, c]) for c in range(3)]
    assert metrics.score("roc_auc", truth[present], prediction[present]) == pytest.approx(np.mean(parts))


def test_log_loss_of_a_confident_error_is_large_but_finite():
    assert 10 < metrics.score("log_loss", np.array([0]), np.array([[0.0, 1.0]])) < 20


def test_r2_of_a_constant_truth_is_undefined():
    assert np.isnan(metrics.score("r2", np.ones(5), np.ones(5)))


@pytest.mark.parametrize(("name", "task"), CASES)
def test_interval_contains_the_score_and_depends_on_the_seed_alone(name, task):
    truth, prediction = make(task)
    low, high = metrics.interval(name, truth, prediction, seed=1)
    assert low < metrics.score(name, truth, prediction) < high
    assert metrics.interval(name, truth, prediction, seed=1) == (low, high)
    assert metrics.interval(name, truth, prediction, seed=2) != (low, high)


@pytest.mark.parametrize(("name", "task"), [*CASES, (COST, "binary")])
def test_interval_equals_a_bootstrap_of_the_metric_itself(name, task):
    """`interval` evaluates resampled weights by the metric's resampler; repeating the rows must give the same bounds."""
    truth, prediction = make(task)
    random = np.random.default_rng(5)
    values = []
    for _ in range(50):
        rows = random.integers(0, N_ROWS, N_ROWS)
        values.append(metrics.score(name, truth[rows], prediction[rows]))
    expected = np.quantile(values, [0.025, 0.975])
    found = metrics.interval(name, truth, prediction, seed=5, n_resamples=50)
    rel = 0.02 if name == "median_absolute_error" else 1e-9  # The weighted median is the lower of two middle values.
    assert found == pytest.approx(tuple(expected), rel=rel)


@pytest.mark.parametrize("weight", ["none", "real", "by class"])
@pytest.mark.parametrize(("name", "task"), [*CASES, (COST, "binary")])
def test_blender_scores_a_mean_of_predictions(name, task, weight):
    """Ensemble selection averages the parts that the blender returns; the score must be that of the averaged predictions."""
    truth, prediction = make(task)
    other = prediction[np.random.default_rng(4).permutation(N_ROWS)]
    w = np.where(truth == 1, 0.25, 2.0) if weight == "by class" else weights(weight)
    parts, function = metrics.get(name).blended(np.stack([prediction, other]), truth, w)
    expected = metrics.score(name, truth, (prediction.astype(np.float64) + other) / 2, w)
    assert function((parts[0].astype(np.float64) + parts[1]) / 2) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["roc_auc", "mae"])
def test_an_approximate_interval_is_near_the_interval_of_all_rows(name):
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 2, 20_000)
    positive = np.clip(0.3 + 0.4 * truth + generator.normal(0, 0.3, len(truth)), 0, 1)
    prediction = positive if name == "mae" else np.column_stack([1 - positive, positive])
    exact = metrics.interval(name, truth, prediction, seed=1)
    value = metrics.score(name, truth, prediction)
    found = metrics.approximate_interval(name, truth, prediction, value=value, seed=1, max_rows=2_000)
    assert found[0] < value < found[1]
    # The standard error of a width is 10 % with 50 resamples, and 7 % for quantiles of 200.
    assert found[1] - found[0] == pytest.approx(exact[1] - exact[0], rel=0.4)
    few = truth[:500], prediction[:500]
    expected = metrics.interval(name, *few, seed=1, n_resamples=50)
    assert metrics.approximate_interval(name, *few, value=0.0, seed=1) == expected


def test_intervals_cover_the_true_value_at_their_nominal_rate():
    """The true value of this mean absolute error is known: about 95 % of 100 intervals should contain it."""
    random = np.random.default_rng(0)
    expected = np.sqrt(2 / np.pi)
    covered = 0
    for seed in range(100):
        error = random.normal(size=150)
        low, high = metrics.interval("mae", np.zeros(150), error, seed=seed)
        covered += low <= expected <= high
    assert 0.88 <= covered / 100 <= 0.99


def test_interval_is_undefined_where_every_resample_is():
    truth, prediction = np.zeros(20, dtype=int), np.full((20, 2), 0.5)
    assert np.isnan(metrics.interval("roc_auc", truth, prediction, seed=0)).all()


def binary_example():
    """Two missed positives, one false alarm and one positive at exactly 0.5, which is labeled negative."""
    truth = np.array([1, 1, 1, 0, 0, 0, 1, 1])
    positive = np.array([0.9, 0.4, 0.1, 0.2, 0.6, 0.3, 0.8, 0.5])
    return truth, np.column_stack([1 - positive, positive])


def test_cost_prices_false_negatives_and_false_positives():
    truth, prediction = binary_example()
    assert metrics.score(COST, truth, prediction) == pytest.approx((3 * 5 + 1) / 8)
    assert metrics.score("cost:fn=0,fp=2.5", truth, prediction) == pytest.approx(2.5 / 8)
    weight = np.array([1, 0, 2, 1, 3, 1, 1, 1.0])
    assert metrics.score(COST, truth, prediction, weight) == pytest.approx((2 * 5 + 3 * 1 + 5) / 10)
    assert metrics.get(COST).tasks == ("binary",)
    assert not metrics.get(COST).greater_is_better


def test_equal_prices_of_one_are_the_error_rate():
    truth, prediction = make("binary")
    assert metrics.score("cost:fn=1,fp=1", truth, prediction) == pytest.approx(
        1 - metrics.score("accuracy", truth, prediction)
    )


def test_cost_has_one_canonical_name():
    assert {metrics.get(name).name for name in (COST, "cost:fp=1,fn=5", "cost: fn = 5.0, fp = 1")} == {COST}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cost", "needs the price of each error, such as cost:fn=5,fp=1"),
        ("cost:", "needs the price of each error"),
        ("cost:fn=5", "lacks fp, the price of a false positive"),
        ("cost:fn=5,fp=1,tp=2", "no key 'tp'"),
        ("cost:fn=5,false_positive=1", "no key 'false_positive'; its keys are fn (false negative) and fp"),
        ("cost:fn=5,fp=-1", "fp=-1 is not a number of 0 or more"),
        ("cost:fn=five,fp=1", "fn=five is not a number"),
        ("cost:fn=inf,fp=1", "fn=inf is not a number"),
        ("cost:fn=5,fn=4,fp=1", "gives the price fn twice"),
        ("cost:fn=0,fp=0", "prices every error at 0"),
        ("cost:5,1", "'5' in the metric 'cost:5,1' is not KEY=PRICE"),
        ("costs:fn=5,fp=1", "no metric named 'costs:fn=5,fp=1'; did you mean 'cost:fn=5,fp=1'?"),
        ("rocauc", "no metric named 'rocauc'; did you mean 'roc_auc'?"),
        ("zzz", "the metrics are roc_auc, log_loss"),
    ],
)
def test_invalid_names_are_rejected_with_a_suggestion(name, message):
    with pytest.raises(UsageError) as caught:
        metrics.get(name)
    assert message in str(caught.value)
    assert metrics.known(name) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Hit Rate"}, "lower-case"),
        ({"tasks": ()}, "tasks"),
        ({"tasks": ("ranking",)}, "tasks"),
        ({"tasks": ("binary", "regression")}, "regression must be its only task"),
        ({"criterion": "rmse"}, "criterion"),
    ],
)
def test_contradictory_metrics_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(BUILT_IN["accuracy"], **changes)


def raises_on_one_class(truth, prediction, weight):
    if len(np.unique(truth if weight is None else truth[weight > 0])) < 2:
        raise ValueError("Only one class is present in y_true.")
    return float(np.average(prediction[:, 1] > 0.5, weights=weight))


def test_metric_that_raises_on_rows_of_one_class_is_undefined_there(monkeypatch: pytest.MonkeyPatch):
    picky = replace(BUILT_IN["roc_auc"], name="picky", function=raises_on_one_class, resampler=None, blender=None)
    monkeypatch.setitem(BUILT_IN, "picky", picky)
    truth, prediction = make("binary")
    ones = truth[truth == 1]
    assert np.isnan(metrics.score("picky", ones, prediction[: len(ones)]))
    assert np.isnan(metrics.score("picky", truth, prediction, (truth == 1).astype(float)))
    assert metrics.loss("picky", ones, prediction[: len(ones)]) == np.inf
    assert np.isnan(metrics.interval("picky", ones, prediction[: len(ones)], seed=0)).all()
    parts, function = picky.blended(np.stack([prediction, prediction]), np.ones(N_ROWS), None)
    assert np.isnan(function(parts.mean(axis=0)))
    with pytest.raises(IndexError):
        metrics.score("picky", truth, prediction[:, :1])


@pytest.mark.parametrize("model", ["lightgbm", pytest.param("mlp", marks=pytest.mark.slow)])
def test_metric_that_raises_on_rows_of_one_class_fails_no_fit(model: str, monkeypatch: pytest.MonkeyPatch):
    picky = replace(BUILT_IN["roc_auc"], name="picky", function=raises_on_one_class, resampler=None, blender=None)
    monkeypatch.setitem(BUILT_IN, "picky", picky)
    table, spec, n_classes = make_table("binary", n_rows=120)
    one_class = table.take(table.target == 1).take(slice(0, 20))
    reports: list[float] = []
    fitted = (
        Subject(model_registry.get(model))
        .quick()
        .fit(
            "binary",
            table,
            spec,
            n_classes,
            one_class,
            metric="picky",
            on_report=lambda step, value: reports.append(value),
        )
    )
    assert np.isfinite(fitted.predict(table)).all()
    assert reports
    assert np.isnan(reports).all()


PAGE = (Path(__file__).resolve().parents[1] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def test_page_of_metrics_lists_every_member_and_its_example_works(plugin_folder: Path):
    assert re.findall(r"^\| `(\w+)", PAGE, re.MULTILINE) == [each.name for each in fields(Metric)]
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (plugin_folder / "within_ten.py").write_text(example)
    truth, prediction = make("regression")
    assert 0 < metrics.score("within_ten", truth, prediction) < 1


HIT_RATE = """
import numpy as np
from tabapp.metrics import Metric

def hit_rate(truth, prediction, weight):
    return float(np.average(prediction.max(axis=1) > 0.7, weights=weight))

METRIC = Metric(
    name="hit_rate", title="hit rate", description="Share of rows with a probability above 0.7", tasks=("binary",),
    greater_is_better=True, needs_probability=True, function=hit_rate,
)
"""


@pytest.fixture
def plugin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty plugin folder that the registry searches."""

    def clear_caches() -> None:
        plugin_files._files.cache_clear()
        registry.THIRD_PARTY.forget()

    monkeypatch.setenv("TABAPP_PLUGINS_DIR", str(tmp_path))
    clear_caches()
    yield tmp_path
    clear_caches()


def test_file_in_the_plugin_folder_adds_a_metric(plugin_folder: Path):
    (plugin_folder / "hit_rate.py").write_text(HIT_RATE)
    truth, prediction = make("binary")
    assert metrics.names()[-1] == "hit_rate"
    assert "hit_rate" in [metric.name for metric in metrics.for_task("binary")]
    assert "hit_rate" not in [metric.name for metric in metrics.for_task("multiclass")]
    assert metrics.score("hit_rate", truth, prediction) == np.mean(prediction.max(axis=1) > 0.7)
    assert metrics.names_for("binary", first="hit_rate")[0] == "hit_rate"


def test_metric_files_and_model_files_are_distinguished(plugin_folder: Path):
    (plugin_folder / "hit_rate.py").write_text(HIT_RATE)
    (plugin_folder / "some_model.py").write_text("from tabapp.metrics import Metric\nMETRICS = 1\n")
    (plugin_folder / "torn.py").write_text("def (")
    assert set(plugin_files.metric_files()) == {"hit_rate"}
    assert set(plugin_files.model_files()) == {"some_model", "torn"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HIT_RATE.replace('name="hit_rate"', 'name="other"'), "is named 'other' instead of 'hit_rate'"),
        ("METRIC = 3", "is not a tabapp Metric"),
        ("METRIC = 1 / 0", "does not load: ZeroDivisionError"),
        (
            HIT_RATE.replace("prediction.max", "prediction.maximum"),
            "its function fails on a binary example: AttributeError",
        ),
        (HIT_RATE.replace("weights=weight", "weights=weight[:3]"), "its function fails on a binary example"),
        (HIT_RATE.replace("function=hit_rate", "function=hit_rate, selected_by='rmse'"), "its selected_by, 'rmse'"),
    ],
    ids=["name", "type", "import", "function", "weights", "selection"],
)
def test_broken_file_is_reported_and_other_metrics_work(plugin_folder: Path, text: str, reason: str):
    (plugin_folder / "hit_rate.py").write_text(text)
    assert [metric.name for metric in metrics.for_task("binary")] == BINARY
    with pytest.raises(UsageError, match="'hit_rate' cannot be used") as caught:
        metrics.get("hit_rate")
    assert reason in str(caught.value)


def test_built_in_metric_takes_precedence_over_a_file_of_its_name(plugin_folder: Path):
    (plugin_folder / "accuracy.py").write_text(HIT_RATE.replace('"hit_rate"', '"accuracy"'))
    assert metrics.names().count("accuracy") == 1
    assert metrics.get("accuracy") is BUILT_IN["accuracy"]


def test_entry_point_adds_a_metric(monkeypatch: pytest.MonkeyPatch):
    class Point:
        name, value = "within_ten", "package:METRIC"

        def load(self) -> Metric:
            return Metric(
                name="within_ten",
                title="within 10",
                description="Share of errors below 10",
                tasks=("regression",),
                greater_is_better=True,
                needs_probability=False,
                function=lambda truth, prediction, weight: float(
                    np.average(np.abs(truth - prediction) < 10, weights=weight)
                ),
                criterion="mae",
            )

    monkeypatch.setattr(discovery, "points", lambda group: {"within_ten": Point()})
    monkeypatch.setattr(registry, "points", discovery.points)
    registry.THIRD_PARTY.forget()
    truth, prediction = make("regression")
    assert metrics.score("within_ten", truth, prediction) == np.mean(np.abs(truth - prediction) < 10)
    assert metrics.get("within_ten").early_stopping == "mae"
    registry.THIRD_PARTY.forget()
