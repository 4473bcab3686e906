"""The error on unseen rows by the seconds of a run, and the ratio to another system at some of them.

python -m benchmarks.product.budgets [--budgets 60,120,300,600] [--tables a,b] [--draws 0] [--autogluon PYTHON]
                             [--beside 600] [--data FOLDER] [--keep FOLDER] [--out FILE.json]

Tables, draws, scores, errors and ratios are those of `benchmarks.product.rivals`. With --autogluon, AutoGluon's `best_quality`
runs after tabapp with the budgets of --beside. Systems run one after another: nothing else may run on the machine. Results are
added to an existing --out, and its runs are not repeated.

"relative" is the geometric mean, over the tables that ran with every budget, of the error over that of the smallest budget.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.rivals import (
    entries_of,
    error_of,
    facts_of_entry,
    keep_results,
    measure,
    results_in,
    table_of_entry,
)
from tabapp import metrics
from tabapp.run.record.state import format_score

TABLES = (
    "german_credit",
    "california_housing",
    "house_prices",
    "letter",
    "protein_casp",
    "adult",
    "covertype",
    "wine_quality_white",
)
"""Small and large, wide, many classes, and each task; named before any of them ran with more than 120 s."""
RIVAL = "autogluon:best_quality"


def mean_of(logarithms: list[float]) -> str:
    """Geometric mean with the standard error of its logarithm's mean."""
    if not logarithms:
        return "—"
    mean = float(np.exp(np.mean(logarithms)))
    if len(logarithms) < 2:
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {mean * float(np.std(logarithms, ddof=1)) / np.sqrt(len(logarithms)):.3f}"


def show(results: dict[str, dict[str, Any]], facts_of: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """One line per table and draw, then the mean of the relative errors and of the ratios."""
    budgets: list[int] = options.budgets
    rows: list[list[str]] = []
    relative: dict[int, list[float]] = {budget: [] for budget in budgets}
    ratios: dict[int, list[float]] = {budget: [] for budget in options.beside}

    def error(name: str, system: str, draw: int, budget: int) -> float | None:
        result = results.get(f"{name}|{system}|{draw}|{budget}", {})
        return error_of(result["score"], facts_of[name]["metric"]) if "score" in result else None

    for name, facts in facts_of.items():
        for draw in options.draws:
            errors = [error(name, "tabapp", draw, budget) for budget in budgets]
            known = [value for value in errors if value is not None]
            if not known:
                continue
            metric = facts["metric"]
            is_error = not metrics.get(metric).greater_is_better
            cells = [
                name,
                metric if is_error else f"1 - {metric}",
                *(format_score(value) if value is not None else "—" for value in errors),
            ]
            if len(known) == len(budgets):
                for budget, value in zip(budgets, known, strict=True):
                    relative[budget].append(float(np.log(value / known[0])))
            for budget in options.beside:
                ours, other = error(name, "tabapp", draw, budget), error(name, RIVAL, draw, budget)
                if ours is None or other is None:
                    cells += ["—", "—"]
                else:
                    ratios[budget].append(float(np.log(ours / other)))
                    cells += [format_score(other), f"{ours / other:.3f}"]
            rows.append(cells)
    last = ["relative, ratio", "", *(mean_of(relative[budget]) for budget in budgets)]
    for budget in options.beside:
        last += ["", mean_of(ratios[budget])]
    rows.append(last)
    header = ["table", "error", *(f"{budget} s" for budget in budgets)]
    header += [cell for budget in options.beside for cell in (f"AutoGluon, {budget} s", "ratio")]
    facts = {**machine("torch", "xgboost", "catboost", "lightgbm"), "draws": len(options.draws)}
    report(facts, header, rows, results, options.out, right=tuple(range(2, len(header))))


def numbers(text: str) -> list[int]:
    """Whole numbers that are separated by commas."""
    return [int(part) for part in text.split(",") if part]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", type=numbers, default=[60, 120, 300, 600], help="seconds, ascending")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--draws", type=numbers, default=[0])
    parser.add_argument("--autogluon", default="", help="the Python that has AutoGluon")
    parser.add_argument("--beside", type=numbers, default=[600], help="seconds of the other system's runs")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--keep", type=Path, help="folder for run folders, tables and predictions")
    parser.add_argument("--out", type=Path, default=RESULTS / "budgets.json")
    options = parser.parse_args()
    entries = entries_of(parser, options.data, options.tables.split(","))
    if entries is None:
        return 0
    results = results_in(options.out)
    facts_of: dict[str, dict[str, Any]] = {}
    keep: Path | None = options.keep
    for entry in entries:
        name = entry["name"]
        facts_of[name] = facts_of_entry(entry)
        table = table_of_entry(options.data, entry)
        # The other system after tabapp's run with the same budget, so that the state of the machine is the same for both.
        runs = [run for budget in options.budgets for run in [("tabapp", budget), *_beside(budget, options)]]
        for draw in options.draws:
            for system, budget in runs:
                key = f"{name}|{system}|{draw}|{budget}"
                if "score" in results.get(key, {}):
                    continue
                options.budget, options.keep = budget, keep and keep / str(budget)
                results[key] = measure(system, name, table, facts_of[name], draw, options)
                keep_results(options.out, results, key)
    show(results, facts_of, options)
    return 0


def _beside(budget: int, options: argparse.Namespace) -> list[tuple[str, int]]:
    """The other system's run with a budget, if it is asked for."""
    return [(RIVAL, budget)] if options.autogluon and budget in options.beside else []


if __name__ == "__main__":
    sys.exit(main())
