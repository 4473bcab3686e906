"""Every metric against scikit-learn's, with weights and without, and the properties that the engine relies on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as reference

from tabapp import metrics
from tabapp.metrics import METRICS

N_ROWS = 400
CLASSIFICATION = [name for name, metric in METRICS.items() if "binary" in metric.tasks]
MULTICLASS = [name for name, metric in METRICS.items() if "multiclass" in metric.tasks]
REGRESSION = [name for name, metric in METRICS.items() if "regression" in metric.tasks]


def make(task: str, seed: int = 0, n_rows: int = N_ROWS):
    """Truth and a prediction that knows something of it; ties among the scores."""
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


def of_scikit_learn(name: str, truth, prediction, weight):
    """The same metric by scikit-learn."""
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
    for task, names in (("binary", CLASSIFICATION), ("multiclass", MULTICLASS), ("regression", REGRESSION))
    for name in names
]


WITHOUT_MEDIAN = [case for case in CASES if case[0] != "median_absolute_error"]
"""A median of rows that weigh whole numbers may lie between two of them, where there is no one definition."""


@pytest.mark.parametrize(
    ("name", "task", "weight"),
    [(*case, weight) for weight in ("none", "real") for case in CASES] + [(*case, "counts") for case in WITHOUT_MEDIAN],
)
def test_a_metric_is_that_of_scikit_learn(name, task, weight):
    truth, prediction = make(task)
    w = weights(weight)
    assert metrics.score(name, truth, prediction, w) == pytest.approx(
        of_scikit_learn(name, truth, prediction, w), rel=1e-6
    )


def test_every_metric_of_the_interface_is_there():
    assert set(METRICS) == {
        "roc_auc", "log_loss", "accuracy", "balanced_accuracy", "f1", "average_precision", "brier",
        "rmse", "mae", "r2", "mape", "median_absolute_error",
    }  # fmt: skip
    assert {name for name, metric in METRICS.items() if metric.greater_is_better} == {
        "roc_auc", "accuracy", "balanced_accuracy", "f1", "average_precision", "r2",
    }  # fmt: skip
    for task, default in (("binary", "roc_auc"), ("multiclass", "log_loss"), ("regression", "rmse")):
        assert metrics.default_metric(task) == default
        assert task in METRICS[default].tasks


@pytest.mark.parametrize(("name", "task"), WITHOUT_MEDIAN)
def test_counts_as_weights_are_rows_repeated(name, task):
    """The bootstrap rests on this."""
    truth, prediction = make(task)
    counts = weights("counts")
    repeated = np.repeat(np.arange(N_ROWS), counts)
    assert metrics.score(name, truth, prediction, counts) == pytest.approx(
        metrics.score(name, truth[repeated], prediction[repeated]), rel=1e-9
    )


@pytest.mark.parametrize(("name", "task"), CASES)
def test_the_order_of_rows_does_not_matter(name, task):
    truth, prediction = make(task)
    order = np.random.default_rng(3).permutation(N_ROWS)
    assert metrics.score(name, truth[order], prediction[order]) == pytest.approx(
        metrics.score(name, truth, prediction), rel=1e-9
    )


@pytest.mark.parametrize(("name", "task"), CASES)
def test_the_loss_prefers_the_better_prediction(name, task):
    truth, prediction = make(task)
    noise = np.random.default_rng(4).permutation(N_ROWS)
    assert metrics.loss(name, truth, prediction) < metrics.loss(name, truth, prediction[noise])
    assert metrics.is_better(
        name, metrics.score(name, truth, prediction), metrics.score(name, truth, prediction[noise])
    )


@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
def test_a_curve_without_positives_has_no_area(name):
    _, prediction = make("binary")
    truth = np.zeros(N_ROWS, dtype=int)
    assert np.isnan(metrics.score(name, truth, prediction))
    assert metrics.loss(name, truth, prediction) == np.inf


def test_a_class_that_is_absent_is_left_out_of_the_mean_area():
    truth, prediction = make("multiclass")
    present = truth != 3
    parts = [reference.roc_auc_score(truth[present] == c, prediction[present][:, c]) for c in range(3)]
    assert metrics.score("roc_auc", truth[present], prediction[present]) == pytest.approx(np.mean(parts))


def test_a_sure_mistake_costs_much_and_not_everything():
    assert 10 < metrics.score("log_loss", np.array([0]), np.array([[0.0, 1.0]])) < 20


def test_r2_of_a_constant_truth_is_not_defined():
    assert np.isnan(metrics.score("r2", np.ones(5), np.ones(5)))


@pytest.mark.parametrize(("name", "task"), CASES)
def test_an_interval_holds_its_score_and_repeats_with_its_seed(name, task):
    truth, prediction = make(task)
    low, high = metrics.interval(name, truth, prediction, seed=1)
    assert low < metrics.score(name, truth, prediction) < high
    assert metrics.interval(name, truth, prediction, seed=1) == (low, high)
    assert metrics.interval(name, truth, prediction, seed=2) != (low, high)


@pytest.mark.parametrize("name", ["roc_auc", "log_loss", "rmse"])
def test_the_shortcuts_of_the_bootstrap_change_nothing(name):
    """`interval` does once what does not depend on a resample; the metric itself must come out the same."""
    task = "regression" if name == "rmse" else "binary"
    truth, prediction = make(task)
    w = weights("real")
    random = np.random.default_rng(5)
    values = []
    for _ in range(50):
        counts = np.bincount(random.integers(0, N_ROWS, N_ROWS), minlength=N_ROWS)
        values.append(metrics.score(name, truth, prediction, w * counts))
    if name == "roc_auc":
        # Its rows are sorted before they are drawn, so the same seed draws others.
        order = np.argsort(prediction[:, 1], kind="stable")
        random = np.random.default_rng(5)
        values = []
        for _ in range(50):
            counts = np.bincount(random.integers(0, N_ROWS, N_ROWS), minlength=N_ROWS)
            values.append(metrics.score(name, truth[order], prediction[order], w[order] * counts))
    expected = np.quantile(values, [0.025, 0.975])
    assert metrics.interval(name, truth, prediction, w, seed=5, n_resamples=50) == pytest.approx(
        tuple(expected), rel=1e-9
    )


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """A mean absolute error whose true value is known: of 200 samples about 95 % should hold it."""
    random = np.random.default_rng(0)
    expected = np.sqrt(2 / np.pi)
    held = 0
    for seed in range(200):
        error = random.normal(size=150)
        low, high = metrics.interval("mae", np.zeros(150), error, seed=seed)
        held += low <= expected <= high
    assert 0.88 <= held / 200 <= 0.99


def test_an_interval_is_undefined_where_every_resample_is():
    truth, prediction = np.zeros(20, dtype=int), np.full((20, 2), 0.5)
    assert np.isnan(metrics.interval("roc_auc", truth, prediction, seed=0)).all()
