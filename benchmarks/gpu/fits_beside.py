"""How much longer a step of a fit on a GPU takes beside another fit there than alone, from the events of runs with a GPU.

python -m benchmarks.gpu.fits_beside TABLE=RUN_FOLDER … [--out FILE.json]

A step is what the progress of a fit counts: an epoch of a network, a tree of a booster. The time between two progress events is
"alone" if no other fit was on the GPU meanwhile. A candidate with few steps on either side is left out of the table. With two fits
at the same time, the GPU gets 2 / ratio times as much done as with one after the other.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS, report
from benchmarks.product.budgets import mean_of

LEAST_STEPS = 5
MARGIN = 0.3
"""Seconds for which a fit that begins or ends does not compute on the GPU."""

Times = dict[str, dict[str, tuple[float, int]]]
"""Seconds and steps "alone" and "beside" another fit, by candidate."""


def times_of_events(events: Sequence[Mapping[str, Any]]) -> Times:
    """The steps of all fits on a GPU."""
    begun = {event["fit"]: event for event in events if event["ev"] == "fit.started" and event["device"] != "cpu"}
    ends = {event["fit"]: event["elapsed"] for event in events if event["ev"] in ("fit.finished", "fit.failed")}
    dropped = {(event["model"], event["trial"]): event["elapsed"] for event in events if event["ev"] == "trial.pruned"}
    spans = {
        fit: (event["elapsed"], ends.get(fit) or dropped.get((event["model"], event["trial"]), math.inf))
        for fit, event in begun.items()
    }
    progress: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for event in events:
        if event["ev"] == "fit.progress" and event["fit"] in begun:
            progress[event["fit"]].append((event["elapsed"], event["step"]))
    times: Times = defaultdict(lambda: {"alone": (0.0, 0), "beside": (0.0, 0)})
    for fit, points in progress.items():
        of_candidate = times[fit.rpartition("-")[0]]
        others = [span for other, span in spans.items() if other != fit]
        for (start, first), (end, last) in itertools.pairwise(points):
            is_beside = any(since + MARGIN < end and until > start for since, until in others)
            seconds, steps = of_candidate[key := "beside" if is_beside else "alone"]
            of_candidate[key] = seconds + end - start, steps + last - first
    return dict(times)


def ratio_of(times: Mapping[str, tuple[float, int]]) -> float | None:
    """Seconds of a step beside another fit over those alone; None with few steps."""
    if min(steps for _, steps in times.values()) < LEAST_STEPS:
        return None
    alone, beside = (times[key][0] / times[key][1] for key in ("alone", "beside"))
    return beside / alone


def facts_of(started: Mapping[str, Any]) -> dict[str, Any]:
    """The machine of a run, and the versions there."""
    environment = started["environment"]
    processor, _, cores = environment["Processor"].rpartition(", ")
    facts = {"processor": processor, "cores": int(cores.split()[0]), "system": environment["System"]}
    versions = {name: environment[name] for name in ("torch", "xgboost")}
    return facts | {"python": environment["Python"], "tabapp": started["version"]} | versions


def main() -> int:
    """Compare the steps of the runs, and print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="TABLE=RUN_FOLDER")
    parser.add_argument("--device", default="", help="the name of the GPU of these runs")
    parser.add_argument("--out", type=Path, default=RESULTS / "fits_beside.json")
    options = parser.parse_args()
    results: dict[str, Times] = {}
    facts: dict[str, Any] = {}
    for run in options.runs:
        name, _, folder = run.partition("=")
        lines = Path(folder, "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        results[name] = times_of_events(events)
        facts = facts_of(next(event for event in events if event["ev"] == "run.started"))
    rows: list[list[str]] = []
    logarithms: list[float] = []
    for name, of_run in results.items():
        for candidate, times in of_run.items():
            if (ratio := ratio_of(times)) is not None:
                logarithms.append(math.log(ratio))
                each = [f"{1000 * times[key][0] / times[key][1]:.1f}" for key in ("alone", "beside")]
                rows.append([name, candidate, *each, f"{ratio:.2f}"])
    rows.append(["ratio", "", "", "", mean_of(logarithms)])
    header = ["table", "candidate", "alone, ms/step", "beside another fit, ms/step", "ratio"]
    report(facts | {"device": options.device}, header, rows, results, options.out, right=(2, 3, 4))
    return 0


if __name__ == "__main__":
    sys.exit(main())
