"""Marks beside the values of cells, and the companion columns that hold them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import polars as pl
import pytest

from tabapp.data.infer import compare_with_test, infer_schema
from tabapp.data.schema import Schema
from tabapp.data.schema_checks import schema_problem
from tabapp.data.typed import typed_frame
from tabapp.errors import DataError
from tests.data.new_rows.comparing import compared

N = 200


def table(**more: Sequence[str | None]) -> pl.DataFrame:
    chance = random.Random(0)
    lead = [round(chance.lognormvariate(-0.2, 0.9), 2) for _ in range(N)]
    columns: dict[str, Sequence[str | None]] = {
        "lead": ["<0.50" if x < 0.5 else f"{x:.2f}" for x in lead],
        "iron": [f"{chance.uniform(1, 9):.3f}" for _ in range(N)],
        "y": [f"{chance.gauss(0, 1):.4f}" for _ in range(N)],
    }
    return pl.DataFrame({**columns, **more}, schema_overrides=dict.fromkeys({**columns, **more}, pl.String))


def marked(**more: Sequence[str | None]) -> tuple[pl.DataFrame, Schema]:
    frame = table(**more)
    return frame, infer_schema(frame, target="y")


def test_the_companion_follows_its_column():
    frame, schema = marked()
    n_below = sum(cell == "<0.50" for cell in frame["lead"])
    companion = schema.companions["lead"]
    assert [column.name for column in schema.columns] == ["lead", "lead mark", "iron", "y"]
    assert (companion.kind, companion.marks_of, companion.levels) == ("categorical", "lead", ("<",))
    assert (companion.level_counts, companion.missing) == ((n_below,), N - n_below)
    assert [column.name for column in schema.inputs] == ["lead", "iron"]
    assert [column.name for column in schema.features] == ["lead", "lead mark", "iron"]
    assert [column.name for column in schema.columns_of_file] == frame.columns
    typed = typed_frame(frame, schema)
    below = frame["lead"] == "<0.50"
    assert typed.filter(below)["lead"].unique().to_list() == [0.5]
    assert typed["lead mark"].to_list() == ["<" if each else None for each in below]
    assert typed["lead"].null_count() == 0


def test_a_column_of_the_file_may_have_the_name_of_a_companion():
    frame, schema = marked(**{"lead mark": [f"{i % 7}.5" for i in range(N)]})
    assert schema.companions["lead"].name == "lead mark 2"
    typed = typed_frame(frame, schema)
    assert typed["lead mark"].to_list() == [i % 7 + 0.5 for i in range(N)]
    assert typed["lead mark 2"].null_count() < N


def test_a_new_file_needs_only_the_columns_of_the_file():
    frame, schema = marked()
    assert compared(frame, schema, fill=False).notes() == []
    notes = compared(frame.with_columns(pl.lit("~").alias("lead mark")), schema, fill=False).notes()
    assert notes == ["1 columns are unknown from training and are ignored: 'lead mark'"]
    with pytest.raises(DataError, match="columns are missing: 'lead'\\."):
        compared(frame.drop("lead"), schema, fill=False).notes()
    assert [match.column for match in compared(frame.drop("lead"), schema).matches() if match.refused] == ["lead"]
    typed = typed_frame(frame.drop("lead"), schema)
    assert typed["lead"].null_count() == typed["lead mark"].null_count() == N


def test_a_companion_is_never_read_from_the_file():
    frame, schema = marked()
    typed = typed_frame(frame.with_columns(pl.lit("<").alias("lead mark")), schema)
    assert typed.equals(typed_frame(frame, schema))


def test_marks_that_training_did_not_have_are_missing_and_their_values_are_read():
    frame, schema = marked()
    new = frame.head(3).with_columns(lead=pl.Series(["~0.7", "< 0.2", "0.3*"]))
    typed = typed_frame(new, schema)
    assert typed["lead"].to_list() == [0.7, 0.2, 0.3]
    assert typed["lead mark"].to_list() == [None, "<", None]


def test_a_few_marked_cells_make_no_companion():
    frame = table()
    lead = [cell.removeprefix("<") if i > 20 else cell for i, cell in enumerate(frame["lead"].to_list())]
    while sum(cell.startswith("<") for cell in lead) > 4:
        lead[next(i for i, cell in enumerate(lead) if cell.startswith("<"))] = "0.51"
    schema = infer_schema(frame.with_columns(lead=pl.Series(lead)), target="y")
    assert schema.column("lead").kind == "numeric"
    assert schema.companions == {}


@pytest.mark.parametrize("options", [{"ignore": ["lead"]}, {"target": "lead"}, {"weight": "lead"}])
def test_only_features_have_companions(options: dict[str, object]):
    schema = infer_schema(table(), **{"target": "y", **options})  # type: ignore[arg-type]
    assert schema.companions == {}
    assert "lead mark" not in typed_frame(table(), schema).columns


def test_a_leak_of_the_marks_is_one_of_the_column():
    frame = table()
    y = ["yes" if cell == "<0.50" else "no" for cell in frame["lead"]]
    schema = infer_schema(frame.with_columns(y=pl.Series(y)), target="y")
    assert [warning.column for warning in schema.warnings if warning.check == "leak"] == ["lead"]


def test_a_change_of_the_marks_is_one_of_the_column():
    frame, schema = marked()
    below = frame.with_columns(lead="<" + frame["lead"].str.strip_prefix("<"))
    found = compare_with_test(frame, below, schema)
    assert [(warning.column, warning.message[:9]) for warning in found] == [("lead", "Its marks")]


def test_a_schema_with_a_wrong_companion_is_refused():
    import msgspec

    _, schema = marked()
    lead, companion, *rest = schema.columns
    for columns in (
        [lead, msgspec.structs.replace(companion, marks_of="y"), *rest],
        [lead, msgspec.structs.replace(companion, kind="numeric"), *rest],
        [lead, companion, msgspec.structs.replace(companion, name="twice"), *rest],
        [msgspec.structs.replace(lead, role="ignore"), companion, *rest],
    ):
        assert schema_problem(msgspec.structs.replace(schema, columns=tuple(columns))) is not None
    assert schema_problem(schema) is None
