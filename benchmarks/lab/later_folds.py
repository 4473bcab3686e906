"""Seconds of folds that reuse what the first ones found, as a share of theirs, in finished runs.

python -m benchmarks.lab.later_folds RUN... [--out FILE.json]

RUN is a run folder. Only complete candidates count whose first fold took a second or more. The table has the geometric mean of the
shares over candidates, and their 10th and 90th percentiles.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import RESULTS, machine, report
from tabapp.engine.fit.candidates import pilots_of
from tabapp.engine.fit.jobs import decode_result
from tabapp.models import registry

LEAST_SECONDS = 1.0


def shares_of(run: Path) -> dict[str, tuple[float, float]]:
    """Mean seconds of the first folds and of the later ones, by model and trial."""
    seconds: dict[str, dict[int, float]] = defaultdict(dict)
    for file in sorted(run.glob("fits/*-f*/metrics.json")):
        result = decode_result(file.read_bytes())
        seconds[f"{result.model}-{result.trial}"][result.fold] = result.seconds
    found: dict[str, tuple[float, float]] = {}
    for key, folds in seconds.items():
        n_pilots = pilots_of(registry.get(key.rpartition("-")[0]), len(folds))
        if 0 < n_pilots < len(folds) > 2 and sorted(folds) == list(range(len(folds))) and folds[0] >= LEAST_SECONDS:
            first = [folds[fold] for fold in range(n_pilots)]
            later = [folds[fold] for fold in range(n_pilots, len(folds))]
            found[key] = float(np.mean(first)), float(np.mean(later))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "later_folds.json")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    of_model: dict[str, list[float]] = defaultdict(list)
    for run in options.runs:
        for key, (first, later) in shares_of(run).items():
            results[f"{run.name}|{key}"] = {"first": first, "later": later}
            of_model[key.rpartition("-")[0]].append(later / first)
    rows = [
        [
            model,
            str(len(shares)),
            f"{np.exp(np.mean(np.log(shares))):.2f}",
            f"{np.quantile(shares, 0.1):.2f} … {np.quantile(shares, 0.9):.2f}",
        ]
        for model, shares in sorted(of_model.items())
    ]
    facts = {**machine("xgboost", "catboost", "lightgbm"), "runs": len(options.runs)}
    report(facts, ["model", "candidates", "share", "10 to 90 %"], rows, results, options.out, right=(1, 2, 3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
