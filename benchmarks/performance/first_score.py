"""Time to the first score: from starting `tabapp --auto TABLE --json --budget 120s` to the first numbers on the leaderboard.

python -m benchmarks.performance.first_score [TABLE.csv[:TARGET] ...] [--repeats N] [--bound SECONDS] [--out FILE.json]

Without a table it uses a generated one of 5,000 rows with 8 numeric and 4 categorical columns. For each run it reports the seconds
from the start of the command to each event: file read, plan made, first fit started, first row with a number (the provisional score
of a fit that trains), and first row with the score of a complete fold. `cpu` is the processor time of the engine and its fits until
then, which other work on the machine hardly changes. Exits with 1 if a median of the first row is above the bound.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import machine, report

BOUND_SECONDS = 4.0
EVENTS = ("data.read", "plan.made", "fit.started")
FIRST_ROW, FIRST_SCORE = "first row", "first score"
NAMES = (*EVENTS, FIRST_ROW, FIRST_SCORE, "cpu")


def write_table(path: Path, rows: int = 5_000, seed: int = 0) -> Path:
    """A binary target that depends on two of eight numeric and one of four categorical columns."""
    generator = random.Random(seed)
    names = [*(f"x{i}" for i in range(8)), *(f"c{i}" for i in range(4)), "bought"]
    lines = [",".join(names)]
    for _ in range(rows):
        numbers = [generator.gauss(0, 1) for _ in range(8)]
        letters = [generator.choice("abcdefgh") for _ in range(4)]
        positive = numbers[0] - numbers[1] + (letters[0] in "abc") + generator.gauss(0, 1) > 0.4
        lines.append(",".join([*(f"{x:.4f}" for x in numbers), *letters, "yes" if positive else "no"]))
    path.write_text("\n".join(lines) + "\n")
    return path


def _cpu_seconds(process: psutil.Process) -> Iterator[float]:
    """Processor time of each process of a run so far."""
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):
            times = one.cpu_times()
            yield times.user + times.system + times.children_user + times.children_system


def measure(table: Path, target: str, folder: Path) -> dict[str, float]:
    """Seconds from the start of the command to each event, and the processor time until the first scored row."""
    command = [sys.executable, "-m", "tabapp", "--auto", str(table), "--json", "--budget", "120s"]
    command += ["--runs-dir", str(folder), *(["--target", target] if target else [])]
    started = time.time()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    seconds: dict[str, float] = {}
    for line in process.stdout:
        event = json.loads(line)
        name = event["ev"]
        if name in EVENTS:
            seconds.setdefault(name, event["t"] - started)
        scored = name == "leaderboard.changed" and any(row["score"] is not None for row in event["rows"])
        if scored or name == "fit.progress":
            seconds.setdefault(FIRST_ROW, event["t"] - started)
        if scored and FIRST_SCORE not in seconds:
            seconds[FIRST_SCORE] = event["t"] - started
            seconds["cpu"] = sum(_cpu_seconds(psutil.Process(process.pid)))
            process.terminate()
    if process.wait() not in (0, 130) or FIRST_SCORE not in seconds:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode} and no scored row")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--bound", type=float, default=BOUND_SECONDS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/first_score.json"))
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for named in options.tables or [str(write_table(Path(folder) / "generated_5000.csv"))]:
            path, _, target = named.partition(":")
            table = Path(path)
            measure(table, target, Path(folder) / "runs")  # the first run reads libraries from a cold disk
            runs = [measure(table, target, Path(folder) / "runs") for _ in range(options.repeats)]
            medians = {name: round(statistics.median(run[name] for run in runs), 2) for name in NAMES}
            results.append(
                {
                    "table": table.name,
                    "median_seconds": medians,
                    "runs": [{name: round(run[name], 3) for name in NAMES} for run in runs],
                    "bound_seconds": options.bound,
                    "ok": medians[FIRST_ROW] <= options.bound,
                }
            )
    report(
        machine("polars", "scikit-learn", "lightgbm", "torch"),
        ["table", *NAMES, "bound", ""],
        [
            [
                result["table"],
                *(f"{result['median_seconds'][name]:.2f} s" for name in NAMES),
                f"{result['bound_seconds']:.0f} s",
                "ok" if result["ok"] else "OVER",
            ]
            for result in results
        ],
        results,
        options.out,
        right=(1, 2, 3, 4, 5, 6, 7),
    )
    return 0 if all(result["ok"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
