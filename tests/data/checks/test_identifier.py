"""Columns that identify rows."""

from __future__ import annotations

import numpy as np
import pytest

from tabapp.data.infer import infer_schema
from tests.data.checks.tables import CLASSES, NOISE, N, found, frame

RANDOM = np.random.default_rng(13)


def test_mostly_distinct_categories_nearly_identify_rows() -> None:
    names = [f"model {i % 400}" for i in range(N)]
    assert set(found("identifier", name=names, x=NOISE, y=CLASSES)) == {"name"}
    assert infer_schema(frame(name=names, x=NOISE, y=CLASSES), target="y").column("name").role == "feature"
    assert found("identifier", color=[f"c{i % 40}" for i in range(N)], x=NOISE, y=CLASSES) == {}


CODES = {
    "sampled from a register": np.sort(RANDOM.choice(np.arange(1002, 12_000), N, replace=False)),
    "shuffled, with gaps": RANDOM.choice(np.arange(1, 2 * N), N, replace=False),
    "every second number": np.arange(5, 5 + 2 * N, 2),
    "parcels": RANDOM.integers(102_280_020_200, 366_017_021_041, N),
}


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES.keys())
def test_distinct_integer_codes_are_identifiers_without_a_name(codes: np.ndarray) -> None:
    warnings = found("identifier", column=codes, x=NOISE, y=CLASSES)
    assert set(warnings) == {"column"}
    assert "--kind column=numeric keeps it" in warnings["column"].action
    column = infer_schema(frame(column=codes, x=NOISE, y=CLASSES), target="y").column("column")
    assert (column.kind, column.role) == ("identifier", "ignore")
    assert f"{N} distinct integers" in column.reason


MEASURED = {
    "prices": np.round(RANDOM.lognormal(12, 0.5, N)),
    "distinct prices in a wide range": 50_000 + RANDOM.choice(4_950_000, N, replace=False),
    "populations": 10**3 + RANDOM.choice(10**8, N, replace=False),
    "round amounts of billions": RANDOM.integers(10**6, 10**8, N) * 1000,
    "seconds since 1970": 1_700_000_000 + RANDOM.choice(10**7, N, replace=False),
    "counts": RANDOM.integers(0, 5 * N, N),
}


@pytest.mark.parametrize("values", MEASURED.values(), ids=MEASURED.keys())
def test_distinct_measurements_are_numbers(values: np.ndarray) -> None:
    column = infer_schema(frame(column=values.astype(int), x=NOISE, y=CLASSES), target="y").column("column")
    assert (column.kind, column.role) == ("numeric", "feature"), column.reason


def test_distinct_integers_can_be_a_target() -> None:
    codes = RANDOM.choice(np.arange(1, 2 * N), N, replace=False)
    schema = infer_schema(frame(x=NOISE, z=CLASSES, y=codes), target="y")
    assert (schema.task, schema.column("y").kind) == ("regression", "numeric")
