"""Start-up time: CPU time of `--version` and `--help`, and wall time until the first screen.

python -m benchmarks.performance.startup [--repeats N] [--python INTERPRETER] [--out FILE.json]

CPU time is user and system time of the whole process, interpreter included. The first paint is the time from starting
`tabapp FILE` in a pseudo-terminal of 120 × 36 until the file's name has been drawn. Exits with 1 if a median exceeds its bound.
`--python` measures another version: that of the environment of an interpreter.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS, machine, report
from benchmarks.terminal import COLUMNS, ROWS, TIMEOUT_SECONDS, Terminal

VERSION_MS, HELP_MS, PAINT_MS = 80.0, 150.0, 400.0
ENGINE_ENDS_SECONDS = 4.0
QUIT_KEY = b"q"


def cpu_ms(arguments: Sequence[str]) -> float:
    """Milliseconds of processor time that a command takes."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{shlex.join(arguments)} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def paint_ms(tabapp: Sequence[str], file: Path) -> float:
    """Milliseconds from starting the screen until the file's name is painted; then quits the program."""
    started = time.perf_counter()
    terminal = Terminal([*tabapp, str(file), "--runs-dir", str(file.parent / "runs")], user=file.parent / "user")
    try:
        terminal.wait(file.name.encode())
        elapsed = (time.perf_counter() - started) * 1000
        _quit(terminal)
    finally:
        terminal.close()
    # The engine of a run that was never started takes a while to end and would slow the next measurement.
    time.sleep(ENGINE_ENDS_SECONDS)
    return elapsed


def _quit(terminal: Terminal) -> None:
    """Press quit until the program ends, which may take no keys yet."""
    end = time.perf_counter() + TIMEOUT_SECONDS
    with suppress(EOFError):
        while time.perf_counter() < end:
            terminal.press(QUIT_KEY, bool)
            terminal.rest(1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--out", type=Path, default=RESULTS / "startup.json")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment to measure")
    options = parser.parse_args()
    tabapp = (options.python, "-P", "-m", "tabapp")
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "first_paint_of_this_table.csv"
        table.write_text("age,city,bought\n" + "".join(f"{20 + i % 50},c{i % 3},{i % 2}\n" for i in range(200)))
        measures = (
            ("tabapp --version", "CPU", VERSION_MS, lambda: cpu_ms([*tabapp, "--version"])),
            ("tabapp --help", "CPU", HELP_MS, lambda: cpu_ms([*tabapp, "--help"])),
            (f"first paint, {COLUMNS} × {ROWS}", "wall", PAINT_MS, lambda: paint_ms(tabapp, table)),
        )
        for name, clock, bound, measure in measures:
            measure()  # warm the disk cache
            values = [measure() for _ in range(options.repeats)]
            results.append(
                {
                    "what": name,
                    "clock": clock,
                    "bound_ms": bound,
                    "min_ms": round(min(values), 1),
                    "median_ms": round(statistics.median(values), 1),
                    "max_ms": round(max(values), 1),
                    "ok": statistics.median(values) <= bound,
                }
            )
    report(
        machine("textual", "click"),
        ["what", "clock", "min", "median", "max", "bound", ""],
        [
            [
                result["what"],
                result["clock"],
                *(f"{result[f'{name}_ms']:.0f} ms" for name in ("min", "median", "max", "bound")),
                "ok" if result["ok"] else "OVER",
            ]
            for result in results
        ],
        results,
        options.out,
        right=(2, 3, 4, 5),
    )
    return 0 if all(result["ok"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
