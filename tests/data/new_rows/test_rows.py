"""New rows compared with training: each difference is reported once, and rejections match those of prediction."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.new_rows.rows import NewRows
from tabapp.data.typed import typed_frame
from tabapp.errors import DataError
from tests.data.new_rows.comparing import compared
from tests.data.test_infer import NUMBERS, N, cycle, frame

TABLE = frame(
    x=[str(x) for x in NUMBERS],
    day=[f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(N)],
    city=cycle("Oslo", "Rome", "Bonn"),
    y=cycle("low", "high", "high", "low", "low"),
)
SCHEMA = infer_schema(TABLE, target="y")


def found(table: pl.DataFrame) -> dict[str, tuple[str, bool]]:
    return {match.column: (match.finding, match.refused) for match in compared(table, SCHEMA).matches()}


def changed(**columns: list[str | None]) -> pl.DataFrame:
    return TABLE.drop("y").with_columns(
        **{name: pl.Series(values, dtype=pl.String) for name, values in columns.items()}
    )


def test_training_file_has_no_differences():
    assert found(TABLE.drop("y")) == {}
    assert found(TABLE) == {"y": ("target", False)}
    assert compared(TABLE, SCHEMA, strict=True).notes() == []


@pytest.mark.parametrize(
    ("table", "expected", "is_noted"),
    [
        (TABLE.drop("x", "y"), {"x": ("missing", True)}, False),
        (changed(more=["1"] * N), {"more": ("extra", False)}, False),
        (changed(x=["old"] * N), {"x": ("changed", True)}, False),
        (changed(x=["old", *map(str, NUMBERS[1:])]), {"x": ("cells", False)}, True),
        (changed(x=[str(1000 * x) for x in NUMBERS]), {"x": ("range", False)}, True),
        (changed(day=["soon"] * N), {"day": ("changed", True)}, False),
        (changed(day=["1924-05-01"] * N), {"day": ("range", False)}, True),
        (changed(city=cycle("Oslo", "Paris")), {"city": ("unseen", False)}, True),
        (changed(city=cycle(*["Oslo"] * 9, "Paris")), {"city": ("unseen", False)}, False),
        (changed(city=cycle("OSLO", "rome", "Bonn")), {"city": ("spelling", False)}, True),
        (changed(city=[None] * N), {"city": ("cells", False)}, False),
    ],
)
def test_each_difference_is_reported(table, expected, is_noted):
    assert found(table) == expected
    refused = any(value for _, value in expected.values())
    (name,) = expected
    if refused:
        with pytest.raises(DataError, match=name):
            compared(table, SCHEMA).notes()
    else:
        notes = compared(table, SCHEMA).notes()
        assert len([note for note in notes if repr(name) in note and "ignored" not in note]) == is_noted
    rows = compared(table, SCHEMA, strict=True, fill=True)
    if is_noted:
        with pytest.raises(DataError, match=rf"'{name}' .*\. Omit --strict"):
            rows.notes()
    else:
        rows.notes()


def test_messages_contain_counts():
    match = compared(changed(city=cycle("Oslo", "Paris", "Nice")), SCHEMA).matches()[0]
    assert "2 values not seen in training" in match.message
    assert "'Paris'" in match.message
    match = compared(changed(x=["old", *map(str, NUMBERS[1:])]), SCHEMA).matches()[0]
    assert f"has 1 of {N:,} values that are not numbers: 'old'; they are treated as missing" in match.message


def test_empty_file_has_no_differences():
    assert found(TABLE.drop("y").head(0)) == {}
    assert compared(TABLE.head(0), SCHEMA).notes() == []


def test_missing_columns_are_rejected_by_name():
    table = TABLE.drop("x", "city")
    with pytest.raises(DataError, match="'x', 'city'"):
        NewRows(SCHEMA, table.columns).require_columns()
    with pytest.raises(DataError, match="'x', 'city'"):
        compared(table, SCHEMA).notes()
    assert compared(table, SCHEMA, fill=True).notes() == ["2 columns are absent and treated as missing: 'x', 'city'"]


def test_changed_columns_are_rejected_with_counts_and_examples():
    odd = TABLE.with_columns(x=pl.Series(cycle("a", "b", "c")), day=pl.Series(cycle("3/4/2024", "2024-01-02")))
    with pytest.raises(DataError) as caught:
        compared(odd, SCHEMA).notes()
    assert "'x' (60 of 60 values are not numbers, such as 'a', 'b', 'c')" in str(caught.value)
    assert "'day' (30 of 60 values" in str(caught.value)
    assert "differ from training" in compared(odd, SCHEMA, fill=True).notes()[0]


def test_cells_that_were_texts_in_training_are_not_reported_again():
    texts = ["oops", *map(str, NUMBERS[1:])]
    schema = infer_schema(frame(x=texts, y=cycle("a", "b")), target="y")
    assert schema.column("x").support < 1
    assert compared(frame(x=texts), schema).notes() == []


def test_column_order_does_not_matter_and_extra_columns_are_reported_once():
    other = TABLE.select(reversed(TABLE.columns)).with_columns(more=pl.lit("1"), less=pl.lit("2"))
    assert compared(other, SCHEMA).notes() == ["2 columns are unknown from training and are ignored: 'more', 'less'"]
    assert NewRows(SCHEMA, other.columns).add(other).equals(typed_frame(TABLE, SCHEMA))


def test_parts_count_like_the_whole_table():
    table = changed(x=[str(1000 * x) for x in NUMBERS], city=cycle("Oslo", "Paris", "rome"))
    parts = NewRows(SCHEMA, table.columns)
    typed = pl.concat([parts.add(table[:7]), parts.add(table[7:7]), parts.add(table[7:])])
    whole = NewRows(SCHEMA, table.columns)
    assert typed.equals(whole.add(table))
    assert parts.n_rows == N
    assert parts.notes() == whole.notes()


def test_many_columns_that_differ_alike_are_all_named():
    names = [f"x{i}" for i in range(8)]
    values = np.random.default_rng(1).normal(size=(N, 8))
    table = frame(**{name: values[:, i].round(4) for i, name in enumerate(names)}, y=cycle("a", "b"))
    schema = infer_schema(table, target="y")
    notes = compared(table.with_columns(pl.lit("1e9").alias(name) for name in names), schema).notes()
    assert [note.split(" ")[0] for note in notes] == ["'x0'", "'x1'", "'x2'", "'x3'", "'x4'", "3"]
    assert notes[-1] == "3 more columns differ in the same way: 'x5', 'x6', 'x7'"


def test_rows_without_a_known_column_keep_their_number():
    table = frame(other=["1", "2", "3"])
    assert NewRows(SCHEMA, table.columns, fill=True).add(table).height == 3


def test_a_target_is_compared_where_rows_are_scored():
    rng = np.random.default_rng(0)
    table = frame(x=cycle("a", "b", "c"), y=[f"{value:.4f}" for value in rng.normal(50, 5, N)])
    schema = infer_schema(table, target="y")
    scaled = table.with_columns(y=(pl.col("y").cast(pl.Float64) / 1000).cast(pl.String))
    assert compared(scaled, schema).notes() == []
    (note,) = compared(scaled, schema, with_target=True).notes()
    assert "'y'" in note
    assert "1/1,000" in note


def test_schemas_without_quartiles_are_still_compared_by_their_range():
    columns = tuple(msgspec.structs.replace(column, quartiles=()) for column in SCHEMA.columns)
    old = msgspec.structs.replace(SCHEMA, columns=columns)
    assert compared(TABLE, old).notes() == []
    assert "'x'" in compared(changed(x=[str(1000 * x) for x in NUMBERS]), old).notes()[0]
