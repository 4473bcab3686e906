"""Runs with default options beside the best published rows of the papers' tables.

python -m benchmarks.product.published_tables [--tables a,b] [--splits 0] [--budget 600] [--data FOLDER]
    [--keep FOLDER] [--out FILE.json]

Boston, Concrete, Yacht and Protein: the published splits of Gal's repository in `splits/NAME.json.gz` (test rows of each
split), beside the best row of Table 11 of Kossen et al. 2021. California housing, Adult and Covertype: a fifth of the rows
apart (at most 20,000), as the draws of `benchmarks.product.rivals`, beside the best row of Table 2 (ensembles) of Gorishniy et
al. 2021; Adult's is that of the authors' result files, which is higher than the printed one. These papers tuned hyperparameters
for hours, and divide the rows otherwise, so that only clear differences say something.

Each split is a run of `tabapp --auto` with default options and --budget seconds on this machine. The score is RMSE, or the accuracy
of the most probable class. Results are added to an existing --out with the same budget, and its splits are not run again. "ratio"
is the error over that of the best published row, with 1 - accuracy as the error of a classification; ± is the standard error over
splits. Splits of tables with few rows differ much, so that one of them says little. In the committed results, Adult and Covertype
are the runs of `benchmarks.product.budgets` with 600 seconds, which have the same rows, scored by accuracy.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.rivals import (
    entries_of,
    error_of,
    facts_of_entry,
    keep_results,
    measure_division,
    results_in,
    split,
    table_of_entry,
)


@dataclass(frozen=True)
class Published:
    """The best published row of a table.

    Attributes:
        n_splits: number of published splits; None for tables whose rows are divided at random.
    """

    paper: str
    model: str
    score: float
    metric: str = "rmse"
    n_splits: int | None = None


KOSSEN, GORISHNIY = "Kossen et al., Table 11", "Gorishniy et al., Table 2"
"""Of Gorishniy et al., the first arXiv version."""
RELEASED = "Gorishniy et al., released results"
"""The column AD of their Table 2 agrees with no metric of the released results."""
BEST = {
    "boston": Published(KOSSEN, "NPT", 2.92, n_splits=20),
    "concrete": Published(KOSSEN, "CatBoost", 4.28, n_splits=20),
    "yacht": Published(KOSSEN, "Gradient boosting", 0.85, n_splits=20),
    "protein_casp": Published(KOSSEN, "NPT", 3.41, n_splits=5),
    "california_sklearn": Published(GORISHNIY, "CatBoost", 0.423),
    "adult": Published(RELEASED, "CatBoost", 0.8727, metric="accuracy"),
    "covertype": Published(GORISHNIY, "XGBoost", 0.9696, metric="accuracy"),
}


def division_of(
    data: Path, name: str, table: pl.DataFrame, facts: dict[str, Any], number: int
) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """Training and test rows of a split; None if the table has no such split."""
    file = data / "splits" / f"{name}.json.gz"
    if not file.is_file():
        return split(table, facts["target"], facts["task"], number)
    splits: list[list[int]] = json.loads(gzip.decompress(file.read_bytes()))["test_rows"]
    if number >= len(splits):
        return None
    is_test = np.zeros(table.height, dtype=bool)
    is_test[splits[number]] = True
    return table.filter(pl.Series(~is_test)), table.filter(pl.Series(is_test))


def rows_of(names: list[str], results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """A row for each table that has a result."""
    rows: list[list[str]] = []
    for name in names:
        best = BEST[name]
        found = [result["score"] for key, result in results.items() if key.split("|")[0] == name and "score" in result]
        if not found:
            continue
        scores = np.array(found)
        error = f" ± {scores.std(ddof=1) / np.sqrt(len(scores)):.3f}" if len(scores) > 1 else ""
        ratio = error_of(float(scores.mean()), best.metric) / error_of(best.score, best.metric)
        shown = f"{scores.mean():.4g}{error}"
        n_splits = f"{len(scores)} of {best.n_splits}" if best.n_splits else str(len(scores))
        rows.append([name, best.metric, n_splits, shown, f"{best.score:.4g}", best.model, best.paper, f"{ratio:.3f}"])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(BEST))
    parser.add_argument("--splits", default="0", help="numbers, with commas")
    parser.add_argument("--budget", type=int, default=600, help="seconds of a split")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--keep", type=Path, help="folder for run folders, tables and predictions")
    parser.add_argument("--out", type=Path, default=RESULTS / "published_tables.json")
    options = parser.parse_args()
    names: list[str] = options.tables.split(",")
    unknown = [name for name in names if name not in BEST]
    if unknown:
        parser.error(f"no published row is known for {', '.join(unknown)}")
    entries = entries_of(parser, options.data, names)
    if entries is None:
        return 0
    results = results_in(options.out)
    for number in map(int, options.splits.split(",")):
        for name, entry in zip(names, entries, strict=True):
            key, facts = f"{name}|{number}", facts_of_entry(entry)
            facts["scored"] = BEST[name].metric
            table = table_of_entry(options.data, entry)
            division = division_of(options.data, name, table, facts, number)
            if division is None or "score" in results.get(key, {}):
                continue
            results[key] = measure_division("tabapp", f"{name}-{number}", *division, facts, options)
            keep_results(options.out, results, key)
    facts = {**machine("torch", "xgboost", "catboost", "lightgbm"), "budget": f"{options.budget} s"}
    header = ["table", "metric", "splits", "tabapp", "best published", "model", "paper", "ratio"]
    report(facts, header, rows_of(names, results), results, options.out, right=(2, 3, 4, 7))
    return 0


if __name__ == "__main__":
    sys.exit(main())
