from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from tabapp.data.schema import Column
from tabapp.explain.slices import least_rows, row_errors, slices_of, weak_slices

ROWS = 3000


def column(name, kind):
    return Column(name=name, kind=kind, reason="")


def table(seed=0, rows=ROWS):
    generator = np.random.default_rng(seed)
    age = generator.uniform(18, 90, rows).round(1)
    city = generator.choice(["Berlin", "Hamburg", "Köln"], rows, p=[0.6, 0.3, 0.1])
    noise = {f"noise_{n}": generator.normal(size=rows) for n in range(20)}
    frame = pl.DataFrame({"age": age, "city": city, **noise})
    columns = [column("age", "numeric"), column("city", "categorical"), *(column(name, "numeric") for name in noise)]
    return frame, columns, generator


def test_only_the_worse_slice_is_significant():
    frame, columns, generator = table()
    errors = generator.exponential(0.3, ROWS) + 0.4 * (frame["city"] == "Köln").to_numpy()
    rows, tested = weak_slices(frame, columns, errors, None)
    assert tested == 5 + 3 + 20 * 5
    assert (rows[0].column, rows[0].level, rows[0].clear) == ("city", "= Köln", True)
    assert [row for row in rows if row.clear] == rows[:1]
    assert rows[0].n == (frame["city"] == "Köln").sum()
    assert rows[0].low < rows[0].difference < rows[0].high
    assert rows[0].difference == pytest.approx(0.4, abs=0.1)


@pytest.mark.parametrize("seed", range(20))
def test_no_slice_is_significant_if_all_have_equal_errors(seed):
    frame, columns, generator = table(seed)
    rows, _ = weak_slices(frame, columns, generator.exponential(0.3, ROWS), None)
    assert not any(row.clear for row in rows)


def test_differences_of_smaller_slices_are_shrunk_more():
    frame, columns, generator = table()
    errors = generator.exponential(0.3, ROWS) + 0.3 * (frame["age"] > 75).to_numpy()
    rows, _ = weak_slices(frame, columns, errors, None)
    top = rows[0]
    assert (top.column, top.level) == (
        "age",
        next(level for level, _ in slices_of(columns[0], frame["age"]) if level[0] == ">"),
    )
    raw = top.error - errors[(frame["age"] <= float(top.level[2:])).to_numpy()].mean()
    assert 0 < top.difference < raw
    noise = [row for row in rows if row.column.startswith("noise")]
    assert all(row.difference < 0.5 * raw for row in noise)


def test_small_slices_are_left_out():
    assert [least_rows(n) for n in (100, 3000, 100_000)] == [30, 30, 1000]
    frame = pl.DataFrame({"city": ["a"] * 171 + ["b"] * 29})
    errors = np.r_[np.full(171, 0.1), np.full(29, 5.0)] + np.random.default_rng(0).normal(0, 0.01, 200)
    assert weak_slices(frame, [column("city", "categorical")], errors, None) == ([], 0)


def test_missing_values_are_a_slice_with_a_share_of_wrong_classes():
    generator = np.random.default_rng(0)
    income = [None if n % 5 == 0 else float(n % 97) for n in range(1000)]
    wrong = generator.random(1000) < np.where(np.arange(1000) % 5 == 0, 0.7, 0.1)
    errors = wrong + generator.normal(0, 0.1, 1000)
    rows, _ = weak_slices(pl.DataFrame({"income": income}), [column("income", "numeric")], errors, wrong)
    assert (rows[0].column, rows[0].level, rows[0].n, rows[0].clear) == ("income", "missing", 200, True)
    assert rows[0].share_wrong == pytest.approx(wrong[::5].mean())


def test_ranges_cover_every_row_once():
    numbers = pl.Series("x", [1.0] * 500 + list(np.linspace(2, 10, 400)) + [None] * 100)
    found = slices_of(column("x", "numeric"), numbers)
    assert [name for name, _ in found][-1] == "missing"
    np.testing.assert_array_equal(np.sum([rows for _, rows in found], axis=0), 1)
    assert found[0][0] == "≤ 1"


def test_few_distinct_numbers_are_slices():
    found = slices_of(column("n", "numeric"), pl.Series("n", [0.0] * 5 + [1.0, 2.5, None]))
    assert [(name, int(rows.sum())) for name, rows in found] == [("= 0", 5), ("= 1", 1), ("= 2.5", 1), ("missing", 1)]


@pytest.mark.parametrize(
    ("numbers", "names"),
    [
        ([1e10, 1e10 + 600], ["= 10000000000", "= 10000000600"]),
        ([1e10 + 0.25, 1e10 + 0.5], ["= 10000000000.2", "= 10000000000.5"]),
        ([1e-30, 2e-30], ["= 1e-30", "= 2e-30"]),
        ([1e20, 2e20], ["= 1e+20", "= 2e+20"]),
        ([0.1, 0.25], ["= 0.1", "= 0.25"]),
    ],
)
def test_near_numbers_have_different_names(numbers, names):
    found = slices_of(column("x", "numeric"), pl.Series("x", numbers * 20))
    assert [name for name, _ in found[:-1]] == names


def test_edges_of_ranges_far_from_zero_differ():
    found = slices_of(column("x", "numeric"), pl.Series("x", 1e10 + np.arange(1000.0)))
    assert [name for name, _ in found] == [
        "≤ 10000000200", "10000000200 … 10000000400", "10000000400 … 10000000599", "10000000599 … 10000000799",
        "> 10000000799", "missing",
    ]  # fmt: skip


def test_dates_are_named_as_dates():
    days = pl.Series("day", [datetime(2024, 1, 1) + timedelta(days=n) for n in range(100)])
    names = [name for name, _ in slices_of(column("day", "datetime"), days)]
    assert names[0] == "≤ 2024-01-21"
    assert names[1] == "2024-01-21 … 2024-02-10"


def test_columns_without_slices_are_skipped():
    frame = pl.DataFrame({"text": ["a b"] * 100, "gone": pl.Series([None] * 100, dtype=pl.Float64)})
    columns = [column("text", "text"), column("gone", "numeric"), column("absent", "numeric")]
    assert weak_slices(frame, columns, np.ones(100), None) == ([], 0)


def test_errors_are_log_loss_or_absolute_error():
    name, errors = row_errors("binary", np.array([0, 1]), np.array([[0.5, 0.5], [0.75, 0.25]]))
    assert name == "log loss"
    np.testing.assert_allclose(errors, [np.log(2), np.log(4)])
    name, errors = row_errors("regression", np.array([1.0, 2.0]), np.array([3.0, 1.5]))
    assert (name, errors.tolist()) == ("absolute error", [2.0, 0.5])
