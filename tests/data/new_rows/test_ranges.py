"""Scales of numbers and dates: what is reported, and what is not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.data.counts import quartiles_of
from tabapp.data.infer import infer_schema
from tabapp.data.new_rows.findings import is_unexpected, range_of
from tabapp.data.new_rows.ranges import power_of_ten
from tabapp.data.new_rows.rows import NewRows
from tabapp.data.schema import Column, Schema

N = 600
DRAWS = {
    "uniform": lambda rng, n: rng.uniform(0, 1, n),
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "shifted": lambda rng, n: rng.normal(20, 6, n),
    "lognormal": lambda rng, n: rng.lognormal(8, 1.5, n),
    "pareto": lambda rng, n: rng.pareto(1.0, n) + 1,
    "counts": lambda rng, n: rng.poisson(2, n).astype(float),
    "decades": lambda rng, n: 10.0 ** rng.integers(0, 4, n),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.8, 0.0, rng.lognormal(3, 1, n)),
    "year": lambda rng, n: rng.integers(1950, 2020, n).astype(float),
}


def schema_of(values: np.ndarray) -> Schema:
    table = pl.DataFrame({"x": [repr(float(v)) for v in values], "y": (["a", "b", "b"] * len(values))[: len(values)]})
    return infer_schema(table, target="y", kinds={"x": "numeric"})


def notes_on(schema: Schema, values: np.ndarray) -> list[str]:
    frame = pl.DataFrame({"x": pl.Series([repr(float(v)) for v in values], dtype=pl.String)})
    rows = NewRows(schema, frame.columns, decimal="auto")
    rows.add(frame)
    return rows.notes()


@pytest.mark.parametrize("name", DRAWS)
def test_rows_of_the_same_distribution_are_not_reported(name):
    rng = np.random.default_rng(1)
    draw = DRAWS[name]
    n_notes = 0
    for _ in range(15):
        schema = schema_of(draw(rng, N))
        for n_rows in (1, 2, 3, 5, 6, 12, 60, 300):
            n_notes += len(notes_on(schema, draw(rng, n_rows)))
    # A value of a Pareto distribution may truly be a hundred times the largest one of training.
    assert n_notes <= (1 if name == "pareto" else 0)


@pytest.mark.parametrize("power", [-6, -3, -2, -1, 1, 2, 3, 6])
@pytest.mark.parametrize("name", ["uniform", "shifted", "lognormal"])
def test_powers_of_ten_are_named(name, power):
    rng = np.random.default_rng(2)
    schema = schema_of(DRAWS[name](rng, N))
    (note,) = notes_on(schema, DRAWS[name](rng, 120) * 10.0**power)
    factor = f"about {10**power:,} times those" if power > 0 else f"about 1/{10**-power:,} of those"
    assert factor in note
    assert note.startswith("'x' ")


@pytest.mark.parametrize(("name", "factor"), [("shifted", 1000), ("year", 1000), ("year", 1e-4)])
def test_a_single_row_far_away_is_reported(name, factor):
    rng = np.random.default_rng(3)
    draw = DRAWS[name]
    (note,) = notes_on(schema_of(draw(rng, N)), draw(rng, 1) * factor)
    assert "'x' is " in note
    assert "outside of the training range" in note


def test_a_value_far_away_among_few_and_many_is_reported():
    schema = schema_of(DRAWS["shifted"](np.random.default_rng(4), N))
    for n_rows in (3, 100):
        values = DRAWS["shifted"](np.random.default_rng(5), n_rows)
        values[1] = 1e6
        (note,) = notes_on(schema, values)
        assert f"1 of {n_rows} values far outside" in note
        assert "1000000.0" in note


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (lambda celsius: 1.8 * celsius + 32, "may be in °F"),
        (lambda celsius: celsius + 273.15, "may be in K"),
    ],
)
def test_temperatures_in_another_unit_are_named(convert, words):
    rng = np.random.default_rng(6)
    schema = schema_of(rng.normal(12, 7, N))
    (note,) = notes_on(schema, convert(rng.normal(12, 7, 80)))
    assert words in note


def test_years_of_two_digits_are_named():
    rng = np.random.default_rng(7)
    (note,) = notes_on(schema_of(DRAWS["year"](rng, N)), DRAWS["year"](rng, 50) % 100)
    assert "years without a century" in note


def dates(schema_texts: list[str], texts: list[str]) -> list[str]:
    labels = (["a", "b", "b"] * len(schema_texts))[: len(schema_texts)]
    schema = infer_schema(pl.DataFrame({"d": schema_texts, "y": labels}), target="y")
    assert schema.column("d").kind == "datetime"
    rows = NewRows(schema, ["d"], decimal="auto")
    rows.add(pl.DataFrame({"d": texts}))
    return rows.notes()


DAYS = [f"{2020 + i % 3}-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(200)]


def test_dates_after_training_are_expected_and_dates_elsewhere_are_not():
    assert dates(DAYS, [f"2023-{1 + i % 12:02}-10" for i in range(60)]) == []
    (note,) = dates(DAYS, [f"2060-{1 + i % 12:02}-10" for i in range(60)])
    assert "60 of 60 values outside of the training range 2020-01-01 to 2022-" in note
    (note,) = dates(DAYS, ["1921-05-01"])
    assert "'d' is '1921-05-01', outside of the training range" in note


def test_days_that_begin_in_another_time_zone_are_reported():
    moments = [f"{day} 00:00:00" for day in DAYS]
    assert dates(moments, moments[:50]) == []
    (note,) = dates(moments, [f"{day} 22:00:00" for day in DAYS[:50]])
    assert "22:00 in new rows. Check their time zone" in note
    hours = [f"{day} {i % 24:02}:00:00" for i, day in enumerate(DAYS)]
    assert dates(hours, [f"{day} 22:00:00" for day in DAYS[:50]]) == []


def test_unseen_levels_are_expected_where_training_has_levels_that_occur_once():
    few = Column(name="c", kind="categorical", reason="", levels=("a", "b"), level_counts=(500, 500))
    many = Column(
        name="c",
        kind="categorical",
        reason="",
        levels=tuple(map(str, range(700))),
        level_counts=(*[3] * 100, *[1] * 600),
    )
    assert is_unexpected(1, 1, few)
    assert is_unexpected(30, 40, few)
    assert not is_unexpected(10, 40, few)
    assert not is_unexpected(1, 1, many)
    assert not is_unexpected(28, 40, many)
    assert is_unexpected(40, 40, many)


def test_quartiles_of_counted_numbers_are_those_of_all():
    rng = np.random.default_rng(8)
    for size in (1, 2, 3, 4, 5, 10, 101):
        numbers = np.sort(rng.integers(0, 20, size).astype(float))
        distinct, counts = np.unique(numbers, return_counts=True)
        assert quartiles_of(distinct, counts) == quartiles_of(numbers)


def test_no_power_is_found_without_quartiles():
    column = Column(name="x", kind="numeric", reason="", low=0.0, high=1e6, histogram=(99, 1))
    assert power_of_ten(np.full(50, 5e5), column) == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{} 06:00:00", "{}T06:00:00+02:00", "has offsets from UTC, which training did not have"),
        ("{}T06:00:00+02:00", "{} 06:00:00", "has no offsets from UTC, which training had"),
        ("{} 06:00:00", "{}T06:00:00Z", None),
        ("{}T06:00:00Z", "{}T06:00:00+02:00", None),
        ("{} 06:00:00", "{}", None),
    ],
)
def test_other_offsets_from_utc_are_reported(old, new, words):
    training = [old.format(day).replace(" 06:", f" {i % 24:02}:") for i, day in enumerate(DAYS)]
    notes = dates(training, [new.format(day) for day in DAYS[:60]])
    assert len(notes) == (words is not None)
    assert words is None or words in notes[0]


@pytest.mark.parametrize("text", ["soon", "2024-01-01T00:00:00+00:00", "99999-01-01"])
def test_a_range_that_is_no_date_is_not_compared(text):
    column = Column(name="d", kind="datetime", reason="", low_text=text, high_text="2024-05-01T00:00:00")
    assert range_of(column) is None
