"""Every model on every kind of table: its out-of-fold score, or the reason why it was skipped or failed.

python -m benchmarks.every_model [--tables a,b] [--models a,b] [--budget 600s] [--data FOLDER] [--out FILE.json]

Binary, multiclass and regression; numbers only, categories only and mixed; from 333 rows to 581,012. Each table is one run with
`--trials 1 --folds 2`, so that only the defaults of each model are trained. Exits with 1 if a model failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS, machine, report
from tabapp.models import registry
from tabapp.run.record.state import format_score

TABLES = {
    "penguins": ("penguins.csv", "species"),
    "titanic": ("titanic.csv", "Survived"),
    "telco_churn": ("telco_churn.csv", "Churn"),
    "adult": ("adult.csv.gz", "income"),
    "california_housing": ("california_housing.csv.gz", "median_house_value"),
    "diamonds": ("diamonds.csv.gz", "price"),
    "ecoli": ("ecoli.csv", None),
    "mushrooms": ("mushrooms.csv", None),
    "power_plant": ("power_plant.csv", None),
    "covertype": ("covertype.csv.gz", None),
}


def run(name: str, data: Path, models: str, budget: str, runs: Path) -> dict[str, Any]:
    """One run; returns its `run.finished` with the skipped models."""
    file, target = TABLES[name]
    command = [sys.executable, "-m", "tabapp", "--auto", str(data / file), "--models", models, "--trials", "1"]
    command += ["--folds", "2", "--budget", budget, "--json", "--runs-dir", str(runs)]
    if target:
        command += ["--target", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    if not events:
        return {"error": done.stderr.strip().splitlines()[-1]}
    plans = [event for event in events if event["ev"] == "plan.made"]
    return events[-1] | {"plan": plans[-1]["models"] if plans else []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--models", default=",".join(registry.names()))
    parser.add_argument("--budget", default="600s")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=RESULTS / "every_model.json")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as runs:
        for name in options.tables.split(","):
            results[name] = run(name, options.data, options.models, options.budget, Path(runs))
            print(f"{name}: {results[name].get('seconds', 0):.0f} s {results[name].get('error', '')}", flush=True)
    tables = list(results)
    rows: list[list[str]] = []
    notes: list[str] = []
    failed = False
    for model in options.models.split(","):
        cells = [model]
        for table in tables:
            result = results[table]
            row = next((r for r in result.get("leaderboard", []) if r["model"] == model), None)
            reason = next((m["reason"] for m in result.get("plan", []) if m["name"] == model and m["reason"]), None)
            if row is not None and row["score"] is not None:
                partly = "" if row["folds"] == 2 else "*"
                cells.append(format_score(row["score"]) + partly)
            elif row is not None and row["status"] == "failed":
                failed = True
                cells.append("failed")
                notes.append(f"{model} on {table} failed: {row['reason']}")
            else:
                cells.append("—")
                notes.append(f"{model} on {table}: {reason or (row or {}).get('reason') or 'no time was left'}")
        rows.append(cells)
    report(machine("torch"), ["model", *tables], rows, results, options.out, tuple(range(1, len(tables) + 1)))
    print("\n* the score covers one of two folds")
    print("\n".join(notes))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
