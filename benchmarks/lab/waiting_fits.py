"""Expected seconds of fits, with and without the time that earlier fits waited for a processor, in finished runs.

python -m benchmarks.lab.waiting_fits TABLE=RUN… [--out FILE.json]

RUN is a run folder. A fit is expected to take the mean seconds of the last ten of its model, as measured, or without waiting and times
the slowdown of the latest fits. The table has the mean absolute logarithm of expected and measured seconds of the fits that took 0.3
seconds or more; the last line has the mean difference over the runs and its standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median_low
from typing import Any

import numpy as np

from benchmarks.machine import RESULTS, machine, report
from tabapp.engine.fit.jobs import FitResult, decode_result
from tabapp.engine.schedule.scheduler import N_SLOWDOWNS

LEAST_SECONDS = 0.3


def expectations(run: Path) -> dict[str, dict[str, float]]:
    """Measured and expected seconds of each fit that has an earlier one of its model, by its name."""
    results = {file.parent.name: decode_result(file.read_bytes()) for file in run.glob("fits/*-f*/metrics.json")}
    names = {(result.model, result.trial, result.fold): name for name, result in results.items()}
    earlier: dict[str, list[FitResult]] = defaultdict(list)
    slowdowns: list[float] = []
    found: dict[str, dict[str, float]] = {}
    for line in (run / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        name = names.get((event.get("model"), event.get("trial"), event.get("fold")))
        if name is None:
            continue
        result = results[name]
        seconds = result.seconds + result.predict_seconds
        latest = earlier[result.model][-10:]
        if event["ev"] == "fit.started" and latest and seconds >= LEAST_SECONDS:
            found[name] = {
                "seconds": seconds,
                "slowdown": result.slowdown,
                "as measured": fmean(each.seconds + each.predict_seconds for each in latest),
                "quiet": median_low(slowdowns[-N_SLOWDOWNS:]) * fmean(each.quiet_seconds for each in latest),
            }
        elif event["ev"] == "fit.finished":
            earlier[result.model].append(result)
            slowdowns.append(result.slowdown)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="TABLE=RUN")
    parser.add_argument("--out", type=Path, default=RESULTS / "waiting_fits.json")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    rows: list[list[str]] = []
    differences: list[float] = []
    for words in options.runs:
        table, _, run = words.partition("=")
        fits = expectations(Path(run))
        results |= {f"{table}|{name}": each for name, each in fits.items()}
        errors = [
            fmean(abs(float(np.log(each[how] / each["seconds"]))) for each in fits.values())
            for how in ("as measured", "quiet")
        ]
        differences.append(errors[1] - errors[0])
        rows.append([table, str(len(fits)), *(f"{error:.3f}" for error in errors), f"{differences[-1]:+.3f}"])
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    rows.append(["mean", "", "", "", f"{np.mean(differences):+.3f} ± {error:.3f}"])
    header = ["table", "fits", "as measured", "without waiting", "difference"]
    report(machine("xgboost", "catboost", "lightgbm"), header, rows, results, options.out, right=(1, 2, 3, 4))
    return 0


if __name__ == "__main__":
    sys.exit(main())
