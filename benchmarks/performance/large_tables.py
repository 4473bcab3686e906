"""Peak memory of whole runs on two large generated tables: many rows, and many columns.

python -m benchmarks.performance.large_tables [ROWSxCOLUMNS ...] [--limit 8GiB] [--budget 15m] [--workers N] [--out FILE.json]

The defaults are 2,000,000 rows x 50 columns and 2,000 rows x 10,000 columns. A fifth of the columns is categorical, and the binary
target depends on a few columns. Each table is written as CSV and given to `tabapp --auto` with `--memory-limit` and `--max-memory`.
The memory of the command, its engine, servers and fits is added up four times a second: as the proportional set size, in which
pages that several processes share count once ("peak"), and as the sum of the resident sets, in which they count once per process
("resident"). Exits with 1 if a run fails, has fewer than five models with a score, or its peak is above the limit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import RESULTS, machine, report

SIZES = ("2000000x50", "2000x10000")
LEAST_MODELS = 5
SAMPLE_SECONDS = 0.25
LEVELS = 12
GIB = 2**30


@dataclass
class Peak:
    """The most memory of all processes of a run, in bytes, and the stage of the run at that time."""

    proportional: int = 0
    resident: int = 0
    n_processes: int = 0
    stage: str = ""
    by_stage: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, processes: list[psutil.Process], stage: str) -> None:
        """Add a measurement."""
        proportional = resident = n_processes = 0
        for process in processes:
            with suppress(psutil.Error):
                memory = process.memory_full_info()
                proportional += memory.pss
                resident += memory.rss
                n_processes += 1
        self.resident = max(self.resident, resident)
        self.by_stage[stage] = max(self.by_stage.get(stage, 0), proportional)
        if proportional > self.proportional:
            self.proportional, self.n_processes, self.stage = proportional, n_processes, stage


def write_table(path: Path, n_rows: int, n_columns: int, seed: int = 0) -> None:
    """A binary target that depends on a few numeric and categorical columns, written in parts."""
    import numpy as np
    import polars as pl

    generator = np.random.default_rng(seed)
    n_categorical = max(1, n_columns // 5)
    levels = np.array([f"level{i}" for i in range(LEVELS)])
    rows_at_once = max(1, 10_000_000 // n_columns)
    with path.open("wb") as file:
        for start in range(0, n_rows, rows_at_once):
            n = min(rows_at_once, n_rows - start)
            numbers = generator.normal(size=(n, n_columns - n_categorical)).astype("float32")
            codes = generator.integers(0, LEVELS, (n, n_categorical))
            score = numbers[:, 0] - numbers[:, 1] + numbers[:, 2] * numbers[:, 3] + 0.3 * (codes[:, 0] - LEVELS / 2)
            positive = score + generator.normal(size=n) > 0
            numbers[generator.random(numbers.shape) < 0.01] = np.nan
            part = pl.DataFrame(
                {f"x{i}": column for i, column in enumerate(numbers.T)}
                | {f"c{i}": levels[column] for i, column in enumerate(codes.T)}
                | {"answer": np.where(positive, "yes", "no")}
            ).with_columns(pl.selectors.float().fill_nan(None))
            part.write_csv(file, include_header=start == 0, float_precision=4)


def measure(table: Path, folder: Path, limit: str, budget: str, options: list[str]) -> dict[str, Any]:
    """Run a table, and measure all processes of the run until it ends."""
    command = [sys.executable, "-m", "tabapp", "--auto", str(table), "--target", "answer", "--json", "--budget", budget]
    command += ["--memory-limit", limit, "--max-memory", limit, "--runs-dir", str(folder), *options]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    stage, last = "reading", dict[str, Any]()
    seconds: dict[str, float] = {}
    failures: list[str] = []
    skipped: dict[str, str] = {}

    def follow() -> None:
        nonlocal stage, last
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            name = event["ev"]
            seconds.setdefault(name, round(time.monotonic() - began, 1))
            if name == "stage.changed":
                stage = event["stage"]
            elif name == "fit.failed":
                failures.append(f"{event['fit']}: {event['reason']}")
            elif name == "plan.made":
                skipped.update({model["name"]: model["reason"] for model in event["models"] if model.get("reason")})
            elif name == "run.finished":
                last = event

    reader = threading.Thread(target=follow)
    reader.start()
    peak = Peak()
    command_process = psutil.Process(process.pid)
    while process.poll() is None:
        with suppress(psutil.Error):
            peak.add([command_process, *command_process.children(recursive=True)], stage)
        time.sleep(SAMPLE_SECONDS)
    reader.join()
    assert process.stderr is not None
    board = last.get("leaderboard", [])
    return {
        "bytes_of_file": table.stat().st_size,
        "exit_code": process.returncode,
        "errors": process.stderr.read().splitlines()[-5:],
        "seconds": round(time.monotonic() - began, 1),
        "seconds_to": seconds,
        "peak": asdict(peak),
        "status": last.get("status"),
        "metric": last.get("metric"),
        "scores": {row["model"]: row["score"] for row in board if row["score"] is not None},
        "failures": failures,
        "skipped": skipped,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", default=SIZES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--limit", default="8GiB")
    parser.add_argument("--budget", default="15m")
    parser.add_argument("--workers", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS / "large_tables.json")
    options = parser.parse_args()
    limit = float(options.limit.removesuffix("GiB")) * GIB
    header = [
        "rows",
        "columns",
        "file",
        "peak",
        "resident",
        "stage of the peak",
        "models scored",
        "failed fits",
        "seconds",
    ]
    rows: list[list[str]] = []
    results: dict[str, Any] = {}
    good = True
    with tempfile.TemporaryDirectory(prefix="tabapp-large-") as place:
        for size in options.sizes:
            n_rows, n_columns = (int(part) for part in size.split("x"))
            table = Path(place) / f"{size}.csv"
            write_table(table, n_rows, n_columns)
            folder = Path(place) / f"runs-{size}"
            found = measure(table, folder, options.limit, options.budget, ["--workers", options.workers])
            table.unlink()
            results[size] = found
            peak = found["peak"]
            n_models = len(found["scores"].keys() - {"ensemble"})
            good &= found["exit_code"] == 0 and n_models >= LEAST_MODELS and peak["proportional"] <= limit
            sizes = [
                f"{value / GIB:.1f} GiB" for value in (found["bytes_of_file"], peak["proportional"], peak["resident"])
            ]
            counts = [str(n_models), str(len(found["failures"])), f"{found['seconds']:.0f}"]
            rows.append([f"{n_rows:,}", f"{n_columns:,}", *sizes, peak["stage"], *counts])
            print(size, json.dumps(found), flush=True)
    report(machine("polars", "torch"), header, rows, results, options.out, right=(0, 1, 2, 3, 4, 6, 7, 8))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
