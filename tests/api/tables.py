"""Small tables for the tests of the Python API."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl

N = 90


def customers(n: int = N) -> pl.DataFrame:
    """A binary task with a column of each type; `plan` holds codes, and `none` among its levels is a level."""
    generator = np.random.default_rng(0)
    age = generator.integers(18, 80, n)
    spent = generator.gamma(2.0, 50.0, n).round(2)
    plan = generator.choice(["1", "2", "none"], n)
    chance = 1 / (1 + np.exp(-(age - 45) / 8 - (plan == "none") * 2 + 1))
    return pl.DataFrame(
        {
            "age": pl.Series([None if i % 17 == 0 else int(a) for i, a in enumerate(age)], dtype=pl.Int64),
            "spent": spent,
            "plan": pl.Series(plan, dtype=pl.Categorical),
            "member": pl.Series(generator.random(n) < 0.5),
            "since": pl.Series([date(2015, 1, 1) + timedelta(days=int(d)) for d in generator.integers(0, 3000, n)]),
            "bought": pl.Series(np.where(generator.random(n) < chance, "yes", "no")),
        }
    )


def houses(n: int = N) -> pl.DataFrame:
    """A regression task."""
    generator = np.random.default_rng(1)
    rooms, area = generator.integers(1, 7, n), generator.uniform(30, 200, n)
    price = 1500 * area + 10_000 * rooms + generator.normal(0, 20_000, n)
    return pl.DataFrame({"rooms": rooms, "area": area.round(1), "price": price.round(0)})
