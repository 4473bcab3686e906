"""Bundles as SQL: a database predicts what the bundle predicts."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tabapp.bundle.export.code_text import sql_name, sql_text
from tabapp.bundle.export.sql import Number, _of_derived, boundary, write_sql
from tabapp.bundle.prediction.load import load_bundle
from tabapp.cli.main import run_command_line
from tabapp.errors import UsageError
from tabapp.features.derived import Arithmetic, Deviation, Numbers
from tests.bundle.making import COLORS, text_table
from tests.bundle.portable import BOOSTERS, POISSON, make_bundle, new_rows


def run_query(query: str, typed: pl.DataFrame) -> tuple[list[str], list[tuple[object, ...]]]:
    """Load typed rows into SQLite, and run a query on them."""
    with sqlite3.connect(":memory:") as database:
        database.create_function("exp", 1, np.exp)
        database.create_function("power", 2, pow)
        columns = ", ".join(
            f"{sql_name(name)} {'REAL' if typed[name].dtype == pl.Float64 else 'TEXT'}" for name in typed.columns
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


def assert_same_predictions(bundle: Path, rows: pl.DataFrame) -> None:
    """SQLite predicts what the bundle predicts."""
    write_sql(bundle, bundle.with_suffix(".sql"))
    predictor = load_bundle(bundle).predictor
    expected = predictor.to_frame(predictor.predict_frame(rows))
    names, found = run_query(bundle.with_suffix(".sql").read_text(), predictor.typed_rows(rows)[0])
    assert names == expected.columns
    for name, values in zip(names, zip(*found, strict=True), strict=True):
        if expected[name].dtype == pl.String:
            assert list(values) == expected[name].to_list()
        else:
            np.testing.assert_allclose(np.array(values, dtype=float), expected[name].to_numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("change", [str.lower, str.upper])
@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("binary", ["p0", "m1_1", "t"]),
        ("multiclass", ["p1", "probability_low", "outputs"]),
        ("regression", ["prediction", "m1_1", "low"]),
    ],
)
def test_columns_named_like_those_of_the_query_are_not_confused(task, names, change, tmp_path):
    def renamed(rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.drop("joined").with_columns(p2=pl.col("age"), blended=pl.col("size"))
        rows = rows.select(pl.exclude("outcome"), "outcome")
        return rows.rename(dict(zip(("size", "age", "color"), map(change, names), strict=True)))

    bundle = make_bundle(tmp_path, task, ["linear", "lightgbm"], frame=renamed(text_table(task)))
    assert_same_predictions(bundle, renamed(new_rows(task)))


ODD = ("back\\slash", "\\", "\\'; DROP TABLE data; --", "it's", "''", "new\nline", "\x1b[0m --", "/* */ ; $$ %s ? :x")


def odd_table(n_rows: int = 160, seed: int = 0) -> pl.DataFrame:
    """A table with odd levels, column names and class labels."""
    rows = text_table("binary", n_rows, seed).select("size", "color", "outcome")
    levels = [ODD[2 * COLORS.index(color) + number % 2] for number, color in enumerate(rows["color"])]
    labels = pl.col("outcome").replace({"no": ODD[2], "yes": '5"'})
    rows = rows.select("size", pl.Series("level", levels), labels)
    return rows.rename({"size": 'a"x; --', "level": "c\\d\n'e'", "outcome": "*/ y"})


def test_odd_texts_are_data_in_a_query(tmp_path):
    bundle = make_bundle(tmp_path, "binary", ["linear", "extra_trees"], frame=odd_table())
    assert_same_predictions(bundle, odd_table(40, seed=3))
    query = bundle.with_suffix(".sql").read_text()
    assert all(line.startswith("-- ") for line in query.splitlines()[:3])
    assert outside_texts(query, escapes=True) == outside_texts(query, escapes=False)
    assert "DROP" not in outside_texts(query, escapes=True)


def outside_texts(query: str, *, escapes: bool) -> str:
    """A query without its texts, as a database reads it that takes a backslash in quotes for an escape, or does not."""
    inside = r"\\.|''|[^'\\]" if escapes else r"''|[^']"
    named = r'\\.|""|[^"\\]' if escapes else r'""|[^"]'
    return re.sub(rf"""--[^\n]*|'(?:{inside})*'|"(?:{named})*\"""", "·", query, flags=re.DOTALL)


@pytest.mark.parametrize("name", ["a\\", 'a\\"b', "a\0b"])
@pytest.mark.parametrize("make", [sql_name, lambda name: sql_text(name.replace("\\", "\0"))])
def test_what_sql_cannot_contain_is_refused(name, make):
    with pytest.raises(UsageError, match="cannot be written as SQL"):
        make(name)


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
