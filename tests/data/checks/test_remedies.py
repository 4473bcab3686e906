"""Remedies of warnings: options of the run with values that the command line reads, and that end the warning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.data.schema import DataWarning
from tabapp.run.options.config import OPTIONS, RunConfig, with_exact_names

N = 400


def table(**columns: list[Any]) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    base = {"y": [("no", "yes")[i % 2] for i in range(N)], "x": [f"{v:.3f}" for v in rng.normal(0, 1, N)]}
    return pl.DataFrame({**base, **{name: list(map(_text, values)) for name, values in columns.items()}})


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def warnings(frame: pl.DataFrame, options: Mapping[str, Any] = {}) -> list[DataWarning]:
    config = with_exact_names(RunConfig(data="x.csv", target="y", **options), frame.columns)
    return list(infer_schema(frame, **config.of_columns(frame.columns)).warnings)


TABLES = {
    "identifier": ("id, of a row", table(**{"id, of a row": list(range(1, N + 1))}), {"kind"}),
    "missing": ("rare", table(rare=[f"{i * 37 % 50}.5" if i % 5 == 0 else None for i in range(N)]), {"ignore"}),
    "group": ("patient_id", table(patient_id=[f"p{i // 5}" for i in range(N)]), {"group"}),
    "leak": ("known", table(known=[i % 2 * 10 + 5 for i in range(N)]), {"ignore"}),
    "sentinel": ("age", table(age=[-999 if i % 40 == 0 else 20 + i % 37 for i in range(N)]), {"null"}),
    "mostly_dates": (
        "seen",
        table(seen=[f"2024-{1 + i % 12:02}-{1 + i % 27:02}" if i % 4 else f"at some time {i}" for i in range(N)]),
        {"kind"},
    ),
}


@pytest.mark.parametrize("check", TABLES)
def test_a_remedy_ends_its_warning(check):
    column, frame, options = TABLES[check]
    found = next(warning for warning in warnings(frame) if (warning.check, warning.column) == (check, column))
    assert {remedy.option for remedy in found.remedies} == options
    for remedy in found.remedies:
        option = OPTIONS[remedy.option]
        value = option.combine([option.parse(remedy.value)]) if option.is_repeatable else option.parse(remedy.value)
        after = warnings(frame, {option.field: value})
        assert (check, column) not in [(warning.check, warning.column) for warning in after], remedy
