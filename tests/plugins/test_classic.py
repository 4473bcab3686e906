"""Linear models and nearest neighbors compared with scikit-learn, and their input matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from tabapp_plugins._shared import design, target
from tabapp_plugins._shared.design import Design
from tabapp_plugins.k_neighbors import KNeighbors, KNeighborsParams
from tabapp_plugins.linear import Linear, LinearModel, LinearParams
from tabapp_plugins.mlp import MLP
from threadpoolctl import ThreadpoolController

from tabapp.features.arrays import Table
from tabapp.features.saved import demand_limits
from tabapp.models.contract import FitContext, Plugin
from tabapp.nn.training.objective import Objective
from tests.plugins.tables import make_context, make_table, shape_of


def test_the_matrix_is_standardized_and_one_hot() -> None:
    numeric = np.array([[1.0, np.nan], [3.0, 2.0], [5.0, 2.0], [7.0, np.nan]], dtype=np.float32)
    codes = np.array([[2], [2], [3], [1]], dtype=np.int32)
    fitted = Design.fit(Table(numeric, codes))
    expected = [
        [-1.341641, 0, 1, 1, 0, 0],
        [-0.447214, 0, 0, 1, 0, 0],
        [0.447214, 0, 0, 0, 0, 1],
        [1.341641, 0, 1, 0, 1, 0],
    ]
    np.testing.assert_allclose(fitted.matrix(Table(numeric, codes)), expected, atol=1e-6)
    wide = fitted.wide_matrix(Table(numeric, codes))
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, fitted.matrix(Table(numeric, codes)))
    odd = Table(np.array([[1e30, np.nan]], np.float32), np.zeros((1, 1), np.int32))
    np.testing.assert_array_equal(fitted.matrix(odd), [[design.LIMIT, 0, 1, 0, 0, 0]])


def test_only_the_most_frequent_levels_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(design, "MOST_LEVELS", 2)
    codes = np.array([[2, 5], [2, 5], [2, 4], [3, 5]], dtype=np.int32)
    fitted = Design.fit(Table(np.zeros((4, 0), np.float32), codes))
    assert list(zip(fitted.level_column, fitted.level_code, strict=True)) == [(0, 2), (1, 5)]


def test_linear_equals_scikit_learn(tmp_path: Path) -> None:
    for task in ("regression", "binary", "multiclass"):
        table, spec, n_classes = make_table(task, n_rows=500)
        context = replace(make_context(task, spec, n_classes, tmp_path), is_ordered=True)
        model = Linear().solve(table, LinearParams(penalty=1e-2), context)
        X = Design.fit(table).matrix(table).astype(np.float64)
        if task == "regression":
            expected = Ridge(alpha=5.0).fit(X, table.target).predict(X)
            np.testing.assert_allclose(model.predict(table), expected, rtol=1e-5)
        else:
            expected = LogisticRegression(C=1 / 5, max_iter=500).fit(X, table.target).predict_proba(X)
            np.testing.assert_allclose(model.predict(table), expected, atol=2e-3)


@pytest.mark.parametrize(("milliseconds", "fitted"), [(60, [40, 240]), (5, [40, 53]), (2, [40])])
def test_a_linear_model_is_fitted_on_as_many_rows_as_the_time_allows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ticking_clock: Callable[[], float],
    milliseconds: int,
    fitted: list[int],
) -> None:
    """The clock advances by a millisecond each time it is read, so that a fit takes one whatever its rows."""
    monkeypatch.setattr(target, "SCORED_ROWS", 40)
    table, spec, n_classes = make_table("binary", n_rows=240)
    train, valid = table.take(np.arange(200)), table.take(np.arange(200, 240))
    solve, n_rows = Linear.solve, list[int]()

    def counted(plugin: Linear, rows: Table, params: LinearParams, context: FitContext) -> LinearModel:
        n_rows.append(len(rows))
        return solve(plugin, rows, params, replace(context, soft_deadline=None))

    monkeypatch.setattr(Linear, "solve", counted)
    context = make_context("binary", spec, n_classes, tmp_path)
    context = replace(context, soft_deadline=ticking_clock() + milliseconds / 1000)
    Linear().fit(train, valid, LinearParams(), context)
    assert n_rows == fitted


@pytest.mark.slow
@pytest.mark.parametrize("plugin", [Linear(), MLP()])
def test_a_regression_stays_within_the_range_of_its_training_target(tmp_path: Path, plugin: Plugin) -> None:
    """Unless the rows are ordered by time."""
    table, spec, _ = make_table("regression", n_rows=300)
    table = Table(table.numeric, table.categorical, 5.0 + table.numeric.astype(np.float64) @ [10.0, -2.0, 0.0, 3.0])
    high = Table(table.numeric + np.float32(4) * np.array([1, -1, 0, 1], np.float32), table.categorical)
    assert table.target is not None
    for is_ordered in (False, True):
        context = replace(make_context("regression", spec, 1, tmp_path), is_ordered=is_ordered)
        folder = tmp_path / str(is_ordered)
        folder.mkdir()
        fitted = plugin.fit(table, table, plugin.defaults("regression", shape_of(table, spec, 1), "cpu"), context)
        fitted.save(folder)
        loaded = plugin.load(folder)
        loaded.check(spec, "regression", 1)
        found = loaded.predict(high)
        np.testing.assert_array_equal(found, fitted.predict(high))
        assert (found.max() <= table.target.max()) != is_ordered
        assert found.min() >= table.target.min()


@pytest.mark.parametrize("limits", [(2.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0)])
def test_limits_that_are_not_usable_are_refused(limits: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="the limits of its predictions"):
        demand_limits(limits)
    with pytest.raises(ValueError, match="the limits of its predictions"):
        Objective(task="regression", n_classes=1, limits=limits).check("regression", 1)


def test_a_linear_target_is_fitted_exactly(tmp_path: Path) -> None:
    table, spec, _ = make_table("regression", n_rows=200)
    table = Table(table.numeric, table.categorical, 5.0 + table.numeric.astype(np.float64) @ [1.0, -2.0, 0.0, 3.0])
    model = Linear().fit(table, table, LinearParams(penalty=1e-9), make_context("regression", spec, 1, tmp_path))
    np.testing.assert_allclose(model.predict(table), table.target, atol=1e-4)


def test_one_neighbor_returns_the_training_target(tmp_path: Path) -> None:
    table, spec, _ = make_table("regression", n_rows=200)
    params = KNeighborsParams(n_neighbors=1)
    model = KNeighbors().keep(table, params, make_context("regression", spec, 1, tmp_path))
    np.testing.assert_allclose(model.predict(table), table.target, rtol=1e-6)


def test_neighbors_vote(tmp_path: Path) -> None:
    numeric = np.array([[0.0], [1.0], [2.0], [10.0]], dtype=np.float32)
    codes = np.zeros((4, 0), dtype=np.int32)
    table = Table(numeric, codes, np.array([0, 0, 1, 1]), np.array([1, 1, 2, 1], np.float32))
    _, spec, _ = make_table("binary", n_numeric=1, cardinalities=())
    params = KNeighborsParams(n_neighbors=3, by_distance=False)
    model = KNeighbors().keep(table, params, make_context("binary", spec, 2, tmp_path))
    # Class 0 has weights 1 and 1, class 1 has weight 2, and one additional vote is spread over both.
    np.testing.assert_allclose(model.predict(table.take(slice(1, 2))), [[0.5, 0.5]], atol=1e-6)
    unweighted = KNeighbors().keep(
        Table(numeric, codes, table.target), params, make_context("binary", spec, 2, tmp_path)
    )
    np.testing.assert_allclose(unweighted.predict(table.take(slice(1, 2)))[0, 0], (2 / 3 + 1 / 6) / (4 / 3), rtol=1e-5)


def test_ties_do_not_depend_on_the_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without it, scikit-learn starts no more threads than the machine has cores.
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    generator = np.random.default_rng(0)
    _, spec, _ = make_table("binary", n_rows=500)
    spec = msgspec.structs.replace(
        spec, numeric=tuple(f"x{i}" for i in range(20)), categorical=(), cardinalities=(), sources=("x",) * 20
    )

    # Columns of equal scale give many equal distances.
    signs = generator.permuted(np.repeat(np.float32([[-1], [1]]), 250, axis=0).repeat(20, axis=1), axis=0)

    def rows(n: int) -> Table:
        return Table(signs[:n], np.zeros((n, 0), np.int32), generator.integers(0, 2, n))

    model = KNeighbors().keep(rows(500), KNeighborsParams(), make_context("binary", spec, 2, tmp_path))
    scored, controller = rows(200), ThreadpoolController()
    predicted = []
    for n_threads in (1, 2, 4):
        with controller.limit(limits=n_threads, user_api="openmp"):
            predicted.append(model.predict(scored))
    np.testing.assert_array_equal(predicted[1:], [predicted[0]] * 2)
