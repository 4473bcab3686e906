"""Numbers that stand for missing values, and zeros that are values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tabapp.data.infer import infer_schema
from tests.data.checks.tables import CLASSES, NOISE, N, found, frame

RANDOM = np.random.default_rng(12)


@pytest.mark.parametrize(
    ("values", "sentinel"),
    [
        (np.where(CLASSES, RANDOM.integers(0, 300, N), -1), "-1"),
        (np.where(CLASSES, RANDOM.integers(0, 300, N), -999), "-999"),
        (np.where(CLASSES, RANDOM.integers(0, 90, N), 999), "999"),
        (np.where(NOISE > -1, RANDOM.integers(60, 200, N), 0), "0"),
        (RANDOM.integers(-5, 300, N), None),
        (RANDOM.integers(900, 1000, N), None),
        (np.abs(NOISE).round(2), None),
        (RANDOM.poisson(3, N), None),
    ],
    ids=["-1", "-999", "999", "0", "negative integers", "near 999", "positive floats", "counts"],
)
def test_sentinels_are_reported_and_kept(values: Sequence[object], sentinel: str | None) -> None:
    warnings = found("sentinel", x=values, z=NOISE, y=CLASSES)
    assert set(warnings) == ({"x"} if sentinel else set())
    if sentinel:
        assert f"--null {sentinel}" in warnings["x"].action
        assert infer_schema(frame(x=values, z=NOISE, y=CLASSES), target="y").column("x").missing == 0


def with_zeros(values: np.ndarray, share: float = 0.1) -> np.ndarray:
    return np.where(RANDOM.random(N) < share, 0, values)


VALUES = {
    "counts, sparse": RANDOM.poisson(9, N),
    "counts with more zeros": with_zeros(1 + RANDOM.poisson(12, N)),
    "halves": with_zeros(np.round(2 * RANDOM.gamma(6, 2, N)) / 2 + 0.5),
    "amounts of money": with_zeros(np.round(RANDOM.lognormal(2.5, 0.8, N), 2) + 1.09),
    "logarithms of counts": with_zeros(np.round(np.log(2 + RANDOM.poisson(6, N)), 3)),
    "logarithms of amounts": with_zeros(np.round(np.log1p(RANDOM.lognormal(3, 1.5, N)), 3)),
    "shares": with_zeros(np.round(RANDOM.beta(2, 5, N), 3)),
    "mostly none": with_zeros(np.round(RANDOM.normal(500, 30, N)), 0.8),
    "few values": with_zeros(RANDOM.integers(50, 60, N)),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_zero_next_to_the_other_numbers_is_a_value(values: np.ndarray) -> None:
    assert found("sentinel", x=values, z=NOISE, y=CLASSES) == {}


@pytest.mark.parametrize("name", ["GarageArea", "total_charges", "number_of_calls", "capital_gain"])
def test_zero_of_an_amount_is_a_value(name: str) -> None:
    weights = with_zeros(RANDOM.normal(70, 10, N).round(1))
    assert set(found("sentinel", body_weight=weights, z=NOISE, y=CLASSES)) == {"body_weight"}
    assert found("sentinel", **{name: weights}, z=NOISE, y=CLASSES) == {}


def test_two_impossible_zeros_make_a_less_obvious_one_suspicious() -> None:
    """Insulin is skewed, so the gap above its zeros is small for its spread; a table that has other zeros is evidence."""
    insulin = with_zeros(np.round(RANDOM.lognormal(4.8, 0.6, N)) + 14, 0.4)
    pressure, glucose = (
        with_zeros(RANDOM.normal(72, 12, N).round(), 0.05),
        with_zeros(RANDOM.normal(120, 30, N).clip(60).round(), 0.02),
    )
    visits = RANDOM.poisson(4, N)
    assert found("sentinel", insulin=insulin, visits=visits, y=CLASSES) == {}
    assert set(found("sentinel", insulin=insulin, pressure=pressure, y=CLASSES)) == {"pressure"}
    both = found("sentinel", insulin=insulin, pressure=pressure, glucose=glucose, visits=visits, y=CLASSES)
    assert set(both) == {"insulin", "pressure", "glucose"}
