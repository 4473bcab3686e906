"""Time and memory of reading a table and judging its columns, as a ratio to plain `polars.read_csv` on the same file.

python -m benchmarks.reading [--cells 10000000] [--repeats 3] [--out FILE.json]

The file is made here: half numbers, the rest integers, categories and dates, nothing to repair. Each measurement is a process of
its own; the best of the repeats counts, and memory is the process's peak above what it had before it read. `read_table` gives text
columns, which is what has to keep to the limits; `infer_schema` is the full pass over all columns, which polars does not do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

MOST_TIME, MOST_MEMORY = 2.0, 2.5
COLUMNS = 20

MEASURE = """
import json, sys, time
import polars as pl
from pathlib import Path
from tabapp.data.infer import infer_schema
from tabapp.data.read import read_table
path, what = Path(sys.argv[1]), sys.argv[2]
def peak():
    # Not getrusage, whose peak a process inherits from the one that started it.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
before, started = peak(), time.perf_counter()
if what == "polars":
    frame = pl.read_csv(path)
else:
    frame = read_table(path).frame
    if what == "infer":
        started = time.perf_counter()
        infer_schema(frame, target="y")
print(json.dumps([time.perf_counter() - started, peak() - before, frame.height * frame.width]))
"""


def make_file(path: Path, cells: int) -> None:
    """Write a clean table of 20 columns, block by block."""
    generator = np.random.default_rng(0)
    rows = cells // COLUMNS
    header = (
        [f"f{i}" for i in range(10)] + [f"i{i}" for i in range(4)] + [f"c{i}" for i in range(3)] + ["day", "flag", "y"]
    )
    words = np.array(["red", "green", "blue", "yellow", "black"])
    with path.open("w") as file:
        file.write(",".join(header) + "\n")
        for start in range(0, rows, 50_000):
            n = min(50_000, rows - start)
            parts = [np.char.mod("%.5f", generator.normal(size=(n, 10)) * 100)]
            parts.append(generator.integers(0, 10_000, (n, 4)).astype(str))
            parts.append(words[generator.integers(0, 5, (n, 3))])
            days = np.datetime64("2015-01-01") + generator.integers(0, 3000, (n, 1))
            parts += [
                days.astype(str),
                generator.integers(0, 2, (n, 1)).astype(str),
                generator.integers(0, 2, (n, 1)).astype(str),
            ]
            file.writelines(",".join(row) + "\n" for row in np.hstack([part.astype("U12") for part in parts]).tolist())


def measure(path: Path, what: str, repeats: int) -> tuple[float, float]:
    """Least seconds and least MiB of several processes."""
    found: list[Any] = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path), what], capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout))
    return min(f[0] for f in found), min(f[1] for f in found)


def main() -> int:
    """Print the ratios; 1 where reading takes more than it may."""
    from benchmarks.machine import machine, report

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tabapp-reading-") as folder:
        path = Path(folder) / "table.csv"
        make_file(path, arguments.cells)
        size = path.stat().st_size / 2**20
        found = {what: measure(path, what, arguments.repeats) for what in ("polars", "read", "infer")}
    base = found["polars"]
    ratios = {what: (found[what][0] / base[0], found[what][1] / base[1]) for what in found}
    names = {"polars": "polars.read_csv", "read": "read_table", "infer": "infer_schema after it"}
    rows = [
        [names[what], f"{seconds:.2f} s", f"{ratios[what][0]:.2f}×", f"{memory:,.0f} MiB", f"{ratios[what][1]:.2f}×"]
        for what, (seconds, memory) in found.items()
    ]
    facts = {**machine("polars"), "cells": f"{arguments.cells:,}", "file": f"{size:.0f} MiB"}
    report(
        facts, ["what", "time", "to polars", "peak memory", "to polars"], rows, found, arguments.out, right=(1, 2, 3, 4)
    )
    kept = ratios["read"][0] <= MOST_TIME and ratios["read"][1] <= MOST_MEMORY
    print(f"\nreading keeps to {MOST_TIME}× the time and {MOST_MEMORY}× the memory: {'yes' if kept else 'NO'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
