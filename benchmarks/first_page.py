"""Time until the rows of a large table are on the screen, time per scrolled page, and memory.

python -m benchmarks.first_page [--rows N] [--repeats N] [--out FILE.json]

Writes a CSV of 10 columns and opens it with `tabapp FILE` in a pseudo-terminal of 120 × 36. Measured are the first paint, the first
page of rows on the Data screen after it, the whole table on its screen (key p, once the engine has read the file), its last row
after key G for the first time (the reader process then reads the file) and again (G after g), and the memory of the reader process.
Exits with 1 if the median of the first page exceeds its bound.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import RESULTS, machine, report

PAGE_MS = 500.0
COLUMNS, ROWS = 120, 36
TIMEOUT_SECONDS = 60.0
WORDS = ("amber", "birch", "cedar", "dusk", "elm", "fern", "grove")
_ESCAPES = re.compile(rb"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[()][A-Z0-9]")


def write_table(path: Path, n_rows: int) -> None:
    """A table of numbers, names, dates and texts; the first and the last row contain a mark that is recognized on the screen."""
    with path.open("w") as file:
        file.write("mark,age,city,income,day,ratio,member,note,group,bought\n")
        for i in range(n_rows):
            mixed = i * 2654435761 % 4294967296
            mark = {0: "first_row", n_rows - 1: "final_row"}.get(i, f"row_{i % 9973}")
            file.write(
                f"{mark},{18 + mixed % 70},{WORDS[mixed % 7]},{mixed % 200000}.{mixed % 97:02},2024-{1 + mixed % 12:02}-"
                f"{1 + mixed % 28:02},{mixed % 1000 / 1000},{'yes' if mixed % 3 else 'no'},note {mixed % 5000},g{mixed % 17},"
                f"{(mixed >> 7) % 2}\n"
            )


class Terminal:
    """The program in a pseudo-terminal, and its output since the last key press."""

    def __init__(self, file: Path, runs_dir: Path) -> None:
        self._drawn = b""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            command = [sys.executable, "-m", "tabapp", str(file), "--runs-dir", str(runs_dir)]
            os.execv(command[0], command)

    def wait_for(self, text: str) -> float:
        """Read until a text has been drawn after the last key press; returns the time."""
        end = time.perf_counter() + TIMEOUT_SECONDS
        while text.encode() not in _ESCAPES.sub(b"", self._drawn):
            if time.perf_counter() > end:
                raise SystemExit(f"{text!r} was not drawn; the terminal got {self._drawn[-2000:]!r}")
            if select.select([self._terminal], [], [], 0.02)[0]:
                self._drawn += os.read(self._terminal, 1 << 16)
        return time.perf_counter()

    def press(self, key: str) -> float:
        """Press a key and discard earlier output; returns the time."""
        self._drawn = b""
        os.write(self._terminal, key.encode())
        return time.perf_counter()

    def rest(self, seconds: float) -> None:
        """Read output for a while."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            if select.select([self._terminal], [], [], 0.02)[0]:
                self._drawn += os.read(self._terminal, 1 << 16)

    def reader(self) -> psutil.Process | None:
        """The reader process."""
        children = psutil.Process(self.pid).children()
        return next((child for child in children if "tabapp.processes.pager" in child.cmdline()), None)

    def close(self) -> None:
        """Quit, and kill remaining processes."""
        try:
            self.press("q")
            self.rest(1.5)
        except OSError:
            pass
        if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)


def measure(file: Path, runs_dir: Path, n_rows: int) -> dict[str, float]:
    """Milliseconds of one opening, and the reader's memory in MB."""
    started = time.perf_counter()
    terminal = Terminal(file, runs_dir)
    try:
        painted = terminal.wait_for(file.name)
        page = terminal.wait_for("first_row")
        ready = terminal.wait_for("ctrl+r starts")
        terminal.rest(1.0)
        pressed = terminal.press("p")
        whole = terminal.wait_for(f"row 1 of {n_rows:,}")
        terminal.rest(0.5)
        end_pressed = terminal.press("G")
        end = terminal.wait_for("final_row")
        terminal.press("g")
        terminal.wait_for("first_row")
        terminal.rest(0.5)
        again_pressed = terminal.press("G")
        again = terminal.wait_for("final_row")
        reader = terminal.reader()
        memory = reader.memory_info().rss / 1e6 if reader is not None else 0.0
    finally:
        terminal.close()
    return {
        "first paint": (painted - started) * 1000,
        "first page of rows, after the first paint": (page - painted) * 1000,
        "columns and plan, after the first paint": (ready - painted) * 1000,
        "whole table opened (p)": (whole - pressed) * 1000,
        "last row, the reader yet to read (G)": (end - end_pressed) * 1000,
        "last row, again (G)": (again - again_pressed) * 1000,
        "memory of the reader, MB": memory,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS / "first_page.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "many_rows.csv"
        write_table(table, options.rows)
        size = table.stat().st_size
        runs = [measure(table, Path(folder) / "runs", options.rows) for _ in range(options.repeats + 1)]
    # The first run includes reads from a cold disk, so it does not count.
    kept = runs[1:]
    results: list[dict[str, Any]] = []
    for name in kept[0]:
        values = [run[name] for run in kept]
        bound = PAGE_MS if name.startswith("first page") else None
        results.append(
            {
                "what": name,
                "min": round(min(values), 1),
                "median": round(statistics.median(values), 1),
                "max": round(max(values), 1),
                "bound": bound,
                "ok": bound is None or statistics.median(values) <= bound,
            }
        )
    report(
        {**machine("textual", "polars"), "rows": options.rows, "bytes": size, "repeats": options.repeats},
        ["what, in ms unless said", "min", "median", "max", "bound", ""],
        [
            [
                result["what"],
                *(f"{result[name]:.0f}" for name in ("min", "median", "max")),
                f"{result['bound']:.0f}" if result["bound"] else "",
                ("ok" if result["ok"] else "OVER") if result["bound"] else "",
            ]
            for result in results
        ],
        results,
        options.out,
        right=(1, 2, 3, 4),
    )
    return 0 if all(result["ok"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
