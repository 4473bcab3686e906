"""Short columns are judged in Python: with the same verdicts as by queries of polars, and without a query per column."""

from __future__ import annotations

from itertools import product
from types import ModuleType

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabapp.data import counts, duplicates, infer, leaks, small
from tabapp.data.counts import count_values
from tabapp.data.forms import missing, numbers
from tabapp.data.infer import infer_schema
from tabapp.data.kinds.kinds import judge
from tabapp.data.schema import Column
from tests.data.test_counts import COUNTED, PLAIN

MODULES: tuple[ModuleType, ...] = (counts, duplicates, infer, leaks, small, missing, numbers)
N = 120
MORE = {
    "currencies": [f"${i},{i % 7}00.5" for i in range(N)],
    "parentheses": [f"({i}.5)" if i % 3 else f"{i}.25" for i in range(N)],
    "german": [f"{i}.{i:03},5" for i in range(1, N)],
    "spaces as thousands": [f"{i}\u202f{i:03}" for i in range(1, N)],
    "apostrophes": [f"{i}’{i:03}" for i in range(1, N)],
    "minus signs": [f"\u2212{i}.5" for i in range(N)],
    "percents": [f"{i} %" for i in range(N)],
    "times": [f"{i % 24:02}:{i % 60:02}" for i in range(N)],
    "durations": [f"{i}h {i % 60}m" for i in range(N)],
    "dates": [f"{i % 28 + 1:02}.{i % 12 + 1:02}.2024" for i in range(N)],
    "moments": [f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}T{i % 24:02}:00:00Z" for i in range(N)],
    "months": [f"{('Jan', 'March')[i % 2]} {i % 28 + 1}, 2024" for i in range(N)],
    "mixed": [("a1", "b2,3", "4.5 kg", "1/2")[i % 4] for i in range(N)],
    "answers": [("Yes", "no", "NO", None)[i % 4] for i in range(N)],
    "signs": [("+", "-")[i % 2] for i in range(N)],
    "gaps": [("n/a", " NULL ", "x", "\u00a0", "-")[i % 5] for i in range(N)],
    "ranges": [("<5", "5-9", "10+")[i % 3] for i in range(N)],
    "sentences": [f"the word {i} and\u2003more\x1fwords" for i in range(N)],
    "one": ["same"] * N,
    "nothing": [None] * N,
    "infinities": [("inf", "-inf", "1.5")[i % 3] for i in range(N)],
    "digits of other scripts": [f"{i}٣" for i in range(N)],
}
COLUMNS = {name: cells[:N] for name, cells in (PLAIN | COUNTED).items()} | MORE


def verdict(name: str, cells: list[str | None]) -> tuple[Column, list[str | None]]:
    counted = count_values(pl.Series(name, cells, dtype=pl.String))
    return judge(counted), counted.texts.to_list()


def use_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in product(MODULES, ("SMALL", "FEW")):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, 0)


@pytest.mark.parametrize("name", COLUMNS)
def test_short_columns_have_the_same_verdict_as_by_queries(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdict(name, COLUMNS[name])
    use_queries(monkeypatch)
    assert found == verdict(name, COLUMNS[name])


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | st.text(" \t\u00a0.,'-+%$€0123456789eEaA()", max_size=6), min_size=1, max_size=30))
def test_any_short_column_has_the_same_verdict_as_by_queries(cells: list[str | None]) -> None:
    found = verdict("column", cells)
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_queries(monkeypatch)
        assert found == verdict("column", cells)


def test_schemas_of_short_tables_are_the_same_as_by_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {name: [*cells, *[None] * (N - len(cells))] for name, cells in COLUMNS.items()}
    columns |= {f"copy of {name}": columns[name] for name in ("floats", "dates", "answers")}
    frame = pl.DataFrame(
        {**columns, "y": [str(i % 2) for i in range(N)]}, schema_overrides=dict.fromkeys(columns, pl.String)
    )
    found = infer_schema(frame, target="y")
    use_queries(monkeypatch)
    assert found == infer_schema(frame, target="y")


def wide_table(n_columns: int) -> pl.DataFrame:
    cells = (
        lambda i, j: f"{(i * 7919 + j * 31) % 1000 / 8}",
        lambda i, j: str((i * j + i) % 2),
        lambda i, j: ("red", "green", "blue")[(i + j) % 3],
        lambda i, j: f"2024-{(i + j) % 12 + 1:02}-01",
        lambda i, j: f"{i + j} kg",
        lambda i, j: "same",
        lambda i, j: str((i * 13 + j) % 251),
        lambda i, j: str(0 if i % 5 == 0 else 30 + (i * 7 + j) % 11),
    )
    columns = {f"c{j}": [cells[j % len(cells)](i, j) for i in range(24)] for j in range(n_columns)}
    return pl.DataFrame({**columns, "y": [str(i % 2) for i in range(24)]})


def test_a_column_of_a_wide_table_costs_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation on a Series is a query, which takes 0.2 ms: 50,000 columns and 30 operations would take five minutes."""
    n_queries = 0
    collect = pl.LazyFrame._collect_eager

    def counting(self: pl.LazyFrame, *options: object, **named: object) -> pl.DataFrame:
        nonlocal n_queries
        n_queries += 1
        return collect(self, *options, **named)

    monkeypatch.setattr(pl.LazyFrame, "_collect_eager", counting)
    pl.Series(["a"]).str.contains("a").to_frame().drop_nulls()
    assert n_queries == 2, "operations of a Series and of a DataFrame are counted"
    monkeypatch.setattr(infer, "MAX_SEARCHED", 4)
    monkeypatch.setattr(leaks, "_MAX_EXAMINED", 4)
    found: list[int] = []
    for n_columns in (70, 280):
        frame, n_queries = wide_table(n_columns), 0
        infer_schema(frame, target="y")
        found.append(n_queries)
    assert found[1] - found[0] < 21, f"{found} queries for 70 and 280 columns"


def test_columns_beyond_the_limit_of_a_search_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infer, "MAX_SEARCHED", 2)
    schema = infer_schema(wide_table(70), target="y")
    assert [schema.column(f"c{j}").kind for j in (3, 4, 11, 12)] == ["datetime", "numeric", "categorical", "text"]
    assert "too many such columns" in schema.column("c11").reason
    assert "too many such columns" not in schema.column("c3").reason


def test_columns_that_differ_in_few_cells_are_distinguished() -> None:
    cells = [str(i % 50) for i in range(3_000)]
    columns = {f"c{j}": [*cells[:j], "99", *cells[j + 1 :]] for j in range(1, 8)}
    frame = pl.DataFrame({**columns, "copy": columns["c3"], "y": [str(i % 2) for i in range(3_000)]})
    schema = infer_schema(frame, target="y")
    assert [column.name for column in schema.columns if column.role == "ignore"] == ["copy"]
