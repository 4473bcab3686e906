"""Time and memory of reading a table and judging its columns, as a ratio to plain `polars.read_csv` on the same file; and the
time until the first output of `tabapp profile` for a file of 50 MB.

python -m benchmarks.performance.reading [--cells 10000000] [--repeats 5] [--out FILE.json]

The generated file has half float columns, and integers, categories and dates without errors. Each measurement is a separate
process, and they alternate, so that other work on the machine affects all of them. Processor time and memory are minima over
repeats; ratios of wall time are computed per repeat and reported as median and range. Memory is the peak of the process above its
value before reading. `read_table` returns text columns; `infer_schema` infers the kind of every column from all of its cells,
while polars infers only its type.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

MOST_TIME, MOST_MEMORY = 2.0, 2.5
COLUMNS = 20

MEASURE = """
import json, sys, time
import polars as pl
from pathlib import Path
from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import read_table
path, what = Path(sys.argv[1]), sys.argv[2]
def peak():
    # Not getrusage, whose peak a process inherits from the one that started it.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
before, started, worked = peak(), time.perf_counter(), time.process_time()
if what == "polars":
    frame = pl.read_csv(path)
else:
    frame = read_table(path).frame
    if what == "read and infer":
        infer_schema(frame, target="y")
print(json.dumps([time.perf_counter() - started, time.process_time() - worked, peak() - before]))
"""
PROFILED_MIB = 50


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


def measure(path: Path, what: str) -> list[float]:
    """Wall seconds, processor seconds and MiB of one process."""
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path), what], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def first_look(path: Path) -> list[float]:
    """Seconds from the start of `tabapp profile` to its first output, and to its end."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "tabapp", "profile", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = ""
        while not line.startswith("Looking at all rows"):
            line = process.stderr.readline()
            if not line:
                raise RuntimeError("no first look was given")
        looked = time.perf_counter() - started
        process.stdout.read()
    return [looked, time.perf_counter() - started]


def spread(numbers: Sequence[float]) -> str:
    """Median and range."""
    return f"{median(numbers):.2f} ({min(numbers):.2f}–{max(numbers):.2f})"


def main() -> int:
    """Print the ratios; returns 1 if reading exceeds a bound."""
    from benchmarks.machine import RESULTS, machine, report

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "reading.json")
    arguments = parser.parse_args()
    names = ("polars", "read", "read and infer")
    with tempfile.TemporaryDirectory(prefix="tabapp-reading-") as folder:
        path, smaller = Path(folder) / "table.csv", Path(folder) / "profiled.csv"
        make_file(path, arguments.cells)
        size = path.stat().st_size / 2**20
        with path.open("rb") as file:
            smaller.write_bytes(file.read(PROFILED_MIB << 20).rpartition(b"\n")[0] + b"\n")
        found: dict[str, list[list[float]]] = {name: [] for name in names}
        for _ in range(arguments.repeats):
            for name in names:
                found[name].append(measure(path, name))
        looks = [first_look(smaller) for _ in range(arguments.repeats)]
    turns = {name: [one[0] / base[0] for one, base in zip(found[name], found["polars"], strict=True)] for name in names}
    least = {name: [min(one[i] for one in found[name]) for i in (0, 1, 2)] for name in names}
    ratios = {name: [mine / base for mine, base in zip(least[name], least["polars"], strict=True)] for name in names}
    rows = [
        [
            {"polars": "polars.read_csv", "read": "read_table"}.get(name, "read_table and infer_schema"),
            f"{least[name][0]:.2f} s",
            spread(turns[name]),
            f"{least[name][1]:.2f} s",
            f"{ratios[name][1]:.2f}",
            f"{least[name][2]:,.0f} MiB",
            f"{ratios[name][2]:.2f}",
        ]
        for name in names
    ]
    facts = {**machine("polars"), "cells": f"{arguments.cells:,}", "file": f"{size:.0f} MiB"}
    header = ["what", "clock", "to polars", "processors", "to polars", "peak memory", "to polars"]
    result = {"measured": found, "ratios": ratios, "first look": looks}
    report(facts, header, rows, result, arguments.out, right=(1, 2, 3, 4, 5, 6))
    early, late = ([look[i] for look in looks] for i in (0, 1))
    print(
        f"\ntabapp profile of {PROFILED_MIB} MiB: first look after {spread(early)} s, all of it after {spread(late)} s"
    )
    kept = ratios["read"][0] <= MOST_TIME and ratios["read"][2] <= MOST_MEMORY
    print(f"reading keeps to {MOST_TIME} times the time and {MOST_MEMORY} times the memory: {'yes' if kept else 'NO'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
