"""Values counted once; and the quick way for plain numbers says what the careful one does."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.data import counts
from tabapp.data.counts import Values, count_values
from tabapp.data.kinds import judge
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
CAREFUL = {
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


@pytest.mark.parametrize("name", [*PLAIN, *CAREFUL])
def test_the_quick_way_says_what_the_careful_one_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = (PLAIN | CAREFUL)[name]
    values, verdict = judged(name, cells)
    if name in PLAIN:
        assert values.plain is not None
    monkeypatch.setattr(counts, "_plain_numbers", lambda texts: None)
    careful, wanted = judged(name, cells)
    assert careful.plain is None
    assert verdict == wanted
    assert values.texts.to_list() == careful.texts.to_list()
    assert (values.n_unique, values.n_missing) == (careful.n_unique, careful.n_missing)


def test_values_are_counted_from_the_most_frequent_then_in_the_order_of_the_file() -> None:
    values = count_values(pl.Series("v", ["b", " a", "c", "a", "?", None, "", "b ", "d"]))
    assert values.uniques.to_list() == ["b", "a", "c", "d"]
    assert values.counts.to_list() == [2, 2, 1, 1]
    assert values.missing_spellings == ("?",)
    assert (values.n_rows, values.n_missing, values.n_unique) == (9, 3, 4)


def test_a_named_null_is_missing_among_plain_numbers() -> None:
    values = count_values(pl.Series("v", [*NORMAL[:-1], "-999"]), null=["-999"])
    assert values.missing_spellings == ("-999",)
    assert values.n_missing == 1
