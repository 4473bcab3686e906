"""A folder of small generated tables under the names that the scripts of the papers' tables read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

SMALL = 90
"""Rows of the tables with published splits."""
LARGE = 420
"""Rows of the other tables: enough for draws of unlabeled rows, too."""
REGRESSION = ("boston", "concrete", "yacht", "california_sklearn", "california_housing")
BINARY = ("adult", "bank_marketing", "breast_cancer_wdbc", "higgs_lightgbm")
MULTICLASS = ("covertype", "poker_hand")
TARGETS = {
    "boston": "MEDV",
    "concrete": "Strength",
    "yacht": "Resistance",
    "california_sklearn": "MedHouseVal",
    "california_housing": "median_house_value",
    "adult": "income",
    "higgs_lightgbm": "signal",
    "covertype": "Cover_Type",
}
COMPRESSED = ("adult", "california_sklearn", "california_housing", "higgs_lightgbm", "covertype")


def made(name: str, generator: np.random.Generator) -> pl.DataFrame:
    """Numbers and, in tables of classes, categories that determine the target up to noise."""
    n_rows = SMALL if name in ("boston", "concrete", "yacht") else LARGE
    x = generator.normal(size=(n_rows, 4))
    columns: dict[str, Any] = {f"x{i}": np.round(x[:, i], 4) for i in range(4)}
    signal = x[:, 0] + np.tanh(x[:, 1]) * x[:, 2] + 0.1 * generator.normal(size=n_rows)
    if name not in REGRESSION:
        for i, n_levels in enumerate((3, 4, 5)):
            codes = generator.integers(0, n_levels, n_rows)
            signal += 0.8 * (codes == 0)
            columns[f"c{i}"] = [f"level {code}" for code in codes]
    if name in REGRESSION:
        target: list[Any] = np.round(10 + 3 * signal, 4).tolist()
    else:
        edges = np.quantile(signal, [0.5] if name in BINARY else [1 / 3, 2 / 3])
        target = [f"class {i}" for i in np.searchsorted(edges, signal)]
    return pl.DataFrame({**columns, TARGETS.get(name, "target"): target})


def write_tables(folder: Path) -> Path:
    """Write all tables with `datasets.json` and the published splits; returns the folder."""
    generator = np.random.default_rng(0)
    known: list[dict[str, Any]] = []
    (folder / "splits").mkdir(parents=True)
    for name in (*REGRESSION, *BINARY, *MULTICLASS):
        frame = made(name, generator)
        file = f"{name}.csv" + ".gz" * (name in COMPRESSED)
        text = frame.write_csv().encode()
        (folder / file).write_bytes(gzip.compress(text) if name in COMPRESSED else text)
        task = "regression" if name in REGRESSION else "binary" if name in BINARY else "multiclass"
        known.append(
            {
                "name": name,
                "file": file,
                "target": frame.columns[-1],
                "task": task,
                "separator": ",",
                "leak_or_id_columns": [],
            }
        )
    (folder / "datasets.json").write_text(json.dumps(known))
    for name in ("boston", "concrete", "yacht"):
        tests = [sorted(generator.permutation(SMALL)[:12].tolist()) for _ in range(2)]
        (folder / "splits" / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps({"test_rows": tests}).encode()))
    return folder
