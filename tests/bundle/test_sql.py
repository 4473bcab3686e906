"""Bundles as SQL: a database predicts what the bundle predicts."""

from __future__ import annotations

import sqlite3

import numpy as np
import polars as pl
import pytest

from tabapp.bundle.load import load_bundle
from tabapp.bundle.sql import Number, _of_derived, boundary, write_sql
from tabapp.cli.main import run_command_line
from tabapp.errors import UsageError
from tabapp.features.derived import Arithmetic, Deviation, Numbers
from tests.bundle.portable import BOOSTERS, POISSON, make_bundle, new_rows


def run_query(query: str, typed: pl.DataFrame) -> tuple[list[str], list[tuple[object, ...]]]:
    """Load typed rows into SQLite, and run a query on them."""
    with sqlite3.connect(":memory:") as database:
        database.create_function("exp", 1, np.exp)
        database.create_function("power", 2, pow)
        columns = ", ".join(
            f'"{name}" {"REAL" if typed[name].dtype == pl.Float64 else "TEXT"}' for name in typed.columns
        )
        database.execute(f"CREATE TABLE data ({columns})")
        database.executemany(f"INSERT INTO data VALUES ({', '.join('?' * typed.width)})", typed.rows())
        cursor = database.execute(query)
        return [each[0] for each in cursor.description], cursor.fetchall()


@pytest.mark.parametrize(
    ("task", "names", "changes"),
    [
        *(
            (task, ["lightgbm", "catboost", "linear", "extra_trees"], {})
            for task in ("binary", "multiclass", "regression")
        ),
        ("regression", BOOSTERS, POISSON),
    ],
)
def test_a_database_predicts_like_the_bundle(task, names, changes, tmp_path, capfd):
    bundle = make_bundle(tmp_path, task, names, changes=changes)
    assert run_command_line(["export", str(bundle), "--sql", str(tmp_path / "model.sql")]) == 0
    assert capfd.readouterr().out.split() == [str(tmp_path / "model.sql")]
    predictor = load_bundle(bundle).predictor
    rows = new_rows(task).drop("joined", "outcome")
    expected = predictor.to_frame(predictor.predict_frame(rows))
    typed = predictor.typed_rows(rows)[0].drop("outcome", strict=False)
    names, found = run_query((tmp_path / "model.sql").read_text(), typed)
    assert names == expected.columns
    for name, values in zip(names, zip(*found, strict=True), strict=True):
        if expected[name].dtype == pl.String:
            assert list(values) == expected[name].to_list()
        else:
            scale = np.ptp(expected[name].to_numpy()) if task == "regression" else 1.0
            np.testing.assert_allclose(np.array(values, dtype=float), expected[name].to_numpy(), atol=1e-6 * scale)


@pytest.mark.parametrize("operation", ["sum", "difference", "product", "ratio"])
def test_arithmetic_of_two_columns_is_an_expression(operation):
    a, b = [4.0, 7.0, None, 0.0, 1.0], [2.0, 0.0, 3.0, 0.0, None]
    values = np.array([a, b], dtype=float).T
    feature = Arithmetic(operation, 0, 1)
    source = _of_derived(feature, [Number('"a"'), Number('"b"')])
    assert isinstance(source, Number)
    frame = pl.DataFrame({"a": a, "b": b})
    found = [row[0] for row in run_query(f"SELECT {source.expression} FROM data", frame)[1]]
    np.testing.assert_array_equal(
        np.array(found, dtype=float), Numbers(values, lambda _: np.zeros(5)).derived(feature, None)
    )
    assert _of_derived(feature, [Number('"a"'), None]) is None
    assert _of_derived(Deviation(0, 1), [Number('"a"'), None]) is None


def test_members_without_a_counterpart_are_named(tmp_path):
    bundle = make_bundle(tmp_path, "binary", ["k_neighbors"])
    with pytest.raises(UsageError, match="k_neighbors is neither trees nor a linear function"):
        write_sql(bundle, tmp_path / "model.sql")
    assert not (tmp_path / "model.sql").exists()


@pytest.mark.parametrize("threshold", [0.1, -0.1, 1.0, 3.4e38, 1e-40, 0.0, 12345.678])
def test_doubles_compare_with_a_boundary_as_their_single_precision_with_the_threshold(threshold):
    single = np.float32(threshold)
    limit = boundary(single)
    around = [np.nextafter(limit, -np.inf), limit, np.nextafter(limit, np.inf), float(single), threshold]
    with np.errstate(over="ignore"):
        assert [value <= limit for value in around] == [bool(np.float32(value) <= single) for value in around]
