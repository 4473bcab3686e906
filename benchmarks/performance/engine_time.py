"""How busy the workers and the engine are in a run: between the first fit and the ensemble.

python -m benchmarks.performance.engine_time [TABLE.csv[:TARGET] ...] [--budget 120s] [--data FOLDER] [--out FILE.json]

Needs a quiet machine. Without a table it uses adult, california_housing and titanic of --data or $TABAPP_DATA. "workers busy" is
the share of that time of all workers in which a fit runs (see `benchmarks.product.worker_time`). "engine" is the time of the engine
process alone on one core, and "servers" that of its fit servers, which load libraries and start fits. Exits with 1 if
the mean of the workers is below 93 % or that of the engine above 4 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.main_tables import TABLES, data_folder
from benchmarks.product.worker_time import read
from tabapp.run.record.folder import list_runs

DEFAULT = ("adult", "california_housing", "titanic")
LEAST_BUSY, MOST_ENGINE = 0.93, 0.04


def engine_of(command: psutil.Process) -> psutil.Process:
    """The engine among the processes of a command."""
    return next(
        child
        for child in (command, *command.children(recursive=True))
        if "tabapp.processes.engine" in " ".join(child.cmdline())
    )


def own_seconds(process: psutil.Process) -> float:
    """Processor time of a process without its children."""
    times = process.cpu_times()
    return times.user + times.system


def server_seconds(engine: psutil.Process) -> float:
    """Processor time of the children of the engine, without the fits that they start."""
    seconds = 0.0
    for child in engine.children():
        with suppress(psutil.Error):
            seconds += own_seconds(child)
    return seconds


def measure(table: Path, target: str, budget: str, folder: Path) -> dict[str, Any]:
    """Run a table, and compare the processor time of its engine at the first fit and at the ensemble."""
    command = [sys.executable, "-m", "tabapp", "--auto", str(table), "--json", "--budget", budget]
    command += ["--runs-dir", str(folder), *(["--target", target] if target else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    engine: psutil.Process | None = None
    first: tuple[float, float, float] | None = None
    last: tuple[float, float, float] | None = None
    fits = 0
    for line in process.stdout:
        event = json.loads(line)
        fits += event["ev"] == "fit.finished"
        begins = event["ev"] == "fit.started" and first is None
        ends = event["ev"] == "stage.changed" and event["stage"] == "ensembling" and last is None
        if begins or ends:
            engine = engine or engine_of(psutil.Process(process.pid))
            point = event["t"], own_seconds(engine), server_seconds(engine)
            first, last = (point, last) if begins else (first, point)
    if process.wait() != 0 or first is None or last is None:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    seconds = last[0] - first[0]
    time = read(list_runs(folder)[0].path)
    return {
        "seconds": round(seconds, 1),
        "fits": fits,
        "workers_busy": 1 - time.shares["idle"],
        "engine": (last[1] - first[1]) / seconds,
        "servers": (last[2] - first[2]) / seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE.csv[:TARGET]")
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=RESULTS / "engine_time.json")
    options = parser.parse_args()
    chosen = [(Path(name), target) for name, _, target in (text.partition(":") for text in options.tables)]
    if not chosen:
        data = data_folder(options.data)
        if data is None:
            print("The tables are missing. Set --data or TABAPP_DATA, or name a table.", file=sys.stderr)
            return 1
        chosen = [(data / table.file, table.target) for table in TABLES if table.name in DEFAULT]
    facts = machine()
    results: dict[str, Any] = {}
    for table, target in chosen:
        with tempfile.TemporaryDirectory(prefix="tabapp-engine-") as folder:
            name = table.name.partition(".")[0]
            results[name] = measure(table, target, options.budget, Path(folder))
            print(name, results[name], flush=True)
    keys = ("workers_busy", "engine", "servers")
    mean = {key: sum(result[key] for result in results.values()) / len(results) for key in keys}
    rows = [
        [name, f"{result['seconds']:.0f}", str(result["fits"]), *(f"{result[key]:.1%}" for key in keys)]
        for name, result in results.items()
    ]
    rows.append(["mean", "", "", *(f"{mean[key]:.1%}" for key in keys)])
    header = ["table", "seconds", "complete fits", "workers busy", "engine", "servers"]
    report(facts, header, rows, {"runs": results, "mean": mean}, options.out, right=(1, 2, 3, 4, 5))
    return 0 if mean["workers_busy"] >= LEAST_BUSY and mean["engine"] <= MOST_ENGINE else 1


if __name__ == "__main__":
    sys.exit(main())
