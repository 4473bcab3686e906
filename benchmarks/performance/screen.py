"""Time from a key to the changed screen, and processor time of the screen, while a large run is written.

python -m benchmarks.performance.screen [--models 25] [--trials 400] [--rate 12] [--keys 20] [--seconds 30] [--out FILE.json]

`written_run` takes the place of an engine with two workers: it holds the lock of a run whose models have finished so many trials,
and appends the events of further ones, `--rate` a second (12 are as many as a run on two cores has). `tabapp attach` follows it in
a pseudo-terminal of 120 × 36. A key is timed from its write to the terminal until the terminal has got what only that key shows:
the title of the panel of the model under the cursor, a panel of the other screen, the typed text. Times include the wait for what
the screen is doing when the key arrives; keys are pressed at random moments. The processor time is user and system time of the
process of the screen while no key is pressed, as a share of one core, in windows of five seconds.

`--python` measures another version of the screen: that of the environment of an interpreter. The events are of this version;
readers skip what they do not know.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import RESULTS, machine, report
from benchmarks.terminal import COLUMNS, ROWS, Terminal

WINDOW_SECONDS = 5.0
DOWN, UP, ESCAPE = b"\x1b[B", b"\x1b[A", b"\x1b"
MOST_DOWN = 10
FILTER = b"TREES"
"""Leaves some of the models; no panel has it in capitals."""
VIEWS = {b"3": b"space compares", b"4": b"Best so far", b"8": b"Log \xc2\xb7", b"1": b"Leaderboard"}
"""The key of each screen in the order of the measurement, and what is written on a panel that only it has, whatever the model."""
UNDER_CURSOR = re.compile(rb"(?:Tuning|Members) \xc2\xb7 ([\w ]+)")


@dataclass(frozen=True)
class Measured:
    """The values of one measurement, in a unit."""

    what: str
    unit: str
    values: list[float]

    @property
    def row(self) -> list[str]:
        numbers = (min(self.values), statistics.median(self.values), max(self.values))
        return [self.what, str(len(self.values)), *(f"{number:.0f} {self.unit}" for number in numbers)]

    @property
    def result(self) -> dict[str, Any]:
        return {"what": self.what, "unit": self.unit, "values": [round(value, 1) for value in self.values]}


def measure(terminal: Terminal, n_keys: int, seconds: float) -> Iterator[Measured]:
    """All measurements of a terminal that shows the Run screen."""
    pauses = random.Random(0)

    def pause() -> None:
        terminal.rest(pauses.uniform(0.2, 0.6))

    yield Measured("processor time, Run", "%", cpu_shares(terminal, seconds))
    yield Measured("↓ and ↑ on the leaderboard", "ms", list(_moves(terminal, n_keys, pause)))
    yield Measured("a letter of a filter", "ms", list(_letters(terminal, n_keys, pause)))
    keys = list(VIEWS)
    for key in keys:  # Each screen is made when it is first shown.
        _turn_to(terminal, key)
        terminal.rest(1.0)
    times: list[float] = []
    for number in range(n_keys):
        times.append(_turn_to(terminal, keys[number % len(keys)]))
        pause()
    yield Measured("the key of another screen", "ms", times)
    for key, title in ((b"3", "Models"), (b"4", "Tuning")):
        _turn_to(terminal, key)
        terminal.rest(1.0)
        yield Measured(f"processor time, {title}", "%", cpu_shares(terminal, seconds))


def cpu_shares(terminal: Terminal, seconds: float) -> list[float]:
    """Processor time in percent of one core, in windows of a few seconds; nothing is pressed."""
    process, shares = psutil.Process(terminal.pid), list[float]()
    for _ in range(max(1, round(seconds / WINDOW_SECONDS))):
        before, begun = sum(process.cpu_times()[:2]), time.perf_counter()
        terminal.rest(WINDOW_SECONDS)
        shares.append(100 * (sum(process.cpu_times()[:2]) - before) / (time.perf_counter() - begun))
    return shares


def _turn_to(terminal: Terminal, key: bytes) -> float:
    return terminal.press(key, lambda painted: VIEWS[key] in painted)


def _moves(terminal: Terminal, n_keys: int, pause: Callable[[], None]) -> Iterator[float]:
    """Moves of the cursor: down from the ensemble, and as many up again."""
    shown, length = b"Ensemble", max(1, min(MOST_DOWN, n_keys // 2))
    for number in range(n_keys):
        moved = partial(_under_cursor, but=shown)
        yield terminal.press(DOWN if number // length % 2 == 0 else UP, moved)
        shown = moved(terminal.painted)
        pause()


def _under_cursor(painted: bytes, but: bytes) -> bytes:
    """The last model in the title of the panel of the model under the cursor that is another one; empty without any."""
    titles = [title.strip() for title in UNDER_CURSOR.findall(painted)]
    return next((title for title in reversed(titles) if title != but), b"")


def _letters(terminal: Terminal, n_keys: int, pause: Callable[[], None]) -> Iterator[float]:
    """Letters of a filter, which is cleared and typed again."""
    for _ in range(-(-n_keys // (len(FILTER) - 1))):
        terminal.press(b"/", lambda painted: b"enter keeps it" in painted)
        for length in range(1, len(FILTER) + 1):
            pause()
            typed = FILTER[:length]
            took = terminal.press(FILTER[length - 1 : length], lambda painted, typed=typed: typed in painted)
            # A single letter may be part of anything.
            if length > 1:
                yield took
        terminal.press(ESCAPE, bool)
        terminal.rest(1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=25)
    parser.add_argument("--trials", type=int, default=400, help="finished trials of all models when the screen opens")
    parser.add_argument("--rate", type=float, default=12.0, help="events a second that are written meanwhile")
    parser.add_argument("--keys", type=int, default=20, help="keys of each kind")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each measurement of processor time")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment with the screen")
    parser.add_argument("--out", type=Path, default=RESULTS / "screen.json")
    run_benchmark(parser.parse_args())
    return 0


def run_benchmark(options: argparse.Namespace) -> None:
    """Start the writer and the screen, measure, print, and write the results."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "titanic")
        folder.mkdir()
        # Without options, which an earlier version may not know.
        (folder / "run.json").write_text('{"data": "titanic.csv"}')
        words = [sys.executable, "-m", "benchmarks.performance.written_run", str(folder)]
        words += [f"--{name}={getattr(options, name)}" for name in ("models", "trials", "rate")]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            if writer.stdout.readline() != b"written\n":
                raise SystemExit("The run was not written.")
            attach = [options.python, "-P", "-m", "tabapp", "attach", str(folder), "--runs-dir", place]
            terminal = Terminal(attach, user=Path(place, "user"))
            try:
                terminal.wait(VIEWS[b"1"])
                terminal.rest(3.0)
                found = list(measure(terminal, options.keys, options.seconds))
            finally:
                terminal.close()
                writer.terminate()
    facts = machine("textual") | {
        "terminal": f"{COLUMNS} × {ROWS}",
        **{name: getattr(options, name) for name in ("models", "trials")},
        "events a second": options.rate,
    }
    header = ["what", "values", "min", "median", "max"]
    report(
        facts, header, [each.row for each in found], [each.result for each in found], options.out, right=(1, 2, 3, 4)
    )


if __name__ == "__main__":
    sys.exit(main())
