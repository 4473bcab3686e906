"""Runs with and without the prior-fitted network among their models, side by side, on the tables of the judge.

python -m benchmarks.prior.in_runs [--draws 0,1,2,3,4] [--tables a,b] [--budget 60] [--data FOLDER] [--out FILE.json]

Tables and draws are those of `benchmarks.prior.judge`, so that all have at most 1,000 training rows. Both runs on a draw start
together, each with half of the processor's cores; one of them excludes the network. The error is
1 - AUC of the test rows, as the judge has it. The ratio of a table is the geometric mean over draws of the error with the network
divided by the error without it. A repeated command continues its --out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from benchmarks.machine import RESULTS, machine, report
from benchmarks.prior.judge import SMALLEST_ERROR
from benchmarks.prior.judge_tables import Draw, Floats, draw_of, read_tables
from benchmarks.product.budgets import mean_of, numbers
from benchmarks.product.rivals import keep_results, measure_division, results_in
from benchmarks.product.together import run_together

TARGET = "target"
SIDES = {"without": "tabapp:exclude=prior_fitted", "with": "tabapp"}


def frame_of(rows: Floats, labels: np.ndarray[Any, Any], categorical: np.ndarray[Any, Any]) -> pl.DataFrame:
    """A table as a user has it: numbers, names of categories, and empty cells."""
    columns: dict[str, Any] = {}
    for i, is_category in enumerate(categorical):
        values = [None if np.isnan(value) else value for value in rows[:, i].tolist()]
        columns[f"x{i}"] = [None if v is None else f"k{v:.0f}" for v in values] if is_category else values
    return pl.DataFrame({**columns, TARGET: [f"class {label}" for label in labels]})


def run(side: str, rows: Draw, options: Namespace) -> dict[str, Any]:
    """Score and facts of one run."""
    with TemporaryDirectory(prefix="tabapp-in-runs-") as folder:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
        os.environ["TABAPP_PLUGINS_DIR"] = os.environ["TABAPP_WEIGHTS_DIR"] = str(Path(folder, "none"))
        task = "binary" if rows.n_classes == 2 else "multiclass"
        metric = "roc_auc" if task == "binary" else "log_loss"
        facts = {"target": TARGET, "task": task, "metric": metric, "scored": "roc_auc"}
        train, test = (
            frame_of(part, labels, rows.categorical)
            for part, labels in ((rows.train, rows.train_labels), (rows.test, rows.test_labels))
        )
        settings = Namespace(budget=options.budget, keep=Path(folder), autogluon="")
        result = measure_division(SIDES[side], "run", train, test, facts, settings)
        return result | members_of(Path(folder)) if "score" in result else result


def members_of(folder: Path) -> dict[str, Any]:
    """Weight of the network in the ensemble, and its own score."""
    (file,) = folder.rglob("events.jsonl")
    events = [json.loads(line) for line in file.read_text().splitlines()]
    board = next(event for event in reversed(events) if event["ev"] == "run.finished")["leaderboard"]
    rows = {row["model"]: row for row in board}
    own = rows.get("prior_fitted")
    return {
        "weight": (own or {}).get("in_ensemble"),
        "own": (own or {}).get("score"),
        "models": sum(row.get("score") is not None for row in board),
    }


def show(results: dict[str, dict[str, Any]], names: list[str], options: Namespace) -> None:
    """One line per table, and the geometric mean of the ratios over tables."""
    lines: list[list[str]] = []
    means: list[float] = []
    for name in names:
        pairs = [[results.get(f"{name}|{side}|{draw}", {}) for side in SIDES] for draw in options.draws]
        pairs = [pair for pair in pairs if all("score" in result for result in pair)]
        if not pairs:
            continue
        errors = np.array([[max(1 - result["score"], SMALLEST_ERROR) for result in pair] for pair in pairs])
        logs = np.log(errors[:, 1] / errors[:, 0])
        means.append(float(logs.mean()))
        weight = float(np.mean([pair[1].get("weight") or 0.0 for pair in pairs]))
        lines.append(
            [name, str(len(pairs)), *(f"{e:.4f}" for e in errors.mean(axis=0)), mean_of(logs.tolist()), f"{weight:.2f}"]
        )
    lines.append([f"{len(means)} tables", "", "", "", mean_of(means), ""])
    header = ["table", "draws", "error without", "error with", "ratio", "weight of the network"]
    facts = {**machine("torch", "lightgbm", "catboost", "xgboost"), "budget": options.budget}
    report(facts, header, lines, results, options.out, right=[1, 2, 3, 4, 5])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=numbers, default=[0, 1, 2, 3, 4])
    parser.add_argument("--tables", default="")
    parser.add_argument("--budget", type=int, default=60, help="seconds")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=RESULTS / "prior_in_runs.json")
    options = parser.parse_args()
    tables = read_tables(options.data, options.tables.split(",") if options.tables else None)
    results = results_in(options.out)
    for draw in options.draws:
        for table in tables:
            keys = {side: f"{table.name}|{side}|{draw}" for side in SIDES}
            if all("score" in results.get(key, {}) for key in keys.values()):
                continue
            rows = draw_of(table, draw)
            for side, result in run_together({side: partial(run, side, rows, options) for side in SIDES}, draw):
                results[keys[side]] = result
                keep_results(options.out, results, keys[side])
    show(results, [table.name for table in tables], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
