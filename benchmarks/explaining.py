"""Processor time to explain a row: warm, with the bundle loaded; of a changed prediction; and of the whole command.

python -m benchmarks.explaining BUNDLE DATA [--rows 10] [--repeats 3] [--out FILE.json]

Times are processor seconds (user and system) of all processes, which do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import RESULTS, machine, report
from tabapp.bundle.box import load_boxed
from tabapp.data.read import read_table
from tabapp.explain.rows import Explainer

WARM_SECONDS, COLD_SECONDS, PREDICT_SECONDS = 1.5, 4.0, 0.5


def used() -> float:
    """Processor seconds of this process and its running children."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def measured(work: Callable[[], object]) -> float:
    """Processor seconds of some work."""
    before = used()
    work()
    return used() - before


def command(bundle: Path, data: Path) -> float:
    """Processor seconds of `tabapp explain` for one row, with its processes."""
    before = os.times()
    words = [sys.executable, "-m", "tabapp", "explain", str(bundle), str(data), "--row", "0", "--json"]
    subprocess.run(words, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "explaining.json")
    options = parser.parse_args()
    loaded = load_boxed(options.bundle)
    predictor = loaded.predictor
    typed = predictor.typed_rows(read_table(options.data).frame.head(options.rows))[0]
    explainer = Explainer(predictor.predict_typed, predictor.schema, loaded.reference_rows(), loaded.neighbors)
    explainer.explain(typed[:1], [0])
    errors: list[float] = []

    def explain(row: int) -> None:
        errors.append(explainer.explain(typed[row : row + 1], [row]).rows[0].error)

    warm = [measured(lambda row=row: explain(row)) for row in range(typed.height)]
    predict = [measured(lambda row=row: predictor.predict_typed(typed[row : row + 1])) for row in range(typed.height)]
    cold = [command(options.bundle, options.data) for _ in range(options.repeats)]
    results: list[dict[str, Any]] = [
        {"what": what, "bound": bound, "median": statistics.median(values), "max": max(values)}
        for what, bound, values in (
            ("one row explained, bundle loaded", WARM_SECONDS, warm),
            ("one changed row predicted, bundle loaded", PREDICT_SECONDS, predict),
            ("tabapp explain, one row", COLD_SECONDS, cold),
        )
    ]
    n_models = sum(len(candidate.folds) for candidate in predictor.ensemble.candidates)
    report(
        machine("numpy", "polars"),
        ["measurement", "median", "largest", "bound"],
        [[each["what"], *(f"{each[name]:.2f} s" for name in ("median", "max", "bound"))] for each in results],
        {
            "bundle": [[each.model, len(each.folds)] for each in predictor.ensemble.candidates],
            "fold_models": n_models,
            "columns": len(explainer.columns),
            "largest_error": max(errors),
            "seconds": results,
        },
        options.out,
        right=(1, 2, 3),
    )
    return 0 if all(each["median"] <= each["bound"] for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
