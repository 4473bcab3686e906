"""Replay recorded fits with the policy of today and with changed numbers.

python -m benchmarks.lab.variants [CHANGES…] [--budgets 60,120,240] [--workers 2] [--processes 2] [--lab FOLDER] [--out FILE.json]

CHANGES are changes made together, with commas: `cheap_share=0.02,n_rivals=5` sets two numbers of `tabapp.policy.Policy`, and
`without second_trials` leaves out a rule; without any, each number that replays depend on is halved and doubled, and each rule left
out. The fits are those of `benchmarks.lab.collect`. For each budget, and for all together, a ratio is the error of the test rows
with the changes over the error with today's policy, so that more than 1 means that today's is better: the geometric mean over the
tables, each of which counts with the mean of its draws, with its standard error over the tables. "members" and "nowhere" are the
shares of worker time in members of the last ensemble and in candidates that are never complete.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lab.collect import LAB
from benchmarks.lab.library import Library, open_libraries
from benchmarks.lab.replay import replay
from benchmarks.machine import RESULTS, machine, report
from tabapp.engine.schedule.choices import Rule
from tabapp.engine.schedule.rules import TIMED_RULES
from tabapp.policy import POLICY, Policy

NONE, WITHOUT = "today's policy", "without "
NUMBERS = (
    "cap_share", "prior_weight", "most_ratio", "safety", "short_share", "quick_share", "cheap_share", "n_rivals",
    "first_share", "dropped_share", "gain_of_all_time", "affordable_share", "leader_share", "large_gain",
    "interim_candidates", "interim_rounds",
)  # fmt: skip
"""Numbers of the scheduler that replays depend on."""
Outcome = dict[str, float]
"""Of a replay: the "error" of the test rows, and the shares of the time of "members" and "nowhere"."""


def changed(changes: str) -> Policy:
    """The policy of today with the changes that a text names."""
    parts = [change.partition("=") for change in changes.split(",") if "=" in change]
    return replace(POLICY, **{name: json.loads(value) for name, _, value in parts})


def remaining(changes: str) -> tuple[Rule, ...]:
    """The rules of a run with a time limit that a text does not leave out.

    Raises:
        ValueError: there is no such rule.
    """
    names = {change.removeprefix(WITHOUT) for change in changes.split(",") if "=" not in change} - {NONE}
    if unknown := names - {rule.__name__ for rule in TIMED_RULES}:
        raise ValueError(f"there is no rule {', '.join(sorted(unknown))}")
    return tuple(rule for rule in TIMED_RULES if rule.__name__ not in names)


def halved_and_doubled(names: Sequence[str]) -> list[str]:
    """Numbers of the policy with half and twice their values, each as changes."""
    found: list[str] = []
    for name in names:
        value = getattr(POLICY, name)
        found += [f"{name}={value // 2 if isinstance(value, int) else value / 2:g}", f"{name}={value * 2:g}"]
    return found


@cache
def _library(place: Path) -> Library:
    return Library(place)


def outcome(place: Path, changes: str, budget: float, workers: int) -> Outcome:
    """What the replay of a draw leads to; empty if no fit ends in time."""
    result = replay(_library(place), budget, workers, changed(changes), remaining(changes))
    if result is None:
        return {}
    shares = {"members": result.share_of_members(), "nowhere": result.share_nowhere()}
    return {"error": result.test_error, **shares}


def mean_ratio(before: Mapping[str, Outcome], after: Mapping[str, Outcome], of: str = "error") -> tuple[float, float]:
    """The geometric mean over tables of the ratio of errors after and before a change, and its standard error as a share.

    Args:
        before, after: outcomes by "table-draw", with anything after a vertical bar.
        of: the name of the error.
    """
    by_table: dict[str, list[float]] = {}
    for name in before.keys() & after.keys():
        if of in before[name] and of in after[name]:
            ratio = after[name][of] / before[name][of]
            by_table.setdefault(name.partition("|")[0].rpartition("-")[0], []).append(math.log(ratio))
    means = [float(np.mean(logs)) for logs in by_table.values()]
    error = float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.nan
    return math.exp(float(np.mean(means))) if means else math.nan, error


def shown(ratio: float, error: float) -> str:
    """A mean ratio as text."""
    return "—" if math.isnan(ratio) else f"{ratio:.4f} ± {error:.4f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="*", metavar="CHANGES")
    parser.add_argument("--budgets", default="60,120,240")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--lab", type=Path, default=LAB)
    parser.add_argument("--out", type=Path, default=RESULTS / "scheduling.json")
    options = parser.parse_args()
    libraries = [library for library in open_libraries(options.lab) if library.models]
    if not libraries:
        print(f"{options.lab} has no recorded fits; make them with benchmarks.lab.collect.", file=sys.stderr)
        return 0
    every = [
        NONE,
        *(options.changes or [*halved_and_doubled(NUMBERS), *(WITHOUT + rule.__name__ for rule in TIMED_RULES)]),
    ]
    for changes in every:
        # A wrong name ends the command before the first replay.
        changed(changes)
        remaining(changes)
    budgets = [float(budget) for budget in options.budgets.split(",")]
    keys = [(library.place, changes, budget) for changes in every for budget in budgets for library in libraries]
    results: dict[str, dict[str, Outcome]] = {changes: {} for changes in every}
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        found = pool.map(outcome, *zip(*keys, strict=True), repeat(options.workers))
        for (place, changes, budget), each in zip(keys, found, strict=True):
            results[changes][f"{place.name}|{budget:g}"] = each
            if place is libraries[-1].place and budget == budgets[-1]:
                print(changes, shown(*mean_ratio(results[NONE], results[changes])), file=sys.stderr, flush=True)
    header = ["change", *(f"{budget:g} s" for budget in budgets), "all", "members", "nowhere"]
    rows: list[list[str]] = []
    for changes, of_draws in results.items():
        parts = [f"|{budget:g}" for budget in budgets] + [""]
        ratios = [mean_ratio({k: v for k, v in results[NONE].items() if k.endswith(part)}, of_draws) for part in parts]
        shares = [[each[name] for each in of_draws.values() if each] for name in ("members", "nowhere")]
        rows.append([changes, *(shown(*ratio) for ratio in ratios), *(f"{np.mean(share):.0%}" for share in shares)])
    facts: dict[str, Any] = {**machine(), "workers": options.workers}
    report(facts, header, rows, results, options.out, right=range(1, len(header)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
