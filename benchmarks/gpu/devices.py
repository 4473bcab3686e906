"""Runs of the same budget with and without the GPU, side by side on separate halves of the processor's cores.

python -m benchmarks.gpu.devices [--tables a,b] [--draws 0] [--budget 120] [--out-of-fold] [--data FOLDER]
                             [--out FILE.json]

Tables, draws, scores and errors are those of `benchmarks.product.rivals`. Both runs start together, so that the state of the
machine is the same for both; the run on the CPU has as many cores as the run with the GPU. "GPU busy" is the mean utilization
that the run reports between the start of its first fit and the end of its last one; "after 10 s" leaves out the first ten
seconds of the run. "First network" is when the first fold of a network ends, in seconds since the engine was started. Results
are added to an existing --out, which a repeated command continues.

With --out-of-fold, nothing is predicted after the runs, which takes up to half a minute for each: the errors are those of the
ensemble's out-of-fold predictions. Both runs on a table have the same folds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.budgets import mean_of, numbers
from benchmarks.product.rivals import (
    command_of,
    entries_of,
    error_of,
    facts_of_entry,
    keep_results,
    measure,
    results_in,
    split,
    table_of_entry,
)
from benchmarks.product.together import run_together
from tabapp import metrics
from tabapp.models import registry
from tabapp.run.record.state import format_score

TABLES = ("adult", "california_housing", "covertype", "diamonds", "hotel_bookings", "protein_casp")
"""Tables of at least 20,000 rows."""
START_SECONDS = 10.0
CPU, GPU = "tabapp:device=cpu", "tabapp:device=cuda"


def facts_of_run(folder: Path) -> dict[str, Any]:
    """What the events of the run in a folder say about its GPU and its fits."""
    events = events_of_run(folder)
    return facts_of_events(events) | {"fits": fits_of_events(events)}


def events_of_run(folder: Path) -> list[dict[str, Any]]:
    """The events of the only run in a folder."""
    (file,) = folder.rglob("events.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def fits_of_events(
    events: Sequence[Mapping[str, Any]],
) -> list[tuple[str, str | None, float, float, float | None, float]]:
    """The fits that ended: names, devices, seconds of the run at which they began and ended, the seconds that they were expected to
    take, and their scores, from which the priors of `Plugin.cost` and the order of models can be checked."""
    begun = {event["fit"]: event for event in events if event["ev"] == "fit.started"}
    ended = [event for event in events if event["ev"] == "fit.finished" and event["fit"] in begun]
    return [
        (end["fit"], start.get("device"), start["elapsed"], end["elapsed"], start.get("seconds"), end["score"])
        for start, end in ((begun[event["fit"]], event) for event in ended)
    ]


def facts_of_events(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Utilization of the GPU during fits in percent, in all and after the start of the run; the seconds until the first fold of a
    network ended; and the fits of networks and of other models that ended. None is not known."""
    fits = [event for event in events if event["ev"] in ("fit.started", "fit.finished")]
    first, last = (fits[0]["elapsed"], fits[-1]["elapsed"]) if fits else (0.0, 0.0)
    used = [
        (event["elapsed"], event["gpu_percent"])
        for event in events
        if event["ev"] == "resources" and event.get("gpu_percent") is not None and first <= event["elapsed"] <= last
    ]
    ended = [(event["elapsed"], registry.get(event["model"]).family) for event in fits if event["ev"] == "fit.finished"]
    networks = [elapsed for elapsed, family in ended if family == "deep"]
    return {
        "busy": _mean([percent for _, percent in used]),
        "busy_later": _mean([percent for elapsed, percent in used if elapsed >= START_SECONDS]),
        "first_network": min(networks, default=None),
        "networks": len(networks),
        "others": len(ended) - len(networks),
    }


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def run(system: str, entry: dict[str, Any], draw: int, options: argparse.Namespace) -> dict[str, Any]:
    """Score and facts of one run."""
    table = table_of_entry(options.data, entry)
    with TemporaryDirectory(prefix="tabapp-devices-") as folder:
        options.keep = Path(folder)
        score = trained if options.out_of_fold else measure
        result = score(system, entry["name"], table, facts_of_entry(entry), draw, options)
        return result | facts_of_run(Path(folder)) if "score" in result else result


def trained(
    system: str, name: str, table: pl.DataFrame, facts: dict[str, Any], draw: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Train on the training rows of a draw; the score is that of the ensemble's out-of-fold predictions."""
    paths = {"train": "train.csv", "test": "test.csv", "out": "out.csv", "bundle": "b.tabapp", "runs": "runs"}
    files = {key: str(options.keep / path) for key, path in paths.items()}
    split(table, facts["target"], facts["task"], draw)[0].write_csv(files["train"])
    began = time.perf_counter()
    done = subprocess.run(command_of(system, files, facts, options)[0], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    return {"score": out_of_fold_score(events_of_run(options.keep)), "seconds": [seconds]}


def out_of_fold_score(events: Sequence[Mapping[str, Any]]) -> float:
    """The score of the ensemble at the end of a run."""
    return next(event["best"]["score"] for event in events if event["ev"] == "run.finished")


def show(results: dict[str, dict[str, Any]], entries: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """One line per table and draw, then the geometric mean of the ratios."""
    rows: list[list[str]] = []
    logarithms: list[float] = []
    for entry in entries:
        name, metric = entry["name"], facts_of_entry(entry)["metric"]
        for draw in options.draws:
            cpu, gpu = (results.get(f"{name}|{system}|{draw}|{options.budget}", {}) for system in (CPU, GPU))
            if "score" not in cpu or "score" not in gpu:
                continue
            errors = [error_of(result["score"], metric) for result in (cpu, gpu)]
            ratio = errors[1] / errors[0]
            logarithms.append(float(np.log(ratio)))
            busy = [_shown(gpu.get(name), "%") for name in ("busy", "busy_later")]
            fits = [f"{result['networks']} + {result['others']}" for result in (cpu, gpu)]
            label = metric if not metrics.get(metric).greater_is_better else f"1 - {metric}"
            rows.append([name, label, *map(format_score, errors), f"{ratio:.3f}", *fits, *busy])
            rows[-1].append(_shown(gpu.get("first_network"), "s", 1))
    header = ["table", "error", "CPU", "GPU", "ratio", "fits on the CPU", "fits with the GPU", "GPU busy", "after 10 s"]
    header.append("first network")
    rows.append(["ratio", "", "", "", mean_of(logarithms), *[""] * (len(header) - 5)])
    facts = {**machine("torch", "xgboost", "catboost", "lightgbm"), "device": device_name(), "budget": options.budget}
    if options.out_of_fold:
        facts["scored"] = "out of fold"
    report(facts, header, rows, results, options.out, right=tuple(range(2, len(header))))


def _shown(value: float | None, unit: str, decimals: int = 0) -> str:
    return "—" if value is None else f"{value:.{decimals}f} {unit}"


def device_name() -> str:
    """The name of the GPU."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--draws", type=numbers, default=[0])
    parser.add_argument("--budget", type=int, default=120, help="seconds")
    parser.add_argument("--out-of-fold", action="store_true", help="score the out-of-fold predictions")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument("--out", type=Path, default=RESULTS / "devices.json")
    options = parser.parse_args()
    entries = entries_of(parser, options.data, options.tables.split(","))
    if entries is None:
        return 0
    results = results_in(options.out)
    for entry in entries:
        for draw in options.draws:
            keys = {system: f"{entry['name']}|{system}|{draw}|{options.budget}" for system in (CPU, GPU)}
            if all("score" in results.get(key, {}) for key in keys.values()):
                continue
            for system, result in run_together({s: partial(run, s, entry, draw, options) for s in keys}, draw):
                results[keys[system]] = result
                keep_results(options.out, results, keys[system])
    # Earlier commands may have run other tables.
    has = {key.partition("|")[0] for key in results}
    shown = entries_of(parser, options.data, [name for name in TABLES if name in has])
    show(results, shown or entries, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
