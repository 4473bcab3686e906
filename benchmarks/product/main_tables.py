"""Accuracy on six public tables in two minutes each: scores with intervals, run time, and predictions for every row.

python -m benchmarks.product.main_tables [--tables a,b] [--budget 120s] [--data FOLDER] [--out FILE.json]

Each table is run with `tabapp --auto TABLE --target … --budget 120s --json` and its bundle then predicts the same file. Scores are
out of fold or on a holdout, as the run reports them; the floors are the scores that a run of 120 s on two cores must reach. The
tables are read from --data or $TABAPP_DATA; missing ones are skipped with a message. Exits with 1 if a run misses a
requirement.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.run.options.units import parse_budget
from tabapp.run.record.state import format_score

MODELS_NEEDED = 5
ALLOWANCE = 1.1
"""A run may exceed its budget by a tenth: the engine cannot plan the start of Python and the end of processes."""


@dataclass(frozen=True)
class Table:
    """A table, its target, and the score that a run must reach at 120 s on two cores."""

    name: str
    file: str
    target: str
    metric: str
    floor: float
    greater_is_better: bool


TABLES = (
    Table("adult", "adult.csv.gz", "income", "roc_auc", 0.928, True),
    Table("california_housing", "california_housing.csv.gz", "median_house_value", "rmse", 46_500, False),
    Table("penguins", "penguins.csv", "species", "log_loss", 0.08, False),
    Table("titanic", "titanic.csv", "Survived", "roc_auc", 0.86, True),
    Table("telco_churn", "telco_churn.csv", "Churn", "roc_auc", 0.843, True),
    Table("diamonds", "diamonds.csv.gz", "price", "rmse", 545, False),
)


def data_folder(given: Path | None) -> Path | None:
    """The first folder that holds any of the tables."""
    named = os.environ.get("TABAPP_DATA")
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folders = [given] if given else [Path(named)] if named else [beside]
    return next((folder for folder in folders if any((folder / table.file).is_file() for table in TABLES)), None)


def count_rows(path: Path) -> int:
    """Rows below the header."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="", encoding="utf-8") as file:
        return sum(1 for row in csv.reader(file) if row) - 1


def measure(table: Table, file: Path, budget: str, folder: Path) -> dict[str, Any]:
    """Run one table and predict it with its bundle; returns the result and the missed requirements."""
    bundle, predictions = folder / f"{table.name}.tabapp", folder / f"{table.name}_predictions.csv"
    command = [sys.executable, "-m", "tabapp", "--auto", str(file), "--target", table.target, "--budget", budget]
    command += ["--json", "--runs-dir", str(folder / "runs"), "--out", str(bundle)]
    began = time.perf_counter()
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    lines = run.stdout.splitlines()
    last: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    result: dict[str, Any] = {
        "table": table.name,
        "rows": count_rows(file),
        "metric": table.metric,
        "floor": table.floor,
        "seconds": round(seconds, 1),
        "exit_code": run.returncode,
        "finished": last,
        "stderr": run.stderr[-2000:],
    }
    began = time.perf_counter()
    predict = [sys.executable, "-m", "tabapp", "predict", str(bundle), str(file), "-o", str(predictions), "-q"]
    result["predict_exit_code"] = subprocess.run(predict, check=False).returncode if bundle.is_file() else None
    result["predict_seconds"] = round(time.perf_counter() - began, 1)
    result["predicted"] = count_rows(predictions) if predictions.is_file() else 0
    result["missed"] = missed(table, result, parse_budget(budget))
    return result


def missed(table: Table, result: dict[str, Any], budget: float) -> list[str]:
    """Descriptions of the requirements that the run missed."""
    last = result["finished"]
    if last.get("ev") != "run.finished" or last.get("status") != "ok" or result["exit_code"] != 0:
        return [f"no result: exit code {result['exit_code']}, {last.get('message') or result['stderr']}"]
    faults: list[str] = []
    if result["seconds"] > budget * ALLOWANCE:
        faults.append(f"took {result['seconds']:.0f} s")
    scored = [row for row in last["leaderboard"] if row["score"] is not None]
    ensemble = next((row for row in scored if row["model"] == "ensemble"), None)
    single = best_single(last)
    if len(scored) - (ensemble is not None) < MODELS_NEEDED:
        faults.append(f"{len(scored) - (ensemble is not None)} models with a score")
    sign = 1 if table.greater_is_better else -1
    # The score of the best single model is the better for being chosen among all by the rows that it is measured on.
    if ensemble is None or single is None or sign * ensemble["score"] < sign * single["low" if sign > 0 else "high"]:
        faults.append("the ensemble is clearly worse than the best single model")
    if last["metric"] != table.metric:
        faults.append(f"scored by {last['metric']}")
    elif sign * last["best"]["score"] < sign * table.floor:
        faults.append("below the floor")
    if result["predict_exit_code"] != 0 or result["predicted"] != result["rows"]:
        faults.append(f"{result['predicted']} predictions of {result['rows']} rows")
    return faults


def best_single(last: dict[str, Any]) -> dict[str, Any] | None:
    """The best single model among those with the most folds."""
    rows = [row for row in last["leaderboard"] if row["score"] is not None and row["model"] != "ensemble"]
    most = max((row["folds"] for row in rows), default=0)
    return next((row for row in rows if row["folds"] == most), None)


def metric_title(name: str) -> str:
    """A metric's name with the direction that is better."""
    metric = metrics.get(name)
    return f"{metric.title} {'↑' if metric.greater_is_better else '↓'}"


def cells(result: dict[str, Any]) -> list[str]:
    """One line of the table."""
    last = result["finished"]
    faults = "; ".join(result["missed"]) or "ok"
    if last.get("best") is None:
        return [
            result["table"],
            f"{result['rows']:,}",
            result["metric"],
            *("—",) * 6,
            f"{result['seconds']:.0f}",
            faults,
        ]
    best, single = last["best"], best_single(last)
    scored = sum(row["score"] is not None and row["model"] != "ensemble" for row in last["leaderboard"])
    return [
        result["table"],
        f"{result['rows']:,}",
        metric_title(result["metric"]),
        format_score(best["score"]),
        f"{format_score(best['low'])} … {format_score(best['high'])}",
        format_score(result["floor"]),
        f"{single['title']} {format_score(single['score'])}" if single else "—",
        f"{scored} of {len(last['leaderboard']) - 1}",
        f"{result['predict_seconds']:.1f}",
        f"{result['seconds']:.0f}",
        faults,
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(table.name for table in TABLES), help="names, separated by commas")
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--data", type=Path, help="folder of the tables")
    parser.add_argument("--out", type=Path, default=RESULTS / "main_tables.json")
    options = parser.parse_args()
    wanted: list[str] = options.tables.split(",")
    unknown = set(wanted) - {table.name for table in TABLES}
    if unknown:
        parser.error(f"unknown table {', '.join(sorted(unknown))}")
    folder = data_folder(options.data)
    if folder is None:
        print("No tables found. Set --data or TABAPP_DATA to their folder.", file=sys.stderr)
        return 0
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for table in TABLES:
            if table.name not in wanted:
                continue
            if not (folder / table.file).is_file():
                print(f"{table.file} is not in {folder}; skipped", file=sys.stderr)
                continue
            results.append(measure(table, folder / table.file, options.budget, Path(scratch)))
            print(" ".join(cells(results[-1])), file=sys.stderr, flush=True)
    report(
        {**machine("torch", "xgboost", "catboost", "lightgbm", "optuna"), "budget": options.budget},
        [
            "table",
            "rows",
            "metric",
            "score",
            "95 % interval",
            "floor",
            "best single model",
            "models scored",
            "predict s",
            "seconds",
            "missed",
        ],
        [cells(result) for result in results],
        results,
        options.out,
        right=(1, 3, 4, 5, 7, 8, 9),
        unpublished=("floor", "predict s", "missed"),
    )
    return 1 if any(result["missed"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
