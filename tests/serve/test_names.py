"""Names of columns in requests, and columns that do not hold one value in each row."""

from __future__ import annotations

import json
import unicodedata
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.schema import Schema
from tabapp.data.stored import as_text
from tabapp.serve.bodies import ARROW, CSV, JSON, PARQUET, Body, decode_file
from tabapp.serve.limits import Limits, RequestError

SIZE = "Größe"
TRAINING = pl.DataFrame(
    {SIZE: [float(i % 7) for i in range(60)], "color": ["red", "blue"] * 30, "y": ["a", "b", "b"] * 20}
)


def schema_with(left_out: dict[str, str] | None = None) -> Schema:
    return infer_schema(as_text(TRAINING, "t"), target="y", left_out=left_out or {})


def decoded(frame: pl.DataFrame, kind: str, schema: Schema, folder: Path) -> Body:
    content = BytesIO()
    if kind == JSON:
        content.write(json.dumps({"rows": frame.to_dicts()}).encode())
    else:
        {CSV: frame.write_csv, ARROW: frame.write_ipc, PARQUET: frame.write_parquet}[kind](content)
    (folder / "body").write_bytes(content.getvalue())
    return decode_file(folder / "body", kind, schema, Limits())


@pytest.mark.parametrize("kind", [JSON, CSV, ARROW, PARQUET])
def test_names_in_another_unicode_form_are_those_of_training(kind: str, tmp_path: Path) -> None:
    rows = TRAINING.drop("y").rename({SIZE: unicodedata.normalize("NFD", SIZE)})
    body = decoded(rows, kind, schema_with(), tmp_path)
    assert set(body.frame.columns) == {SIZE, "color"}
    assert body.frame[SIZE].cast(pl.Float64).to_list() == TRAINING[SIZE].to_list()
    (note,) = body.notes
    assert "Unicode form" in note
    assert repr(SIZE) in note


@pytest.mark.parametrize("kind", [JSON, ARROW, PARQUET])
def test_nested_columns_are_left_out(kind: str, tmp_path: Path) -> None:
    rows = TRAINING.drop("y").with_columns(tags=pl.concat_list("color"), more=pl.struct("color"))
    body = decoded(rows, kind, schema_with(), tmp_path)
    assert set(body.frame.columns) == {SIZE, "color"}
    assert all(repr(name) in body.notes[0] for name in ("tags", "more"))
    known = decoded(rows, kind, schema_with({"tags": "lists", "more": "structures"}), tmp_path)
    assert set(known.frame.columns) == {SIZE, "color"}
    assert known.notes == ()


def test_a_list_in_a_feature_is_refused(tmp_path: Path) -> None:
    rows = TRAINING.drop("y").with_columns(color=pl.concat_list("color"))
    with pytest.raises(RequestError, match="'color' is a JSON list"):
        decoded(rows, JSON, schema_with(), tmp_path)
