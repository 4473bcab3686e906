"""Comparison of a file to predict with training. Each difference is reported once, and rejections match those of prediction."""

from __future__ import annotations

import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.match import match_columns
from tabapp.data.typed import check_columns
from tabapp.errors import DataError
from tests.data.test_infer import NUMBERS, N, cycle, frame

TABLE = frame(
    x=[str(x) for x in NUMBERS],
    day=[f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(N)],
    city=cycle("Oslo", "Rome", "Bonn"),
    y=cycle("low", "high", "high", "low", "low"),
)
SCHEMA = infer_schema(TABLE, target="y")


def found(table: pl.DataFrame) -> dict[str, tuple[str, bool]]:
    return {match.column: (match.finding, match.refused) for match in match_columns(table, SCHEMA)}


def changed(**columns: list[str | None]) -> pl.DataFrame:
    return TABLE.drop("y").with_columns(
        **{name: pl.Series(values, dtype=pl.String) for name, values in columns.items()}
    )


def test_training_file_has_no_differences():
    assert found(TABLE.drop("y")) == {}
    assert found(TABLE) == {"y": ("target", False)}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (TABLE.drop("x", "y"), {"x": ("missing", True)}),
        (changed(more=["1"] * N), {"more": ("extra", False)}),
        (changed(x=["old"] * N), {"x": ("changed", True)}),
        (changed(x=["old", *map(str, NUMBERS[1:])]), {"x": ("cells", False)}),
        (changed(day=["soon"] * N), {"day": ("changed", True)}),
        (changed(city=cycle("Oslo", "Paris")), {"city": ("unseen", False)}),
        (changed(city=[None] * N), {"city": ("cells", False)}),
    ],
)
def test_each_difference_is_reported(table, expected):
    assert found(table) == expected
    try:
        check_columns(table, SCHEMA, False)
        refused = False
    except DataError:
        refused = True
    assert refused == any(value for _, value in expected.values())


def test_messages_contain_counts():
    match = match_columns(changed(city=cycle("Oslo", "Paris", "Nice")), SCHEMA)[0]
    assert "2 values not seen in training" in match.message
    assert "'Paris'" in match.message
    match = match_columns(changed(x=["old", *map(str, NUMBERS[1:])]), SCHEMA)[0]
    assert f"1 of {N:,} values are not numbers: 'old'; they are treated as missing" in match.message


def test_empty_file_has_no_differences():
    assert found(TABLE.drop("y").head(0)) == {}
