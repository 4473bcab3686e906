"""Time of the ten first tasks of docs/guide/terminal.md, done by key presses in a real terminal.

    python -m benchmarks.newcomer_tasks [--out FILE] [--screens FOLDER]

Needs tmux. The run is real: four models on a generated table, with every fit of one model killed, as when memory runs out. Four
keys are pressed per second. Each task ends when the screen or a file shows its result.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import RESULTS, machine, report
from tabapp.run.record import events as ev
from tabapp.run.record.commands import Abort
from tabapp.run.record.folder import EventReader, list_runs
from tests.e2e.terminal import TABAPP, Terminal
from tests.recordings import events_of
from tests.recordings.replay import ReplayWorker, make_run
from tests.tables import write_mixed

SECONDS_A_KEY = 0.25
TARGET_SECONDS = 30.0
FAILING = "k_neighbors"


@dataclass(frozen=True)
class Task:
    """Keys as named by tmux (text in quotes is typed letter by letter, text in brackets is waited for), and the text that shows
    that the task is done.
    """

    name: str
    keys: str
    words: tuple[str, ...]
    file: str = ""
    back: str = ""
    """Keys that leave the screen ready for the next task."""


BEFORE = (
    Task("change the target", "t 'city' Enter", ("› city · multiclass", "Target     city"), back="t 'price' Enter"),
)
DURING = (
    Task("stop TabNet", "/ 'tabnet' Enter k y", ("■ stopped by you",), back="/ Escape"),
    Task(
        "find why a model failed",
        "/ 'failed' Enter Enter",
        ("its process was ended by SIGKILL",),
        back="Enter / Escape",
    ),
)
AFTER = (
    Task("copy the best parameters", "3 g j y", ("opied", "n_trees")),
    Task("compare two models", "3 g j Space j Space", ("LightGBM", "Linear model", "≠"), back="u"),
    Task("find the worst slice", "5 Tab Enter", ("rows have",), back="Enter"),
    Task("read what a number means", "1 ?", ("Help", "± is half the width"), back="Escape"),
    Task("export", "e Enter", ("Saved",), "houses.tabapp"),
    Task(
        "predict a file",
        "6 o 'new.csv' Enter C-r",
        ("100 predictions written",),
        "new-predictions.csv",
    ),
    Task("come back to yesterday's run", "7 j Enter", ("cancer.csv ›", "Leaderboard")),
)


class KilledFits(threading.Thread):
    """Kills every fit of one model, as the system does when memory runs out."""

    def __init__(self, runs: Path) -> None:
        super().__init__(daemon=True)
        self._runs = runs
        self.stopped = False

    def run(self) -> None:
        reader: EventReader | None = None
        while not self.stopped:
            time.sleep(0.02)
            started = [folder for folder in list_runs(self._runs) if "houses" in folder.run]
            if reader is None and started:
                reader = EventReader(started[0].events)
            for event in reader.read_new() if reader is not None else []:
                if isinstance(event, ev.FitStarted) and event.model == FAILING:
                    with suppress(ProcessLookupError):
                        os.kill(event.pid, signal.SIGKILL)


def words_of(keys: str) -> list[str]:
    """Split into keys and quoted texts."""
    return [key for word in shlex.split(keys) for key in ([word] if word in NAMED else word)]


NAMED = ("Enter", "Escape", "Space", "Tab", "C-r")


def do(terminal: Terminal, place: Path, task: Task, keep: Callable[[str, str], None]) -> tuple[int, float]:
    """Do a task; returns the number of keys and the seconds."""
    began = time.monotonic()
    keys = words_of(task.keys)
    for key in keys:
        terminal.keys(key)
        time.sleep(SECONDS_A_KEY)
    terminal.wait(*task.words, seconds=TARGET_SECONDS)
    if task.file:
        terminal.until(lambda: (place / task.file).exists(), task.file, TARGET_SECONDS)
    seconds = time.monotonic() - began
    keep(task.name, terminal.screen())
    for key in words_of(task.back):
        terminal.keys(key)
        # Terminals interpret an escape that is immediately followed by another key as one key with alt.
        time.sleep(1.0 if key == "Escape" else SECONDS_A_KEY)
    return sum(len(key) == 1 or key in NAMED for key in keys), seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "newcomer_tasks.json")
    parser.add_argument("--screens", type=Path, help="folder for the screen at the end of each task")
    arguments = parser.parse_args()

    def keep(name: str, screen: str) -> None:
        if arguments.screens is not None:
            arguments.screens.mkdir(parents=True, exist_ok=True)
            (arguments.screens / f"{name.replace(' ', '-')}.txt").write_text(screen)

    done: list[tuple[str, str, int, float]] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place = Path(name)
        lines = write_mixed(place / "houses.csv", rows=600).read_text().splitlines()
        (place / "new.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines[:101]) + "\n")
        yesterday = make_run(place / "runs", "cancer")
        ReplayWorker(yesterday, events_of("cancer")).play_all()
        killer = KilledFits(place / "runs")
        killer.start()
        terminal = Terminal(place, 100, 30)
        try:
            options = f"--budget 60s --models lightgbm,linear,tabnet,{FAILING}"
            terminal.start(f"{TABAPP} houses.csv {options}", TABAPP_RUNS_DIR=str(place / "runs"))
            terminal.wait("ctrl+r starts")
            for task in BEFORE:
                done.append((task.name, task.keys, *do(terminal, place, task, keep)))
            terminal.wait("Target     price")
            time.sleep(2.0)
            terminal.keys("C-r")
            terminal.wait("Leaderboard", "TabNet", "✗ failed", seconds=60)
            for task in DURING:
                done.append((task.name, task.keys, *do(terminal, place, task, keep)))
            terminal.wait("✓ done", seconds=120)
            for task in AFTER:
                done.append((task.name, task.keys, *do(terminal, place, task, keep)))
            terminal.keys("q")
            terminal.wait("EXIT=0", seconds=20)
        finally:
            killer.stopped = True
            for folder in list_runs(place / "runs"):
                if folder.is_running():
                    folder.send(Abort())
            terminal.close()
    rows = [[name, keys, str(number), f"{seconds:.1f}"] for name, keys, number, seconds in done]
    report(machine("textual"), ["task", "keys", "number", "seconds"], rows, rows, arguments.out, (2, 3))
    return 0 if all(seconds < TARGET_SECONDS for *_, seconds in done) else 1


if __name__ == "__main__":
    sys.exit(main())
