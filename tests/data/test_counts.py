"""Counts of distinct values. The fast path for plain numbers gives the same result as counting texts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.data import counts
from tabapp.data.counts import Values, count_values
from tabapp.data.forms.null_words import Declared
from tabapp.data.kinds.kinds import judge
from tabapp.data.schema import Column

N = 3000
GENERATOR = np.random.default_rng(0)
NORMAL = [f"{x:.4f}" for x in GENERATOR.normal(size=N) * 50]

PLAIN = {
    "floats": NORMAL,
    "gaps": [None if i % 9 == 0 else x for i, x in enumerate(NORMAL)],
    "integers": [str(x) for x in GENERATOR.integers(-2000, 2000, N)],
    "exponents": [f"{x:.5e}" for x in GENERATOR.exponential(1e-8, N)],
    "zeros in front of points": [f"0.{x:05}" for x in GENERATOR.integers(0, 99999, N)],
}
COUNTED = {
    "row numbers": [str(i) for i in range(N)],
    "codes": [f"{x:05}" for x in GENERATOR.integers(0, 99999, N)],
    "one code": [*NORMAL[:-1], "007"],
    "negative code": [*NORMAL[:-1], "-007"],
    "long": [str(2**53 + 5 * i) for i in range(N)],
    "infinite": [*NORMAL[:-1], "inf"],
    "nan": [*NORMAL[:-1], "nan"],
    "question": [*NORMAL[:-1], "?"],
    "spaces": [f" {x}" for x in NORMAL],
    "compact dates": [f"20{20 + i % 4}{1 + i % 12:02}{1 + i % 28:02}" for i in range(N - 20)] + ["12"] * 20,
    "created_at": [str(1_600_000_000 + 7919 * i % 90_000_000) for i in range(N)],
    "customer_id": [str(x) for x in GENERATOR.permutation(10 * N)[:N]],
    "few": [str(x) for x in GENERATOR.integers(0, 900, N)],
    "units": [f"{x} kg" for x in NORMAL],
}


def judged(name: str, cells: list[str | None]) -> tuple[Values, Column]:
    values = count_values(pl.Series(name, cells, dtype=pl.String))
    return values, judge(values)


@pytest.mark.parametrize("name", [*PLAIN, *COUNTED])
def test_fast_path_equals_counting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = (PLAIN | COUNTED)[name]
    values, verdict = judged(name, cells)
    if name in PLAIN:
        assert values.plain is not None
    monkeypatch.setattr(counts, "_plain_numbers", lambda texts: None)
    counted, expected = judged(name, cells)
    assert counted.plain is None
    assert verdict == expected
    assert values.texts.to_list() == counted.texts.to_list()
    assert (values.n_unique, values.n_missing) == (counted.n_unique, counted.n_missing)


def test_values_are_sorted_by_frequency_then_file_order() -> None:
    values = count_values(pl.Series("v", ["b", " a", "c", "a", "?", None, "", "b ", "d"]))
    assert values.uniques.to_list() == ["b", "a", "c", "d"]
    assert values.counts.to_list() == [2, 2, 1, 1]
    assert values.missing_spellings == ("?",)
    assert (values.n_rows, values.n_missing, values.n_unique) == (9, 3, 4)


def test_null_option_applies_to_plain_numbers() -> None:
    values = count_values(pl.Series("v", [*NORMAL[:-1], "-999"]), Declared(null=frozenset({"-999"})))
    assert values.missing_spellings == ("-999",)
    assert values.n_missing == 1
