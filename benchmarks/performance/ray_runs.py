"""Runs on a Ray cluster of two nodes on this machine beside local ones, and one whose node is killed.

python -m benchmarks.performance.ray_runs [--tables adult,diamonds] [--budget 120s] [--seeds 1] [--data FOLDER] [--out FILE.json]

Needs `tabapp[ray]` and a machine without other work: all runs of a table have the same number of workers, one for each core. Each
table is split at random, a fifth of its rows is the test table. "local" runs on this machine, "ray" on two raylets with ports of
their own and half of the cores each, and "ray, node killed" is the same with SIGKILL to one raylet and its processes halfway.
"repeated" counts complete fits that were reported twice or whose files changed after the kill, "lost" those whose files are missing
at the end. Exits with 1 if a run fails, takes longer than a tenth above its budget, or loses or repeats a fit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import psutil

from benchmarks.machine import RESULTS, machine, report
from benchmarks.product.main_tables import ALLOWANCE, TABLES, Table, data_folder
from benchmarks.product.rivals import split
from tabapp.run.options.units import parse_budget
from tabapp.run.record.folder import list_runs

KINDS = ("local", "ray", "ray, node killed")
KILL_SHARE = 0.5


@contextmanager
def two_nodes(cores: int) -> Generator[Any]:
    """A cluster of two raylets on this machine, which share the cores."""
    cluster: Any = import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": max(1, cores - cores // 2)}
    )
    cluster.add_node(num_cpus=max(1, cores // 2))
    cluster.wait_for_nodes()
    try:
        yield cluster
    finally:
        cluster.shutdown()


def kill_node(cluster: Any) -> None:
    """Kill the raylet that is not the head, with all of its processes."""
    raylet = psutil.Process(next(iter(cluster.worker_nodes)).all_processes["raylet"][0].process.pid)
    for process in (*raylet.children(recursive=True), raylet):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def fits_on_disk(folder: Path) -> dict[str, int]:
    """The complete fits of the run in a folder, with the time at which each was written."""
    runs = list_runs(folder)
    paths = runs[0].fits.glob("*-f*/metrics.json") if runs else ()
    return {path.parent.name: path.stat().st_mtime_ns for path in paths}


def measure(
    kind: str, table: Table, place: Path, options: argparse.Namespace, seed: int, cluster: Any
) -> dict[str, Any]:
    """Run a table once."""
    runs = place / f"{kind.replace(', ', '-').replace(' ', '-')}-{seed}"
    command = [sys.executable, "-m", "tabapp", "--auto", str(place / "train.csv"), "--test", str(place / "test.csv")]
    command += ["--target", table.target, "--metric", table.metric, "--budget", options.budget, "--seed", str(seed)]
    command += ["--workers", str(options.workers), "--json", "--runs-dir", str(runs)]
    if kind != "local":
        command += ["--executor", "ray", "--address", cluster.address]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    finished, failed, last = list[str](), list[str](), dict[str, Any]()
    before: dict[str, int] | None = None
    kill_at = began + KILL_SHARE * parse_budget(options.budget)
    for line in process.stdout:
        event = json.loads(line)
        match event["ev"]:
            case "fit.finished":
                finished.append(event["fit"])
            case "fit.failed":
                failed.append(f"{event['fit']}: {event['reason']}")
            case "run.finished":
                last = event
            case _:
                pass
        if kind == KINDS[2] and before is None and time.monotonic() > kill_at:
            kill_node(cluster)
            before = fits_on_disk(runs)
    code = process.wait()
    seconds = time.monotonic() - began
    assert process.stderr is not None
    after = fits_on_disk(runs)
    was_killed, before = before is not None, before or {}
    ensemble = next((row for row in last.get("leaderboard", []) if row["model"] == "ensemble"), {})
    return {
        "table": table.name,
        "kind": kind,
        "seed": seed,
        "exit_code": code,
        "errors": process.stderr.read().splitlines()[-3:],
        "seconds": round(seconds, 1),
        "score": ensemble.get("score"),
        "low": ensemble.get("low"),
        "high": ensemble.get("high"),
        "test_score": last.get("test_score"),
        "fits": len(finished),
        "failed": failed,
        "killed": was_killed,
        "complete_before": len(before),
        "repeated": len(finished) - len(set(finished)) + sum(after.get(fit, at) != at for fit, at in before.items()),
        "lost": sum(fit not in after for fit in before),
    }


def is_good(result: dict[str, Any], budget: float) -> bool:
    """Whether a run ended in time with a score, and neither lost nor repeated a fit."""
    counted = result["lost"] == result["repeated"] == 0
    return (
        counted and result["exit_code"] == 0 and result["score"] is not None and result["seconds"] <= ALLOWANCE * budget
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="adult,diamonds")
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=max(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=RESULTS / "ray_runs.json")
    options = parser.parse_args()
    data = data_folder(options.data)
    if data is None:
        print("The tables are missing. Set --data or TABAPP_DATA.", file=sys.stderr)
        return 1
    results: list[dict[str, Any]] = []
    facts = machine("ray")
    for table in (table for table in TABLES if table.name in options.tables.split(",")):
        with tempfile.TemporaryDirectory(prefix="tabapp-ray-") as name:
            place = Path(name)
            task = "regression" if not table.greater_is_better and table.metric == "rmse" else "binary"
            train, test = split(pl.read_csv(data / table.file, infer_schema=False), table.target, task, 0)
            train.write_csv(place / "train.csv")
            test.write_csv(place / "test.csv")
            for seed in range(options.seeds):
                for kind in KINDS:
                    if kind == "local":
                        results.append(measure(kind, table, place, options, seed, None))
                    else:
                        with two_nodes(options.workers) as cluster:
                            results.append(measure(kind, table, place, options, seed, cluster))
                    print(json.dumps(results[-1]), flush=True)
    header = ["table", "run", "score", "interval", "test score", "seconds", "complete fits", "lost", "repeated"]
    rows = [
        [
            result["table"],
            result["kind"],
            "-" if result["score"] is None else f"{result['score']:.5g}",
            "-" if result["low"] is None else f"{result['low']:.5g} to {result['high']:.5g}",
            "-" if result["test_score"] is None else f"{result['test_score']:.5g}",
            f"{result['seconds']:.0f}",
            str(result["fits"]),
            str(result["lost"]),
            str(result["repeated"]),
        ]
        for result in results
    ]
    report(facts, header, rows, results, options.out, right=(2, 3, 4, 5, 6, 7, 8))
    return 0 if all(is_good(result, parse_budget(options.budget)) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
