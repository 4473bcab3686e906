"""Conversion of text to typed columns, and files that differ from the training file."""

from __future__ import annotations

import unicodedata

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.schema import Schema
from tabapp.data.typed import encode_target, rows_with_target, typed_frame
from tabapp.errors import DataError
from tests.data.test_infer import NUMBERS, N, cycle, frame

TABLE = frame(
    id=range(N),
    x=[f" {x} " for x in NUMBERS],
    day=[f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(N)],
    flag=cycle("Yes", "No", "NA"),
    city=cycle("Oslo ", " Rome", "?", "Bonn"),
    y=cycle("low", "high", "high", "low", "low"),
)
SCHEMA = infer_schema(TABLE, target="y")


def test_types_of_columns() -> None:
    typed = typed_frame(TABLE, SCHEMA)
    assert dict(typed.schema) == {
        "x": pl.Float64, "day": pl.Datetime("us"), "flag": pl.String, "city": pl.String, "y": pl.String,
    }  # fmt: skip
    assert typed["x"].to_list() == NUMBERS
    assert typed["city"].to_list() == cycle("Oslo", "Rome", None, "Bonn")
    assert typed["flag"].null_count() == N // 3
    assert typed["day"].null_count() == 0


def test_schema_round_trip_through_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SCHEMA), type=Schema) == SCHEMA


def test_file_to_predict_is_typed_by_the_training_schema() -> None:
    other = frame(
        extra=["?", "?"],
        city=["Atlantis", "NA"],
        flag=["true", "0"],
        x=["1e400", "seven"],
        day=["2030-02-30", "2030-02-28"],
    )
    typed = typed_frame(other, SCHEMA)
    assert typed.columns == ["x", "day", "flag", "city"]
    assert typed["x"].to_list() == [None, None]
    assert typed["flag"].to_list() == ["Yes", "No"]
    assert typed["city"].to_list() == ["Atlantis", None]
    assert [str(day) for day in typed["day"]] == ["None", "2030-02-28 00:00:00"]


def test_absent_columns_are_missing() -> None:
    typed = typed_frame(frame(x=["1", "2"]), SCHEMA)
    assert typed.columns == ["x", "day", "flag", "city"]
    assert typed.dtypes == [pl.Float64, pl.Datetime("us"), pl.String, pl.String]
    assert typed["city"].null_count() == 2


def test_frame_without_rows() -> None:
    typed = typed_frame(TABLE.clear(), SCHEMA)
    assert typed.height == 0
    assert typed.width == 5
    assert len(encode_target(typed, SCHEMA)) == 0


def test_class_labels_are_encoded() -> None:
    typed = typed_frame(TABLE, SCHEMA)
    assert rows_with_target(TABLE, SCHEMA).all()
    codes = encode_target(typed, SCHEMA)
    assert codes.dtype == np.int64
    assert [SCHEMA.classes[code] for code in codes] == TABLE["y"].to_list()


def test_numeric_targets_stay_numbers() -> None:
    table = frame(x=cycle(1, 2, 3), y=["?", "inf", *map(str, NUMBERS[2:])])
    schema = infer_schema(table, target="y")
    rows = rows_with_target(table, schema)
    assert np.flatnonzero(~rows).tolist() == [0, 1]
    typed = typed_frame(table, schema)
    assert (rows_with_target(typed, schema) == rows).all()
    assert encode_target(typed.filter(rows), schema).tolist() == NUMBERS[2:]
    with pytest.raises(DataError, match="2 rows have no value"):
        encode_target(typed, schema)


def test_numeric_labels_match_by_value() -> None:
    schema = infer_schema(frame(x=NUMBERS, y=cycle(0, 1, 2)), target="y")
    assert schema.classes == ("0", "1", "2")
    assert encode_target(typed_frame(frame(x=[1, 2, 3], y=["2.0", "0", "1e0"]), schema), schema).tolist() == [2, 0, 1]


def test_boolean_labels_match_in_any_spelling() -> None:
    schema = infer_schema(frame(x=NUMBERS, y=cycle("True", "False")), target="y")
    assert encode_target(typed_frame(frame(x=[1, 2, 3], y=["true", "FALSE", "True"]), schema), schema).tolist() == [
        1,
        0,
        1,
    ]


def test_unknown_labels_are_rejected_by_name() -> None:
    other = TABLE.with_columns(y=pl.lit("medium"))
    with pytest.raises(DataError, match="'medium'"):
        encode_target(typed_frame(other, SCHEMA), SCHEMA)
    with pytest.raises(DataError, match="no target column 'y'"):
        rows_with_target(TABLE.drop("y"), SCHEMA)


@pytest.mark.parametrize("n_rows", [60, 30_000])
def test_composed_and_decomposed_letters_are_one_level_and_one_class(n_rows):
    composed, decomposed = "Gr\u00f6\u00dfe", "Gro\u0308\u00dfe"
    texts = [composed, decomposed, "Breite", composed] * (n_rows // 4)
    table = pl.DataFrame({"label": texts, "size": [str(i * 7 % 101) for i in range(n_rows)], "kind": texts[::-1]})
    schema = infer_schema(table, target="kind")
    assert set(schema.column("label").levels) == set(schema.classes) == {composed, "Breite"}
    typed = typed_frame(table, schema)
    assert set(typed["label"]) == {composed, "Breite"}
    codes = encode_target(typed, schema)
    earlier = msgspec.structs.replace(
        schema, classes=tuple(unicodedata.normalize("NFD", text) for text in schema.classes)
    )
    assert encode_target(typed, earlier).tolist() == codes.tolist() == encode_target(table, schema).tolist()
