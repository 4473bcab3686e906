"""Time from a key to the changed screen, and processor time of the screen, while a large run is written.

python -m benchmarks.performance.screen [--models 25] [--trials 400] [--rate 12] [--keys 20] [--seconds 30] [--out FILE.json]

A process takes the place of an engine with two workers: it holds the lock of a run whose models have finished so many trials, and
appends the events of further ones, `--rate` a second (12 are as many as a run on two cores has). `tabapp attach` follows it in a
pseudo-terminal of 120 × 36. A key is timed from its write to the terminal until the terminal has got what only that key shows: the
title of the panel of the model under the cursor, a panel of the other screen, the typed text. Times include the wait for what the
screen is doing when the key arrives; keys are pressed at random moments. The processor time is user and system time of the process
of the screen while no key is pressed, as a share of one core, in windows of five seconds.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import random
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psutil

from benchmarks.machine import RESULTS, machine, report
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import RunFolder, create_run
from tests.tui.recordings import opening

COLUMNS, ROWS = 120, 36
FOLDS, WORKERS = 8, 2
WINDOW_SECONDS = 5.0
KEY_TIMEOUT_SECONDS = 10.0
STEPS = 10
"""Reports of progress of a fit that is written live."""
MOST_DOWN = 10
FILTER = b"TREES"
"""Leaves some of the models; no panel has it in capitals."""
VIEWS = {b"3": b"space compares", b"4": b"Best so far", b"8": b"Log \xc2\xb7", b"1": b"Leaderboard"}
"""The key of each screen in the order of the measurement, and what is written on a panel that only it has, whatever the model."""
UNDER_CURSOR = re.compile(rb"(?:Tuning|Members) \xc2\xb7 ([\w ]+)")


# -- the run ------------------------------------------------------------------------------------------------------


class SyntheticRun:
    """The events of a run in the order of an engine: models take turns, and each trial has all of its folds.

    Attributes:
        n_trials: of all models together, that have ended.
    """

    def __init__(self, n_models: int) -> None:
        kinds = (("Trees", "gbdt"), ("Network", "deep"), ("Linear model", "classic"))
        self._random = random.Random(0)
        self._titles = {f"model_{n:02}": f"{kinds[n % 3][0]} {n:02}" for n in range(n_models)}
        self._families = {name: kinds[n % 3][1] for n, name in enumerate(self._titles)}
        self._rows = {
            name: ev.LeaderboardRow(rank=0, model=name, title=title, family=self._families[name])
            for name, title in self._titles.items()
        }
        self.n_trials = 0

    def start(self) -> list[ev.Event]:
        """The events until fitting begins."""
        models = tuple(
            ev.ModelView(name=name, title=title, family=self._families[name]) for name, title in self._titles.items()
        )
        changes: dict[str, Any] = {"models": models, "folds": FOLDS, "workers": WORKERS, "budget": None, "choices": ()}
        changes["validation"] = f"{FOLDS}-fold stratified"
        begun = [
            msgspec.structs.replace(event, **changes) if isinstance(event, ev.PlanMade) else event
            for event in opening()
        ]
        return [*begun, ev.StageChanged(stage="fitting"), self._leaderboard()]

    def trial(self, *, live: bool) -> Iterator[ev.Event]:
        """The events of the next trial. Without `live`, reports of progress and of every change between folds are left out."""
        name = list(self._titles)[self.n_trials % len(self._titles)]
        number = self._rows[name].trials
        level = 0.80 + 0.08 * (hash_of(name) % 100) / 100
        scores = [level + self._random.gauss(0.002 * number, 0.01) for _ in range(FOLDS)]
        fits: list[dict[str, Any]] = [
            {"fit": f"{name}-{number}-{fold}", "model": name, "trial": number, "fold": fold} for fold in range(FOLDS)
        ]
        for first in range(0, FOLDS, WORKERS):
            at_once = fits[first : first + WORKERS]
            for fit in at_once:
                yield ev.FitStarted(**fit, folds=FOLDS, pid=1, seconds=4.0, reason="its model has had the least time")
            if live:
                self._rows[name] = msgspec.structs.replace(self._rows[name], activity=f"trial {number}")
                yield self._planned(name, number, first + WORKERS)
                yield self._leaderboard()
                for step in range(1, STEPS + 1):
                    for fit in at_once:
                        value = level - 0.2 / step + self._random.gauss(0, 0.002)
                        yield ev.FitProgress(**fit, step=10 * step, value=value)
                yield ev.Resources(cpu_percent=180.0, memory=2 << 30, memory_total=24 << 30)
            for fit in at_once:
                yield ev.FitFinished(**fit, score=scores[fit["fold"]], seconds=4.0)
        yield from self._end_of_trial(name, number, statistics.fmean(scores))

    def _end_of_trial(self, name: str, number: int, score: float) -> Iterator[ev.Event]:
        params = {"learning_rate": 10 ** self._random.uniform(-3, -1), "max_depth": self._random.randint(3, 10)}
        yield ev.TrialFinished(model=name, trial=number, score=score, seconds=30.0, params=params)
        row = msgspec.structs.replace(self._rows[name], trials=number + 1, status="ok", activity="")
        if row.score is None or score > row.score:
            changes: dict[str, Any] = {
                "score": score,
                "low": score - 0.02,
                "high": score + 0.02,
                "trial": number,
                "params": params,
            }
            row = msgspec.structs.replace(row, **changes, folds=FOLDS, fit_seconds=30.0, predict_ms_per_1k=3.0)
        self._rows[name] = row
        self.n_trials += 1
        yield self._ensemble()
        yield self._leaderboard()

    def _best(self) -> list[ev.LeaderboardRow]:
        return sorted((row for row in self._rows.values() if row.score is not None), key=lambda row: -(row.score or 0))

    def _ensemble(self) -> ev.EnsembleChanged:
        members = self._best()[:8]
        score = (members[0].score or 0.0) + 0.003
        chosen = tuple(
            ev.EnsembleMember(model=row.model, trial=row.trial or 0, weight=1 / len(members)) for row in members
        )
        return ev.EnsembleChanged(members=chosen, score=score, low=score - 0.02, high=score + 0.02, folds=FOLDS)

    def _leaderboard(self) -> ev.LeaderboardChanged:
        best = self._best()
        members = {row.model for row in best[:8]}
        ranked = [
            msgspec.structs.replace(row, rank=rank, in_ensemble=(row.model in members) / 8)
            for rank, row in enumerate(best, start=2)
        ]
        if best:
            score = (best[0].score or 0.0) + 0.003
            ranked.insert(
                0,
                ev.LeaderboardRow(
                    rank=1, model=ev.ENSEMBLE, title="Ensemble", family="ensemble", score=score, low=score - 0.02,
                    high=score + 0.02, folds=FOLDS, status="ok",
                ),
            )  # fmt: skip
        return ev.LeaderboardChanged(rows=(*ranked, *(row for row in self._rows.values() if row.score is None)))

    def _planned(self, name: str, trial: int, fold: int) -> ev.FitsPlanned:
        fits = [
            ev.PlannedFit(model=name, trial=trial, fold=each, folds=FOLDS, seconds=4.0, reason="its folds are open")
            for each in range(fold, min(fold + 3, FOLDS))
        ]
        return ev.FitsPlanned(next=tuple(fits))


def hash_of(name: str) -> int:
    """A number that depends on a name alone."""
    return sum(place * byte for place, byte in enumerate(name.encode(), start=1)) * 37


class Writer:
    """Appends events to a run folder with their numbers and times."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._seq = folder, 0

    def write(self, events: Sequence[ev.Event], t: float) -> None:
        """Append events at once, with the same time."""
        lines: list[bytes] = []
        for event in events:
            self._seq += 1
            lines.append(encode(msgspec.structs.replace(event, seq=self._seq, t=t)))
        with self._folder.events.open("ab") as file:
            file.write(b"".join(lines))


def write_run(folder: RunFolder, n_models: int, n_trials: int, rate: float) -> None:
    """Hold the lock of a run, write its finished trials, print a line, and append further ones until the parent has ended."""
    run, writer, parent = SyntheticRun(n_models), Writer(folder), os.getppid()
    with folder.lock():
        begin = time.time() - 4.0 * n_trials
        writer.write(run.start(), begin)
        for number in range(n_trials):
            writer.write(list(run.trial(live=False)), begin + 4.0 * (number + 1))
        print("written", flush=True)
        due = time.monotonic()
        while os.getppid() == parent:
            for event in run.trial(live=True):
                writer.write([event], time.time())
                due += 1 / rate
                time.sleep(max(0.0, due - time.monotonic()))


# -- the screen ---------------------------------------------------------------------------------------------------


class Screen:
    """`tabapp attach` in a pseudo-terminal.

    Attributes:
        painted: what the terminal has got since the last key.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.painted = b""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            words = [sys.executable, "-m", "tabapp", "attach", str(folder.path), "--runs-dir", str(folder.path.parent)]
            os.execv(words[0], words)

    def read(self, seconds: float) -> bytes:
        """What is painted within a time, or until something is."""
        if not select.select([self._terminal], [], [], seconds)[0]:
            return b""
        return os.read(self._terminal, 1 << 16)

    def rest(self, seconds: float) -> bytes:
        """Read for a time; returns what was painted."""
        end, painted = time.perf_counter() + seconds, b""
        while (left := end - time.perf_counter()) > 0:
            painted += self.read(left)
        return painted

    def press(self, key: bytes, shows: Callable[[bytes], object]) -> float:
        """Press a key; returns the milliseconds until what was painted since shows what the key does."""
        self.painted = b""
        pressed = time.perf_counter()
        os.write(self._terminal, key)
        while not shows(self.painted):
            if time.perf_counter() - pressed > KEY_TIMEOUT_SECONDS:
                raise SystemExit(f"{key!r} changed nothing; the terminal got {self.painted[-2000:]!r}")
            self.painted += self.read(0.05)
        return (time.perf_counter() - pressed) * 1000

    def wait(self, text: bytes) -> None:
        """Wait until a text is painted."""
        self.press(b"", lambda painted: text in painted)

    def cpu_shares(self, seconds: float) -> list[float]:
        """Processor time in percent of one core, in windows of a few seconds; nothing is pressed."""
        process, shares = psutil.Process(self.pid), list[float]()
        for _ in range(max(1, round(seconds / WINDOW_SECONDS))):
            before, begun = sum(process.cpu_times()[:2]), time.perf_counter()
            self.rest(WINDOW_SECONDS)
            shares.append(100 * (sum(process.cpu_times()[:2]) - before) / (time.perf_counter() - begun))
        return shares

    def close(self) -> None:
        """End the process."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


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


def measure(screen: Screen, n_keys: int, seconds: float) -> list[Measured]:
    """All measurements of a screen that shows the Run screen."""
    pauses = random.Random(0)

    def pause() -> None:
        screen.rest(pauses.uniform(0.2, 0.6))

    found = [Measured("processor time, Run", "%", screen.cpu_shares(seconds))]
    found.append(Measured("↓ and ↑ on the leaderboard", "ms", list(_moves(screen, n_keys, pause))))
    found.append(Measured("a letter of a filter", "ms", list(_letters(screen, n_keys, pause))))
    keys = list(VIEWS)
    for key in keys:  # Each screen is made when it is first shown.
        screen.press(key, lambda painted, key=key: VIEWS[key] in painted)
        screen.rest(1.0)
    times: list[float] = []
    for number in range(n_keys):
        key = keys[number % len(keys)]
        times.append(screen.press(key, lambda painted, key=key: VIEWS[key] in painted))
        pause()
    found.append(Measured("the key of another screen", "ms", times))
    for key, title in ((b"3", "Models"), (b"4", "Tuning")):
        screen.press(key, lambda painted, key=key: VIEWS[key] in painted)
        screen.rest(1.0)
        found.append(Measured(f"processor time, {title}", "%", screen.cpu_shares(seconds)))
    return found


def _moves(screen: Screen, n_keys: int, pause: Callable[[], None]) -> Iterator[float]:
    """Moves of the cursor: down from the ensemble, and as many up again."""
    shown, length = b"Ensemble", max(1, min(MOST_DOWN, n_keys // 2))
    for number in range(n_keys):
        key = b"j" if number // length % 2 == 0 else b"k"
        moved = partial(_under_cursor, but=shown)
        yield screen.press(key, moved)
        shown = moved(screen.painted)
        pause()


def _under_cursor(painted: bytes, but: bytes) -> bytes:
    """The last model in the title of the panel of the model under the cursor that is another one; empty without any."""
    titles = [title.strip() for title in UNDER_CURSOR.findall(painted)]
    return next((title for title in reversed(titles) if title != but), b"")


def _letters(screen: Screen, n_keys: int, pause: Callable[[], None]) -> Iterator[float]:
    """Letters of a filter, which is cleared and typed again."""
    for _ in range(-(-n_keys // (len(FILTER) - 1))):
        screen.press(b"/", lambda painted: b"enter keeps it" in painted)
        for length in range(1, len(FILTER) + 1):
            pause()
            typed = FILTER[:length]
            took = screen.press(FILTER[length - 1 : length], lambda painted, typed=typed: typed in painted)
            # A single letter may be part of anything.
            if length > 1:
                yield took
        screen.press(b"\x1b", bool)
        screen.rest(1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=25)
    parser.add_argument("--trials", type=int, default=400, help="finished trials of all models when the screen opens")
    parser.add_argument("--rate", type=float, default=12.0, help="events a second that are written meanwhile")
    parser.add_argument("--keys", type=int, default=20, help="keys of each kind")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each measurement of processor time")
    parser.add_argument("--out", type=Path, default=RESULTS / "screen.json")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write is not None:
        write_run(RunFolder(options.write), options.models, options.trials, options.rate)
    run_benchmark(options)
    return 0


def run_benchmark(options: argparse.Namespace) -> None:
    """Start the writer and the screen, measure, print, and write the results."""
    with tempfile.TemporaryDirectory() as place:
        folder = create_run(RunConfig(data="titanic.csv", budget=None), Path(place))
        words = [sys.executable, "-m", "benchmarks.performance.screen", "--write", str(folder.path)]
        words += [f"--{name}={getattr(options, name)}" for name in ("models", "trials", "rate")]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            if writer.stdout.readline() != b"written\n":
                raise SystemExit("The run was not written.")
            screen = Screen(folder)
            try:
                screen.wait(VIEWS[b"1"])
                screen.rest(3.0)
                found = measure(screen, options.keys, options.seconds)
            finally:
                screen.close()
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
