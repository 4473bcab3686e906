"""What the safeguards against malicious files cost, as ratios to the commits before them: reading a table within a memory
limit, and predicting with a bundle whose models load in a confined process.

python -m benchmarks.safeguards --table FILE [--target COLUMN] [--reading COMMIT] [--prediction COMMIT] [--repeats 9]

Each commit and the working tree are copied to folders of their own. Measurements are separate processes that alternate between the
two versions, after one of each that is not counted. Reading is `read_table`, and `read_table` with `infer_schema`, on the
generated table of `benchmarks.reading`. Prediction is the command `tabapp predict` for rows of FILE, start included, with one
bundle that the older version trains on FILE with its default models. Processor time includes that of child processes. Each
ratio is the median over repeats of the ratio of neighbors, with its range. Exits with 1 if a median is above 1.1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import polars as pl

from benchmarks.machine import RESULTS, machine, report
from benchmarks.reading import MEASURE, make_file, spread

MOST_RATIO = 1.1
PACKAGES = {"tabapp": "tabapp", "tabapp_plugins": "plugins", "tabapp_assets": "assets"}
"""Installed packages, and their folders in the repository."""
Measured = tuple[float, float]
"""Wall seconds and processor seconds."""


def check_out(commit: str | None, place: Path) -> Path:
    """Copy the packages of a commit, or of the working tree, to a folder from which they can be imported."""
    source = Path()
    if commit is not None:
        source = place / "source"
        source.mkdir(parents=True)
        content = subprocess.run(["git", "archive", commit, *PACKAGES.values()], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(source)], input=content, check=True)
    packages = place / "packages"
    for name, folder in PACKAGES.items():
        shutil.copytree(source / folder, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    return packages


def run(packages: Path, words: list[str]) -> tuple[Measured, str]:
    """Run Python with one version; returns its times and what it printed.

    Raises:
        SystemExit: it failed.
    """
    started = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    # Older versions import from the working directory.
    with subprocess.Popen(
        [sys.executable, "-P", *words], cwd=packages, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{packages}: {words[:4]} ended with {process.returncode}")
    return (time.perf_counter() - started, usage.ru_utime + usage.ru_stime), printed


def measure_reading(table: Path, what: str) -> Callable[[Path], Measured]:
    """A function that reads a table with one version. Its times are those of reading only, without imports."""

    def measure(packages: Path) -> Measured:
        _, printed = run(packages, ["-c", MEASURE, str(table), what])
        wall, processor, _ = json.loads(printed)
        return wall, processor

    return measure


def measure_prediction(bundle: Path, rows: Path) -> Callable[[Path], Measured]:
    """A function that predicts rows with one version, start included."""
    words = ["-m", "tabapp", "predict", str(bundle), str(rows), "-q", "-o", str(bundle.with_suffix(".csv"))]
    return lambda packages: run(packages, words)[0]


def alternate(measure: Callable[[Path], Measured], before: Path, now: Path, repeats: int) -> dict[str, list[Measured]]:
    """Measure both versions in turn; which of them is first alternates, too."""
    found: dict[str, list[Measured]] = {"before": [], "now": []}
    for turn in range(-1, repeats):
        for name in ("before", "now") if turn % 2 else ("now", "before"):
            times = measure(before if name == "before" else now)
            if turn >= 0:
                found[name].append(times)
    return found


def train(packages: Path, arguments: argparse.Namespace, folder: Path) -> Path:
    """Train a bundle on the table with one version."""
    bundle = folder / "model.tabapp"
    words = ["-m", "tabapp", "--auto", str(arguments.table), "--budget", arguments.budget, "--quiet", "--seed", "0"]
    words += ["--target", arguments.target] if arguments.target else []
    run(packages, [*words, "--runs-dir", str(folder / "runs"), "--out", str(bundle)])
    return bundle


def some_rows(table: Path, count: int, place: Path) -> Path:
    """Write the first rows of a table that tabapp reads."""
    from tabapp.data.reading.read import read_table

    frame = read_table(table).frame
    pl.concat([frame] * -(-count // frame.height)).head(count).write_csv(place)
    return place


def main() -> int:
    """Print the ratios; returns 1 if one is above its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--target")
    parser.add_argument("--reading", default="d3d2165", metavar="COMMIT", help="before reading had a memory limit")
    parser.add_argument("--prediction", default="399109b", metavar="COMMIT", help="before models loaded in a process")
    parser.add_argument("--cells", type=int, default=10_000_000)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS / "safeguards.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tabapp-safeguards-") as name:
        folder = Path(name)
        now = check_out(None, folder / "now")
        reading = check_out(arguments.reading, folder / "reading")
        prediction = check_out(arguments.prediction, folder / "prediction")
        table = folder / "table.csv"
        make_file(table, arguments.cells)
        bundle = train(prediction, arguments, folder)
        rows = some_rows(arguments.table, arguments.rows, folder / "rows.csv")
        cases = {
            "read_table": (measure_reading(table, "read"), reading),
            "read_table and infer_schema": (measure_reading(table, "read and infer"), reading),
            f"tabapp predict, {arguments.rows:,} rows": (measure_prediction(bundle, rows), prediction),
        }
        found = {case: alternate(measure, before, now, arguments.repeats) for case, (measure, before) in cases.items()}
    cells: list[list[str]] = []
    highest = 0.0
    for case, times in found.items():
        walls, processors = (
            [after[i] / before[i] for before, after in zip(times["before"], times["now"], strict=True)] for i in (0, 1)
        )
        highest = max(highest, median(processors))
        seconds = [f"{median(one[1] for one in times[version]):.2f} s" for version in ("before", "now")]
        cells.append([case, *seconds, spread(processors), spread(walls)])
    facts = {
        **machine("polars"),
        "reading before": arguments.reading,
        "prediction before": arguments.prediction,
        "cells": f"{arguments.cells:,}",
        "table": arguments.table.name,
        "budget": arguments.budget,
    }
    header = ["what", "processors before", "now", "ratio", "ratio of wall time"]
    report(facts, header, cells, found, arguments.out, right=(1, 2, 3, 4))
    print(f"\nno more than {MOST_RATIO} times the processor time: {'yes' if highest <= MOST_RATIO else 'NO'}")
    return 0 if highest <= MOST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
