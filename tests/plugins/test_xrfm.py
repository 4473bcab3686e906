"""xRFM: its kernels, its search by leave-one-out errors, its tree and its calibration."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tabapp_plugins.xrfm import XRFM
from tabapp_plugins.xrfm.kernel import Kernel, Norm, average_gradient, distances, leave_one_out, solved
from tabapp_plugins.xrfm.model import Tree, XRFMModel, calibrated, probabilities
from tabapp_plugins.xrfm.plugin import XRFMParams, affordable_leaf_rows, leaf_rows_of, places_of
from tabapp_plugins.xrfm.tuning import tune

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.models.contract import FitContext, Shape

RANDOM = np.random.default_rng(5)


def rows_of(n: int, n_columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, n_columns)).astype(np.float32)


def context_of(folder: Path, task: str = "regression", n_classes: int = 1, n_columns: int = 2) -> FitContext:
    names = tuple(f"x{i}" for i in range(n_columns))
    spec = FeatureSpec(numeric=names, categorical=(), cardinalities=(), sources=names)
    metric = "rmse" if task == "regression" else "log_loss"
    return FitContext(task, n_classes, metric, spec, seed=0, device="cpu", n_threads=1, folder=folder)  # type: ignore[arg-type]


def table_of(numeric: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None) -> Table:
    return Table(numeric, np.zeros((len(numeric), 0), np.int32), target, weight)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("n_binary", [0, 3])
def test_distances_are_those_of_all_pairs(norm: Norm, n_binary: int) -> None:
    numeric_a, numeric_b = rows_of(40, 4), rows_of(30, 4, 1)
    binary = [(RANDOM.random((n, n_binary)) < 0.4) * np.float32([0.5, 1.0, 2.0][:n_binary]) for n in (40, 30)]
    a, b = np.hstack([numeric_a, binary[0]]).astype(np.float32), np.hstack([numeric_b, binary[1]]).astype(np.float32)
    expected = np.linalg.norm(a[:, None].astype(float) - b, ord=norm, axis=2)
    np.testing.assert_allclose(distances(a, b, norm, n_binary), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.diag(distances(a, a, norm, n_binary)), 0, atol=1e-3)


def test_left_out_predictions_are_those_of_models_without_the_row() -> None:
    rows, target = rows_of(30, 2), RANDOM.normal(size=(30, 2))
    kernel, penalty = Kernel(1, 1.0, 1.5).of(distances(rows, rows, 1)), np.full(30, 0.1) / RANDOM.uniform(0.5, 2, 30)
    coefficients, left_out = leave_one_out(kernel, penalty, target)
    np.testing.assert_allclose(coefficients, solved(kernel, penalty, target), rtol=1e-5, atol=1e-8)
    for row in (0, 13, 29):
        others = np.arange(30) != row
        without = solved(kernel[np.ix_(others, others)], penalty[others], target[others])
        np.testing.assert_allclose(left_out[row], kernel[row, others] @ without, rtol=1e-4, atol=1e-6)


def test_a_penalty_below_rounding_is_raised() -> None:
    rows = np.repeat(rows_of(20, 2), 2, axis=0)
    kernel = Kernel(2, 1.9, 50.0).of(distances(rows, rows, 2))
    kernel[0, 1] = kernel[1, 0] = 1.01
    with pytest.raises(np.linalg.LinAlgError):
        leave_one_out(kernel, np.full(40, 1e-5), np.ones((40, 1)))
    assert np.isfinite(solved(kernel, np.full(40, 1e-5), np.ones((40, 1)))).all()


@pytest.mark.parametrize(("norm", "exponent"), [(1, 1.0), (1, 0.8), (2, 1.0), (2, 1.4)])
def test_the_average_gradient_is_that_of_finite_differences(norm: Norm, exponent: float) -> None:
    rows, coefficients = rows_of(25, 3), RANDOM.normal(size=(25, 2))
    kernel = Kernel(norm, exponent, 2.0)
    found = average_gradient(rows, kernel, distances(rows, rows, norm), coefficients)
    step, wide = 1e-5, rows.astype(np.float64)

    def output(at: np.ndarray, row: int) -> np.ndarray:
        distance = np.linalg.norm(at - wide, ord=norm, axis=1)
        # The kernel has a kink at the row itself, whose gradient counts as 0.
        return np.delete(kernel.of(distance), row) @ np.delete(coefficients, row, axis=0)

    gradients = np.zeros((25, 2, 3))
    for row in range(25):
        for j, unit in enumerate(np.eye(3)):
            ahead, behind = (output(wide[row] + sign * step * unit, row) for sign in (1, -1))
            gradients[row, :, j] = (ahead - behind) / (2 * step)
    expected = np.einsum("rok,rol->kl", gradients, gradients) / 25
    expected = np.diag(expected) if norm == 1 else expected
    np.testing.assert_allclose(found / found.max(), expected / expected.max(), rtol=1e-2, atol=1e-3)


def test_the_metric_finds_the_column_that_matters() -> None:
    rows = rows_of(300, 6)
    target = np.sin(2 * rows[:, :1].astype(np.float64))
    found = {
        n: tune(rows, target, np.ones(300), norm=1, exponent=1.0, n_iterations=n, n_binary=0, may_continue=lambda: True)
        for n in (0, 3)
    }
    assert found[3].error < 0.5 * found[0].error
    assert found[3].transform[0].argmax() == 0
    assert found[3].transform[0, 0] > 2 * found[3].transform[0, 1:].max()


def test_a_search_without_time_fits_one_model() -> None:
    rows = rows_of(50, 2)
    target = rows[:, :1].astype(np.float64)
    found = tune(
        rows, target, np.ones(50), norm=1, exponent=1.0, n_iterations=5, n_binary=0, may_continue=lambda: False
    )
    assert np.isfinite(found.error)
    assert (found.transform == 1).all()


def test_a_tree_divides_rows_and_finds_them_again() -> None:
    rows = rows_of(1000, 3)
    tree, leaf = Tree.fit(rows, 150)
    assert np.bincount(leaf).max() <= 150
    np.testing.assert_array_equal(tree.leaves_of(rows), leaf)
    np.testing.assert_array_equal(np.diff(tree.start), np.bincount(leaf))
    tree.check(3, 1000)
    alone, _ = Tree.fit(rows, 1000)
    assert (alone.leaves_of(rows) == 0).all()
    alone.check(3, 1000)
    equal, leaf = Tree.fit(np.ones((20, 3), np.float32), 5)
    assert (leaf == 0).all(), "rows that are all equal cannot be divided"
    equal.check(3, 20)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"children": [[0, -1]]}, "before its parent"),
        ({"children": [[-1, -1]]}, "does not reach all leaves"),
        ({"children": [[-1, -9]]}, "does not reach all leaves"),
        ({"start": [0, 4, 9]}, "all stored rows"),
        ({"start": [0, 10, 10]}, "has no rows"),
        ({"direction": [[1.0, 2.0]]}, "do not fit its columns"),
    ],
)
def test_a_damaged_tree_is_rejected(change: dict[str, list], problem: str) -> None:
    tree, _ = Tree.fit(rows_of(10, 3), 5)
    tree.check(3, 10)
    damaged = replace(tree, **{name: np.array(value) for name, value in change.items()})
    with pytest.raises(ValueError, match=problem):
        damaged.check(3, 10)


def test_leaves_change_predictions_little(tmp_path: Path) -> None:
    numeric = rows_of(900, 2)
    target = numeric[:, 0].astype(np.float64) * 3 + 5
    train, valid, new = (
        table_of(numeric[:700], target[:700]),
        table_of(numeric[700:800], target[700:800]),
        numeric[800:],
    )
    errors: list[float] = []
    for most in (6_000, 200):
        model = XRFM().fit(train, valid, XRFMParams(leaf_rows=most), context_of(tmp_path))
        assert isinstance(model, XRFMModel)
        assert model.summary()["rows"] == 800
        assert model.summary()["leaves"] == (1 if most == 6_000 else 4)
        errors.append(float(np.abs(model.predict(table_of(new, target[800:])) - target[800:]).mean()))
    assert max(errors) < 0.2 * np.abs(target - target.mean()).mean()


def test_leaves_are_as_large_as_time_allows() -> None:
    params = XRFMParams(leaf_rows=6_000)
    seconds = {
        left: affordable_leaf_rows(params, 12_000, (1_500, 0.1), left) for left in (1e9, 13.0, 12.0, 3.0, 0.9, 0.7)
    }
    assert seconds == {1e9: 6_000, 13.0: 6_000, 12.0: 3_000, 3.0: 1_500, 0.9: 1_500, 0.7: None}
    # The leaves of 12,001 rows have at most 3,001: twice as many as there must be with 6,000.
    assert affordable_leaf_rows(params, 12_001, (1_500, 0.1), 4.0) == 6_000
    assert affordable_leaf_rows(params, 1_200, (1_200, 0.1), 1.0) == 6_000


@pytest.mark.parametrize("leaf_rows", [6_000, 3_000, 1_500])
@pytest.mark.parametrize("n_rows", [12_000, 12_001, 7_000])
def test_other_folds_have_leaves_of_the_same_size(leaf_rows: int, n_rows: int) -> None:
    leaves = 2 ** math.ceil(math.log2(n_rows / leaf_rows))
    params = XRFMParams(leaf_rows=6_000)
    found = leaf_rows_of(params, n_rows + 3, [{"rows": n_rows, "leaves": leaves}, {}])
    assert math.ceil(math.log2(n_rows / found)) == math.log2(leaves)


def test_a_model_of_some_rows_gives_small_leaves_and_one_of_all_large_ones() -> None:
    params = XRFMParams(leaf_rows=6_000)
    assert leaf_rows_of(params, 12_000, [{"rows": 1_500, "leaves": 1}]) == 1_500
    assert leaf_rows_of(params, 1_250, [{"rows": 1_000, "leaves": 1}]) == 6_000


def test_little_time_makes_leaves_smaller_and_leaves_no_rows_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rows_of(3_000, 2)
    target = X[:, 0] + 0.1 * X[:, 1]
    train, valid = table_of(X[:2_500], target[:2_500]), table_of(X[2_500:], target[2_500:])
    params = XRFMParams(leaf_rows=6_000)
    context = context_of(tmp_path)
    monkeypatch.setattr("tabapp_plugins.xrfm.plugin.affordable_leaf_rows", lambda *_: 1_500)
    cut = XRFM().fit(train, valid, params, context)
    assert cut.summary() == cut.summary() | {"rows": 3_000, "leaves": 2}
    again = XRFM().refit(table_of(X, target), params, [cut.summary()], context)
    assert again is not None
    assert again.summary()["leaves"] == 2
    monkeypatch.setattr("tabapp_plugins.xrfm.plugin.affordable_leaf_rows", lambda *_: None)
    assert XRFM().fit(train, valid, params, context).summary()["rows"] == 1_500


def test_rows_without_weight_do_not_count(tmp_path: Path) -> None:
    numeric = rows_of(200, 2)
    target = numeric[:, 0].astype(np.float64)
    wrong = np.where(np.arange(200) < 100, target, 100.0)
    weight = (np.arange(200) < 100).astype(np.float32)
    context = context_of(tmp_path)
    found = XRFM().refit(table_of(numeric, wrong, weight), XRFMParams(), [], context)
    expected = XRFM().refit(table_of(numeric[:100], target[:100]), XRFMParams(), [], context)
    assert found.summary()["rows"] == 100
    new = table_of(rows_of(50, 2, 3), target[:50])
    assert np.abs(found.predict(new) - expected.predict(new)).max() < 0.3


def test_probabilities_are_calibrated() -> None:
    output = RANDOM.normal(size=(4000, 3))
    truth = probabilities(output, 2.5, np.array([0.5, 0.0, -0.5]))
    codes = (truth.cumsum(axis=1) < RANDOM.random((4000, 1))).sum(axis=1)
    slope, bias = calibrated(output, codes, np.ones(4000))
    assert slope == pytest.approx(2.5, rel=0.1)
    np.testing.assert_allclose(bias - bias.mean(), [0.5, 0.0, -0.5], atol=0.1)


def test_a_class_without_rows_gets_a_small_probability(tmp_path: Path) -> None:
    numeric = rows_of(300, 2)
    codes = (numeric[:, 0] > 0).astype(np.int64)
    model = XRFM().refit(table_of(numeric, codes), XRFMParams(), [], context_of(tmp_path, "multiclass", 3))
    found = model.predict(table_of(numeric, codes))
    assert found[:, 2].max() < 0.05
    assert (found.argmax(axis=1) == codes).mean() > 0.95


def test_the_metric_is_learned_on_large_tables_only() -> None:
    shapes = [Shape(n_rows=n, n_numeric=4, n_categorical=0, n_classes=1) for n in (1_000, 5_000, 200_000)]
    assert [XRFM().defaults("regression", shape, "cpu").n_iterations for shape in shapes[:2]] == [0, 2]
    assert XRFM().supports("regression", shapes[1]) is None
    assert "100,000" in (XRFM().supports("regression", shapes[2]) or "")


def test_other_folds_take_width_and_penalty_from_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows_of(400, 3)
    target = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]
    params, context = XRFMParams(n_iterations=2), context_of(tmp_path, n_columns=3)
    found = XRFM().fit(table_of(X[:350], target[:350]), table_of(X[350:], target[350:]), params, context)
    summary = found.summary()
    assert summary["penalty"] == summary["penalties"][-1]
    tried: list[int] = []

    def counted(*arguments: Any) -> Any:
        tried.append(1)
        return leave_one_out(*arguments)

    monkeypatch.setattr("tabapp_plugins.xrfm.tuning.leave_one_out", counted)
    again = XRFM().refit(table_of(X, target), params, [summary], context)
    assert again is not None
    assert len(tried) == len(summary["widths"])
    assert again.summary()["penalties"] == summary["penalties"][: len(again.summary()["penalties"])]
    new = rows_of(200, 3, seed=9)
    error = np.mean((again.predict(table_of(new, new[:, 0])) - np.sin(2 * new[:, 0]) - 0.1 * new[:, 1]) ** 2)
    assert error < 0.05 * np.var(target)


def test_the_places_of_several_folds_are_averaged() -> None:
    first = {"widths": [2.0, 1.0, 1.0], "penalties": [0.1, 0.1, 1.0]}
    second = {"widths": [8.0], "penalties": [0.001]}
    assert places_of([first, second]) == [(3, 3), (2, 3)]
    assert places_of([first]) == [(2, 4), (1, 4), (1, 5)]
    assert places_of([{"rows": 10}]) == []
