"""Disturbs whole runs at random moments, resumes them until they finish, and counts what was lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import psutil

from tabapp.engine.fit.jobs import FitResult
from tabapp.files import sha256
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder, list_runs
from tests.waiting import HANG_SECONDS, wait_until

MODELS = "linear,lightgbm,mlp"
OPTIONS = ("--models", MODELS, "--trials", "1", "--folds", "3", "--json")
QUICK = ("--models", "lightgbm,linear", "--trials", "1", "--folds", "5", "--json")
MOST_EVENTS = 30
STOPPED_SECONDS = 2.0
"""How long a suspended process sleeps; TABAPP_TORTURE_STOP sets another time."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tabapp", *arguments]


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own."""
    return subprocess.Popen(
        command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def descendants(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(process.pid).children(recursive=True)
    return []


def name_of(process: psutil.Process) -> str:
    """What a process of a run is: its engine, one of its servers, or a fit."""
    with suppress(psutil.Error):
        words = " ".join(process.cmdline())
        if "tabapp.processes.engine" in words:
            return "engine"
        parent = process.parent()
        if parent is not None and "tabapp.processes.engine" in " ".join(parent.cmdline()):
            return "server"
        return "fit"
    return "ended"


@dataclass
class Count:
    """What happened in some runs."""

    runs: int = 0
    disturbances: dict[str, int] = field(default_factory=dict[str, int])
    lost: int = 0
    repeated: int = 0
    corrupt: int = 0
    left: int = 0
    different: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.repeated or self.corrupt or self.left or self.different)

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {n}" for name, n in sorted(self.disturbances.items()))
        return (
            f"{self.runs} runs, {sum(self.disturbances.values())} disturbances ({kinds}); complete fits lost {self.lost}, "
            f"repeated {self.repeated}; corrupt files {self.corrupt}; processes left {self.left}; "
            f"different leaderboards {self.different}"
        )


def _kill(kind: str, number: signal.Signals) -> Callable[[subprocess.Popen[bytes]], None]:
    def disturb(process: subprocess.Popen[bytes]) -> None:
        chosen = [child for child in descendants(process) if name_of(child) == kind]
        for child in chosen[:1]:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(number)

    return disturb


def _to_view(number: signal.Signals) -> Callable[[subprocess.Popen[bytes]], None]:
    return lambda process: process.send_signal(number)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _suspend(process: subprocess.Popen[bytes]) -> None:
    everything = descendants(process)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for child in everything:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(number)
        if number == signal.SIGSTOP:
            time.sleep(float(os.environ.get("TABAPP_TORTURE_STOP", STOPPED_SECONDS)))


DISTURBANCES: dict[str, Callable[[subprocess.Popen[bytes]], None]] = {
    "SIGKILL engine": _kill("engine", signal.SIGKILL),
    "SIGKILL fit": _kill("fit", signal.SIGKILL),
    "SIGKILL server": _kill("server", signal.SIGKILL),
    "SIGKILL all": _kill_group,
    "SIGTERM": _to_view(signal.SIGTERM),
    "SIGHUP": _to_view(signal.SIGHUP),
    "SIGINT": _to_view(signal.SIGINT),
    "SIGSTOP": _suspend,
    "copy": _kill_group,
}
ENDING = ("SIGKILL engine", "SIGKILL all", "SIGTERM", "SIGHUP", "SIGINT", "copy")
"""Disturbances after which the command ends."""


def _results(folder: RunFolder) -> list[Path]:
    """The results of complete fits; a fit is written into a hidden folder beside them until it is complete."""
    return [path for path in folder.fits.glob("*-f*/metrics.json") if not path.parent.name.startswith(".")]


def complete_fits(folder: RunFolder) -> dict[str, int]:
    """The complete fits of a run, with the time at which each was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in _results(folder)}


def copied(folder: RunFolder, target: Path) -> RunFolder:
    """A copy of a run folder that may be changing, in place of the original."""

    def copy(source: str, destination: str) -> str:
        # A file that vanishes while it is copied was temporary.
        with suppress(FileNotFoundError):
            shutil.copy2(source, destination)
        return destination

    place = target / folder.path.name
    with suppress(shutil.Error):
        shutil.copytree(folder.path, place, copy_function=copy)
    return RunFolder(place)


def corrupt_files(folder: RunFolder) -> Iterator[Path]:
    """Files of a finished run that cannot be read or do not have their checksum."""
    for path in [folder.path / "run.json", folder.plan, *_results(folder)]:
        try:
            json.loads(path.read_bytes())
        except (OSError, ValueError):
            yield path
    for path in _results(folder):
        result = msgspec.json.decode(path.read_bytes(), type=FitResult)
        yield from (
            path.parent / name for name, digest in result.checksums.items() if sha256(path.parent / name) != digest
        )
    if sqlite3.connect(folder.study).execute("PRAGMA integrity_check").fetchone() != ("ok",):
        yield folder.study
    yield from folder.path.rglob(".*.tmp")


def scores_of(folder: RunFolder) -> dict[str, tuple[float | None, int, float]]:
    """The leaderboard of a finished run."""
    finished = folder.state().finished
    assert finished is not None
    return {row.model: (row.score, row.folds, row.in_ensemble) for row in finished.leaderboard}


def _has_come(process: subprocess.Popen[bytes], runs: Path, goal: int) -> bool:
    """Whether a command has ended, or its run has that many events."""
    written = sum(len(run.events.read_bytes().splitlines()) for run in list_runs(runs) if run.events.exists())
    return process.poll() is not None or written >= goal


def disturbed_run(
    data: Path,
    place: Path,
    kinds: list[str],
    generator: random.Random,
    count: Count,
    options: tuple[str, ...] = OPTIONS,
) -> RunFolder:
    """Run a table, disturb it once by each of the kinds after a random number of events, and resume it until it finishes."""
    place.mkdir()
    runs = place / "runs"
    words = ["--auto", str(data), *options, "--runs-dir", str(runs)]
    folder: RunFolder | None = None
    seen: dict[str, int] = {}
    count.runs += 1
    for number, kind in enumerate(kinds):
        n_before = 0 if folder is None else len(folder.events.read_bytes().splitlines())
        goal = n_before + generator.randint(1, MOST_EVENTS)
        process = start(*words)
        parent = runs if folder is None else folder.path.parent
        wait_until(partial(_has_come, process, parent, goal), "events or the end of the run")
        if process.poll() is not None:
            break
        family = descendants(process)
        folder = folder or list_runs(runs)[0]
        copy = copied(folder, place / f"elsewhere{number}") if kind == "copy" else None
        DISTURBANCES[kind](process)
        count.disturbances[kind] = count.disturbances.get(kind, 0) + 1
        if kind not in ENDING:
            # The run continues, and may finish.
            time.sleep(generator.uniform(0.0, 1.0))
            _kill_group(process)
        process.wait(HANG_SECONDS)
        _, alive = psutil.wait_procs(family, timeout=HANG_SECONDS)
        count.left += len(alive)
        if copy is not None:
            seen = {fit: at for fit, at in seen.items() if fit in complete_fits(copy)}
            shutil.rmtree(folder.path)
            folder = copy
        seen |= complete_fits(folder)
        words = ["resume", str(folder.path), "--json"]
    last = subprocess.run(command(*words), capture_output=True, text=True, timeout=HANG_SECONDS)
    # 2: the run had finished before.
    assert last.returncode in (0, 2), last.stderr
    folder = folder or list_runs(runs)[0]
    now = complete_fits(folder)
    count.lost += sum(fit not in now for fit in seen)
    count.repeated += sum(now.get(fit, at) != at for fit, at in seen.items())
    finished = [e.fit for e in EventReader(folder.events).read_new() if isinstance(e, ev.FitFinished)]
    count.repeated += len(finished) - len(set(finished))
    count.corrupt += len(list(corrupt_files(folder)))
    return folder
