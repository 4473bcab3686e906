"""Numbers inside texts, as features."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.features.columns import TextStep
from tabapp.features.text_numbers import find_inner_numbers, read_inner_numbers

NAN = float("nan")


def found(*texts: str | None) -> list[list[float]]:
    series = pl.Series("t", texts, dtype=pl.String)
    return read_inner_numbers(series, *find_inner_numbers(series)).tolist()


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (("120/80", "135/92"), [[120, 80], [135, 92]]),
        (("Full HD 1920x1080", "1366x768"), [[1920, 1080], [1366, 768]]),
        (("87 bhp @ 6000 rpm", None), [[87, 6000], [NAN, NAN]]),
        (("2100 - 2850", "1-2"), [[2100, 2850], [1, 2]]),
        (("$53K-$91K (est.)", "$63K–$112K (est.)"), [[53, 91], [63, 112]]),
        (("POINT (-58.3 -34.6)", "POINT (12.5 -7)"), [[-58.3, -34.6], [12.5, -7]]),
        (("1,322 Ratings & 120 Reviews", "7 Ratings & 0 Reviews"), [[1322, 120], [7, 0]]),
        (("1,5 x 2,25 m", "0,5 x 1 m"), [[1.5, 2.25], [0.5, 1]]),
        (("C85", "no cabin", "E46", "B7"), [[85], [NAN], [46], [7]]),
    ],
)
def test_numbers_of_texts(texts: tuple[str | None, ...], numbers: list[list[float]]) -> None:
    np.testing.assert_equal(found(*texts), numbers)


def test_the_last_number_is_a_feature_where_some_texts_have_more() -> None:
    texts = pl.Series(["1.5 VX (2014)", "Swift VDI 2016", "2.0 D4D 5 doors 2002"] * 20)
    most, last, form = find_inner_numbers(texts)
    assert (most, last) == (1, True)
    assert read_inner_numbers(texts, most, last, form)[:3, -1].tolist() == [2014, 2016, 2002]


def test_texts_without_numbers_and_long_texts() -> None:
    assert find_inner_numbers(pl.Series(["a", "b 1", "c"]))[0] == 0
    assert find_inner_numbers(pl.Series([None, None], dtype=pl.String))[0] == 0
    assert find_inner_numbers(pl.Series(["x" * 2_000 + " 7"] * 9))[0] == 0
    assert find_inner_numbers(pl.Series([" ".join(map(str, range(90)))] * 9))[:2] == (4, True)


def test_large_numbers_fit_into_single_precision() -> None:
    step = TextStep.fit("t", pl.Series("t", ["9" * 400, "8"] * 9), 0)
    assert np.isfinite(step.numbers(pl.Series("t", ["9" * 400])).astype(np.float32)).all()


def test_features_of_a_row_do_not_depend_on_the_others() -> None:
    values = pl.Series("t", [f"{i}Nm @ {1000 + i}rpm" for i in range(50)] + [None, "none"])
    step = TextStep.fit("t", values, 0)
    assert step.names()[-2:] == ["t number 1", "t number 2"]
    together = step.numbers(values)
    assert together.shape == (52, len(step.names()))
    alone = [step.numbers(values[i : i + 1]) for i in range(len(values))]
    np.testing.assert_array_equal(together, np.concatenate(alone))
