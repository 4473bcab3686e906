"""Numbers of new rows that are written with another decimal mark than in training."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.new_rows.rows import NewRows
from tabapp.data.schema import Schema
from tabapp.data.stored import as_text

RNG = np.random.default_rng(5)
LENGTHS = RNG.uniform(0.5, 2500, 400)
MASSES = RNG.uniform(0.05, 20, 400)


def us(value: float, digits: int = 3) -> str:
    return f"{value:,.{digits}f}"


def plain(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}"


def german(value: float, digits: int = 3) -> str:
    return us(value, digits).translate(str.maketrans(",.", ".,"))


def comma(value: float, digits: int = 3) -> str:
    return plain(value, digits).replace(".", ",")


def french(value: float, digits: int = 3) -> str:
    return us(value, digits).replace(",", " ").replace(".", ",")


WAYS = {way.__name__: way for way in (us, plain, german, comma, french)}


def table(way, lengths=LENGTHS, masses=MASSES, *, digits: int = 3) -> pl.DataFrame:
    texts = {"length": lengths, "mass": masses, "y": np.arange(len(lengths)) % 2}
    return pl.DataFrame(
        {name: [str(v) if name == "y" else way(v, digits) for v in values] for name, values in texts.items()}
    )


def schema_of(way) -> Schema:
    return infer_schema(table(way), target="y")


def read(schema: Schema, frame: pl.DataFrame, decimal: str | None = "auto") -> tuple[pl.DataFrame, list[str]]:
    rows = NewRows(schema, frame.columns, decimal=decimal)
    return rows.add(frame), rows.notes()


@pytest.mark.parametrize("n_rows", [60, 1])
@pytest.mark.parametrize("new", WAYS)
@pytest.mark.parametrize("old", WAYS)
def test_numbers_are_right_in_every_notation(old, new, n_rows):
    lengths, masses = RNG.uniform(1, 990, n_rows), RNG.uniform(1, 19, n_rows)
    typed, notes = read(schema_of(WAYS[old]), table(WAYS[new], lengths, masses))
    np.testing.assert_allclose(typed["length"].to_numpy(), lengths, atol=6e-4)
    np.testing.assert_allclose(typed["mass"].to_numpy(), masses, atol=6e-4)
    has_comma = {way: way not in ("us", "plain") for way in WAYS}
    expected = ["length", "mass"] if has_comma[old] != has_comma[new] else []
    assert [note.split("'")[1] for note in notes] == expected
    assert all("another decimal mark" in note and "--decimal" in note for note in notes)


@pytest.mark.parametrize("new", WAYS)
@pytest.mark.parametrize("old", WAYS)
def test_a_given_mark_decides_without_a_note(old, new):
    mark = "." if new in ("us", "plain") else ","
    frame = table(WAYS[new])
    typed, notes = read(schema_of(WAYS[old]), frame, mark)
    np.testing.assert_allclose(typed["length"].to_numpy(), LENGTHS, atol=6e-4)
    np.testing.assert_allclose(typed["mass"].to_numpy(), MASSES, atol=6e-4)
    assert notes == []


def test_units_keep_their_place():
    old = table(german).with_columns(pl.col("mass") + " kg")
    schema = infer_schema(old, target="y")
    assert schema.column("mass").unit == "kg"
    new = table(plain).with_columns(pl.col("mass") + " kg")
    for decimal in (".", "auto"):
        np.testing.assert_allclose(read(schema, new, decimal)[0]["mass"].to_numpy(), MASSES, atol=6e-4)


def wide() -> tuple[Schema, np.ndarray]:
    """A column whose range has room for numbers and for a thousand times as much."""
    values = np.exp(RNG.uniform(np.log(0.5), np.log(2e6), 400)) + 0.25
    return infer_schema(table(german, values), target="y"), values


def test_a_column_that_fits_both_ways_follows_the_others_of_its_file():
    schema, _ = wide()
    lengths, masses = RNG.uniform(1, 990, 60), RNG.uniform(1, 19, 60)
    typed, notes = read(schema, table(plain, lengths, masses))
    np.testing.assert_allclose(typed["length"].to_numpy(), lengths, atol=6e-4)
    assert len(notes) == 2


def test_a_column_that_fits_both_ways_is_read_as_in_training_and_reported():
    schema, _ = wide()
    lengths = np.exp(RNG.uniform(np.log(1), np.log(990), 60))
    frame = table(plain, lengths, np.full(60, np.nan)).with_columns(mass=pl.lit(None, dtype=pl.String))
    typed, notes = read(schema, frame)
    assert typed["length"].to_list() == pytest.approx((1000 * lengths).round())
    (note,) = notes
    cell = frame["length"][0]
    assert f"'length' can be read with either decimal mark: {cell!r} is read as {cell.replace('.', '')}" in note
    typed, notes = read(schema, frame, ".")
    np.testing.assert_allclose(typed["length"].to_numpy(), lengths, atol=6e-4)
    assert not any("decimal mark:" in note for note in notes)


def test_numbers_with_a_decimal_comma_prove_that_a_file_is_as_in_training():
    schema, values = wide()
    typed, notes = read(schema, table(german, values[:60], np.full(60, 1.5)))
    np.testing.assert_allclose(typed["length"].to_numpy(), values[:60], atol=6e-4)
    assert notes == []


def test_points_between_thousands_are_found_where_training_had_none():
    old = pl.DataFrame({"x": [str(int(v)) for v in RNG.uniform(1000, 9000, 300)], "y": ["a", "b", "b"] * 100})
    schema = infer_schema(old, target="y")
    values = RNG.uniform(1000, 9000, 40).astype(int)
    frame = pl.DataFrame({"x": [f"{value:,}".replace(",", ".") for value in values]})
    typed, notes = read(schema, frame)
    assert typed["x"].to_list() == values.tolist()
    assert "'x' is written with another decimal mark" in notes[0]


@pytest.mark.parametrize("old", WAYS)
def test_typed_numbers_have_no_mark_to_decide(old):
    schema = schema_of(WAYS[old])
    new = pl.DataFrame({"length": [512_250.0, 1e6, 4e5], "mass": [1.5, 2.5, 3.5]})
    typed, notes = read(schema, as_text(new, "data", schema.columns), None)
    assert typed["length"].to_list() == new["length"].to_list()
    (note,) = notes
    assert re.search(r"'length' has 3 of 3 values outside of the training range", note)


def test_later_parts_are_read_like_the_first():
    schema = schema_of(german)
    frame = table(plain, RNG.uniform(1, 990, 60), RNG.uniform(1, 19, 60))
    rows = NewRows(schema, frame.columns, decimal="auto")
    parts = pl.concat([rows.add(frame[:0]), rows.add(frame[:40]), rows.add(frame[40:])])
    assert parts.equals(read(schema, frame)[0])
    assert len(rows.notes()) == 2


@pytest.mark.parametrize("separator", [" ", "\u202f", "'"])
def test_other_separators_of_thousands_change_no_number(separator):
    old = pl.DataFrame({"x": [str(int(v)) for v in RNG.uniform(1000, 90_000, 300)], "y": ["a", "b", "b"] * 100})
    schema = infer_schema(old, target="y")
    values = RNG.uniform(1000, 90_000, 40).astype(int)
    typed, notes = read(schema, pl.DataFrame({"x": [f"{value:,}".replace(",", separator) for value in values]}))
    assert typed["x"].to_list() == values.tolist()
    assert notes == []
