"""One table in the types that pandas gives to its columns."""

from __future__ import annotations

from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import numpy as np
import polars as pl

DATES = ["since"]


def text_rows(n_rows: int, seed: int = 0, *, gap: bool = False) -> pl.DataFrame:
    """Rows as text: a Boolean, codes, whole numbers, a number, a date, a text, and a class.

    Args:
        gap: the first of the whole numbers is missing.
    """
    generator = np.random.default_rng(seed)
    member, code = generator.random(n_rows) < 0.5, generator.integers(0, 4, n_rows)
    visits, amount = generator.integers(0, 30, n_rows), generator.normal(size=n_rows)
    since = [datetime(2020, 1, 1) + timedelta(days=int(day)) for day in generator.integers(0, 1500, n_rows)]
    signal = member + (code == 1) + visits / 15 + amount
    cells = {
        "member": [str(bool(value)) for value in member],
        "branch_code": [["101", "205", "330", "412"][value] for value in code],
        "visits": [str(value) for value in visits],
        "amount": [f"{value:.4f}" for value in amount],
        "since": [f"{day:%Y-%m-%d}" for day in since],
        "side": [["N", "S"][value] for value in generator.integers(0, 2, n_rows)],
        "outcome": ["stay" if value > 1.5 else "go" for value in signal],
    }
    if gap:
        cells["visits"][0] = ""
    return pl.DataFrame(cells).with_columns(pl.col("visits").replace("", None))


def pandas_tables(rows: pl.DataFrame) -> dict[str, Any]:
    """The same rows in several types, by what is special in them."""
    import pandas as pd

    def read(**options: Any) -> Any:
        return pd.read_csv(StringIO(rows.write_csv()), **options)

    dates = read(parse_dates=DATES)
    texts = [name for name in dates if dates[name].dtype.kind in "bOT"]
    tables = {
        "as read": read(),
        "with dates": dates,
        "texts": read(dtype=str),
        "objects": read(dtype=object),
        "nullable": dates.convert_dtypes(),
        "categories": dates.astype(dict.fromkeys(texts, "category") | {"branch_code": "category"}),
        "ordered codes": dates.astype({"branch_code": pd.CategoricalDtype([101, 205, 330, 412], ordered=True)}),
        "small types": dates.astype({"branch_code": "int16", "visits": "float32", "member": "boolean"}),
        "codes as floats, as with a gap": dates.astype({"branch_code": "float64"}),
        "truth as numbers": dates.astype({"member": int}),
        "truth as objects": dates.astype({"member": object}),
        "days": dates.assign(since=dates["since"].dt.date),
        "UTC": dates.assign(since=dates["since"].dt.tz_localize("UTC")),
        "another index": dates.set_index(np.arange(len(dates)) * 7 + 3),
    }
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return tables
    return tables | {
        "Arrow": dates.convert_dtypes(dtype_backend="pyarrow"),
        "read as Arrow": read(dtype_backend="pyarrow"),
    }
