"""`tabapp impute` on cells removed from real tables, compared with common imputation methods.

python -m papers.imputation [--tables penguins,boston,yacht] [--share 0.1] [--rows 2000] [--budget 60s] [--data FOLDER]
                                [--out FILE.json]

A share of the known cells is removed at random. Numeric columns are scored by the root mean squared error in standard deviations
of the column, categorical columns by accuracy, both on removed cells only, and averaged over the columns. Baselines are the
median and the most frequent level, and, for numeric columns, scikit-learn's 10 nearest neighbors and iterative ridge regression.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 – enables the experimental import below
from sklearn.impute import IterativeImputer, KNNImputer

from benchmarks.machine import RESULTS, machine, report
from tabapp.bundle.prediction.impute import schema_without_target
from tabapp.data.reading.read import read_table

FILES = {
    "penguins": "penguins.csv",
    "boston": "boston.csv",
    "yacht": "yacht.csv",
    "concrete": "concrete.csv",
    "titanic": "titanic.csv",
    "california_housing": "california_housing.csv.gz",
    "adult": "adult.csv.gz",
}


def blanked(frame: pl.DataFrame, columns: list[str], share: float) -> tuple[pl.DataFrame, dict[str, np.ndarray]]:
    """The table without some cells of these columns, and a mask of the removed cells."""
    generator = np.random.default_rng(0)
    gone: dict[str, np.ndarray] = {}
    for name in columns:
        there = frame[name].is_not_null().to_numpy() & (frame[name].cast(str).str.strip_chars().to_numpy() != "")
        gone[name] = there & (generator.random(len(frame)) < share)
        frame = frame.with_columns(
            pl.when(pl.Series(gone[name])).then(None).otherwise(pl.col(name)).alias(name),
        )
    return frame, gone


def numbers(frame: pl.DataFrame, names: list[str]) -> np.ndarray:
    """(rows, columns) float64, NaN for cells without a number."""
    return (
        frame.select(pl.col(names).cast(str).str.strip_chars().cast(pl.Float64, strict=False)).to_numpy().astype(float)
    )


def run(name: str, share: float, most_rows: int, budget: str, data: Path) -> dict[str, Any]:
    """The scores of each method on one table."""
    frame = read_table(data / FILES[name]).frame
    if len(frame) > most_rows:
        frame = frame.sample(most_rows, seed=0)
    schema = schema_without_target(frame, {})
    kinds = {column.name: column.kind for column in schema.columns}
    numeric = [c for c, kind in kinds.items() if kind == "numeric"]
    levels = [c for c, kind in kinds.items() if kind in ("categorical", "boolean")]
    holes, gone = blanked(frame, numeric + levels, share)
    with tempfile.TemporaryDirectory() as folder:
        source, filled_path = Path(folder) / "holes.csv", Path(folder) / "filled.csv"
        holes.write_csv(source)
        command = [sys.executable, "-m", "tabapp", "impute", str(source), "-o", str(filled_path), "--budget", budget]
        command += ["--kind", ",".join(f"{c}={kind}" for c, kind in kinds.items() if c in numeric + levels)]
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - began
        ours = pl.read_csv(filled_path, infer_schema=False)
    truth, seen = numbers(frame, numeric), numbers(holes, numeric)
    scale = np.nanstd(seen, axis=0)
    filled = {
        "tabapp impute": numbers(ours, numeric),
        "median": np.where(np.isnan(seen), np.nanmedian(seen, axis=0), seen),
    }
    if numeric:
        standard = (seen - np.nanmean(seen, axis=0)) / scale
        for title, imputer in (
            ("10 neighbors", KNNImputer(n_neighbors=10)),
            ("iterative ridge", IterativeImputer(max_iter=20, random_state=0)),
        ):
            filled[title] = imputer.fit_transform(standard) * scale + np.nanmean(seen, axis=0)
    scores: dict[str, Any] = {"table": name, "rows": len(frame), "seconds": round(seconds, 1)}
    for title, values in filled.items():
        errors = [
            np.sqrt(np.mean(((values - truth)[gone[c], i] / scale[i]) ** 2))
            for i, c in enumerate(numeric)
            if gone[c].any()
        ]
        scores[f"rmse, {title}"] = float(np.mean(errors)) if errors else None
    right: dict[str, list[float]] = {"tabapp impute": [], "most frequent": []}
    for c in levels:
        if gone[c].any():
            most = holes[c].drop_nulls().mode().sort()[0]
            right["tabapp impute"].append(float((ours[c] == frame[c].cast(str)).filter(pl.Series(gone[c])).mean() or 0))  # pyright: ignore[reportArgumentType]
            right["most frequent"].append(float((frame[c] == most).filter(pl.Series(gone[c])).mean() or 0))  # pyright: ignore[reportArgumentType]
    for title, shares in right.items():
        scores[f"right, {title}"] = float(np.mean(shares)) if shares else None
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="penguins,boston,yacht")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=RESULTS / "imputation.json")
    options = parser.parse_args()
    results = [
        run(name, options.share, options.rows, options.budget, options.data) for name in options.tables.split(",")
    ]
    header = list(results[0])
    rows = [[f"{v:.3f}" if isinstance(v, float) else "—" if v is None else str(v) for v in r.values()] for r in results]
    facts = machine("torch", "polars") | {"blanked": options.share, "budget": options.budget}
    report(facts, header, rows, results, options.out, tuple(range(1, len(header))))


if __name__ == "__main__":
    main()
