"""Replay recorded fits with the policy of today and with changed numbers.

python -m benchmarks.lab.variants CHANGES [CHANGES…] [--budgets 60,120,240] [--workers 2] [--lab FOLDER] [--out FILE.json]

CHANGES are changes made together, with commas: `cheap_share=0.02,n_rivals=5` sets two numbers of `tabapp.policy.Policy`. The fits
are those of `benchmarks.lab.collect`. For each budget, a ratio is the error on test rows with today's policy over the error with
the changes, so that less than 1 means that today's is better; the mean over the draws of all tables is geometric, with its standard
error. "members" and "nowhere" are the shares of worker time in members of the last ensemble and in candidates that are never
complete.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lab.collect import LAB
from benchmarks.lab.library import Library, open_libraries
from benchmarks.lab.replay import replay
from benchmarks.machine import RESULTS, ResultTable, machine, report
from tabapp.policy import POLICY, Policy

NONE = "today's policy"
Outcome = tuple[float, float, float]
"""Test error, share of time of members, and of candidates that are never complete."""


def changed(changes: str) -> Policy:
    """The policy of today with the changes that a text names."""
    parts = [change.partition("=") for change in changes.split(",") if changes != NONE]
    return replace(POLICY, **{name: json.loads(value) for name, _, value in parts})


def outcomes(libraries: list[Library], changes: str, budget: float, workers: int) -> dict[str, Outcome]:
    """What replays of all draws lead to; those in which no fit ends in time are left out."""
    found: dict[str, Outcome] = {}
    for library in libraries:
        result = replay(library, budget, workers, changed(changes))
        if result is not None:
            found[library.place.name] = result.test_error, result.share_of_members(), result.share_nowhere()
    return found


def mean_ratio(today: dict[str, Outcome], other: dict[str, Outcome]) -> str:
    """The geometric mean of the ratios of both errors, with its standard error."""
    logs = [math.log(today[name][0] / other[name][0]) for name in today if name in other]
    spread = np.std(logs, ddof=1) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return f"{math.exp(np.mean(logs)):.3f} ± {spread:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="+")
    parser.add_argument("--budgets", default="60,120,240")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lab", type=Path, default=LAB)
    parser.add_argument("--out", type=Path, default=RESULTS / "lab_variants.json")
    options = parser.parse_args()
    libraries = [library for library in open_libraries(options.lab) if library.models]
    if not libraries:
        print(f"{options.lab} has no recorded fits; make them with benchmarks.lab.collect.", file=sys.stderr)
        return 0
    rows: list[list[str]] = []
    by_draw: list[list[str]] = []
    results: dict[str, dict[str, Outcome]] = {}
    for budget in map(float, options.budgets.split(",")):
        today: dict[str, Outcome] = {}
        for changes in (NONE, *options.changes):
            found = results[f"{changes}|{budget:g}"] = outcomes(libraries, changes, budget, options.workers)
            today = found if changes == NONE else today
            ratio = "" if changes == NONE else mean_ratio(today, found)
            shares = [f"{np.mean([outcome[i] for outcome in found.values()]):.0%}" for i in (1, 2)]
            rows.append([f"{budget:g} s", changes, str(len(found)), ratio, *shares])
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
            if changes != NONE:
                ratios = [f"{today[name][0] / found[name][0]:.3f}" if name in found else "—" for name in today]
                by_draw.append([f"{budget:g} s", changes, *ratios])
    names = [library.place.name for library in libraries]
    second = ResultTable(
        name="draws", columns=["budget", "without", *names], right=list(range(2, 2 + len(names))), rows=by_draw
    )
    header = ["budget", "without", "draws", "error", "members", "nowhere"]
    facts: dict[str, Any] = {**machine(), "workers": options.workers}
    report(facts, header, rows, results, options.out, right=(2, 3, 4, 5), more=[second])
    return 0


if __name__ == "__main__":
    sys.exit(main())
