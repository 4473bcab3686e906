"""A run as a folder: create it, find it, list runs, lock it, append events and commands to it, read them back.

run.json        the configuration            events.jsonl    what happened, a line each
lock            held by the engine           commands.jsonl  what views ask of the engine, a line each
data/           the table, typed (Arrow)     splits.npz      the fold of each row
features/       prepared arrays              fits/<id>/      complete fits
study.db        Optuna's trials (SQLite)     log.txt         what the engine and its libraries printed
checkpoints/    fits under way               model.tabapp    the bundle
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shlex
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tabapp import files
from tabapp.errors import UsageError, did_you_mean
from tabapp.run import events as ev
from tabapp.run.commands import COMMANDS, AnyCommand
from tabapp.run.config import RunConfig
from tabapp.run.state import RunState, replay

LOCK_TRIES = 5
LOCK_PAUSE = 0.05


def default_runs_dir() -> Path:
    """Where runs are kept: `$TABAPP_RUNS_DIR`, or the platform's data directory."""
    chosen = os.environ.get("TABAPP_RUNS_DIR")
    if chosen:
        return Path(chosen)
    from platformdirs import user_data_path

    return user_data_path("tabapp") / "runs"


@dataclass(frozen=True)
class RunFolder:
    """One run on disk; `path` need not exist for the other paths to be asked."""

    path: Path

    @property
    def run(self) -> str:
        return self.path.name

    @property
    def argument(self) -> str:
        """What a command takes to find this run again: its id, or its path where it is not in the usual place."""
        return self.run if self.path.parent == default_runs_dir() else shlex.quote(str(self.path))

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def commands(self) -> Path:
        return self.path / "commands.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def fits(self) -> Path:
        return self.path / "fits"

    @property
    def checkpoints(self) -> Path:
        """Where fits under way leave what they need to resume after a kill, each in a folder of its name."""
        return self.path / "checkpoints"

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def features(self) -> Path:
        return self.path / "features"

    @property
    def study(self) -> Path:
        return self.path / "study.db"

    @property
    def plan(self) -> Path:
        """Written last when a run starts: with it, rows and folds are on disk too."""
        return self.path / "plan.json"

    @property
    def bundle(self) -> Path:
        return self.path / "model.tabapp"

    def config(self) -> RunConfig:
        """The configuration of the run.

        Raises:
            UsageError: `run.json` is missing or cannot be understood.
        """
        try:
            return msgspec.json.decode((self.path / "run.json").read_bytes(), type=RunConfig)
        except FileNotFoundError:
            raise UsageError(f"{self.path} is not a run folder; it has no run.json.") from None
        except msgspec.DecodeError as error:
            raise UsageError(f"{self.path / 'run.json'} cannot be understood: {error}.") from None

    def save_config(self, config: RunConfig) -> None:
        """Replace the configuration, atomically."""
        files.write_bytes(self.path / "run.json", msgspec.json.format(msgspec.json.encode(config), indent=1) + b"\n")

    def state(self) -> RunState:
        """The state of the run from its events so far."""
        return replay(EventReader(self.events).read_new())

    def is_running(self) -> bool:
        """Whether an engine holds the run now."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            return not _lock(descriptor, fcntl.LOCK_SH, tries=1)
        finally:
            os.close(descriptor)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Hold the run; released by the system when the process dies, however it dies.

        Raises:
            RunBusy: another process holds it.
        """
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _lock(descriptor, fcntl.LOCK_EX, LOCK_TRIES):
                raise RunBusy(f"The run {self.run} is at work in another process; use `tabapp attach {self.argument}`.")
            yield
        finally:
            os.close(descriptor)

    def send(self, command: AnyCommand) -> None:
        """Append a command for the engine. Any number of views may send commands."""
        line = COMMANDS.encode(command)
        descriptor = os.open(self.commands, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            files.write_all(descriptor, line)
        finally:
            os.close(descriptor)


def _lock(descriptor: int, kind: int, tries: int) -> bool:
    """Try to lock a file. Asking whether a run is locked locks it for a moment, so an engine tries more than once."""
    for attempt in range(tries):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if attempt + 1 < tries:
                time.sleep(LOCK_PAUSE)
    return False


class RunBusy(UsageError):
    """Another process holds the run."""


def create_run(config: RunConfig, runs_dir: Path) -> RunFolder:
    """Make a new run folder that holds the configuration.

    Raises:
        UsageError: the folder cannot be made there.
    """
    stem = re.sub(r"[^a-zA-Z0-9]+", "-", Path(config.data).name.split(".")[0]).strip("-").lower()[:24] or "run"
    run = f"{time.strftime('%Y%m%d-%H%M%S')}-{stem}-{secrets.token_hex(2)}"
    folder = RunFolder(runs_dir / run)
    try:
        folder.path.mkdir(parents=True)
        folder.fits.mkdir()
        folder.save_config(config)
    except OSError as error:
        raise UsageError(
            f"No run can be made in {runs_dir}: {error.strerror}; choose another place with --runs-dir."
        ) from None
    return folder


def list_runs(runs_dir: Path) -> list[RunFolder]:
    """All runs below a folder, newest first."""
    if not runs_dir.is_dir():
        return []
    found = [RunFolder(path) for path in runs_dir.iterdir() if (path / "run.json").is_file()]
    return sorted(found, key=lambda folder: folder.run, reverse=True)


def find_run(text: str, runs_dir: Path) -> RunFolder:
    """A run by its path, its id, an unambiguous part of its id, its name, or `last`.

    Raises:
        UsageError: there is none, or several fit.
    """
    if (Path(text) / "run.json").is_file():
        return RunFolder(Path(text).resolve())
    runs = list_runs(runs_dir)
    if text == "last" and runs:
        return runs[0]
    exact = [folder for folder in runs if folder.run == text]
    fitting = exact or [folder for folder in runs if text in folder.run or folder.config().name == text]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(
            f"{text!r} fits {len(fitting)} runs: {', '.join(folder.run for folder in fitting[:4])}; say more of it."
        )
    hint = did_you_mean(text, [folder.run for folder in runs]) or "; `tabapp runs` lists them."
    raise UsageError(f"There is no run {text!r} in {runs_dir}{hint}")


class EventLog:
    """Appends events to a run. Each is on disk before `append` returns; a torn last line of a killed engine is cut off first."""

    def __init__(self, path: Path) -> None:
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if len(whole) < len(content):
            os.ftruncate(self._descriptor, len(whole))
        self.seq = whole.count(b"\n")

    def append(self, event: ev.Event) -> ev.Event:
        """Give the event its number and time, and write it.

        Raises:
            OSError: the disk is full; the line that was begun is taken back.
        """
        event = msgspec.structs.replace(event, seq=self.seq + 1, t=round(time.time(), 3))
        size = os.fstat(self._descriptor).st_size
        try:
            files.write_all(self._descriptor, ev.encode(event))
        except OSError:
            os.ftruncate(self._descriptor, size)
            raise
        if not isinstance(event, ev.FitProgress | ev.Resources):
            files.operations.fsync(self._descriptor)
        self.seq += 1
        return event

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)


class LineReader:
    """Reads the complete lines that were added to a growing file since the last look; a torn last line waits."""

    def __init__(self, path: Path, *, at_end: bool = False) -> None:
        self._path = path
        self._offset = path.stat().st_size if at_end and path.exists() else 0

    def read_new(self) -> list[bytes]:
        """Lines without their newline; empty when there is nothing new or no file yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                added = file.read()
        except FileNotFoundError:
            return []
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()


class EventReader:
    """Reads the events of a run as they come."""

    def __init__(self, path: Path) -> None:
        self._lines = LineReader(path)

    def read_new(self) -> list[ev.AnyEvent]:
        """The events since the last look; those of a kind that this version does not know are left out."""
        decoded = (ev.decode(line) for line in self._lines.read_new())
        return [event for event in decoded if event is not None]


class CommandReader:
    """Reads the commands that views send.

    Args:
        resumed: skip the commands of earlier sessions.
        reject: receives one sentence for each line that is not a command.
    """

    def __init__(self, path: Path, *, resumed: bool, reject: Callable[[str], None] | None = None) -> None:
        self._lines = LineReader(path, at_end=resumed)
        self._reject = reject

    def read_new(self) -> list[AnyCommand]:
        """The commands since the last call, in order."""
        commands: list[AnyCommand] = []
        for line in self._lines.read_new():
            try:
                commands.append(COMMANDS.decode(line))
            except UsageError as error:
                if self._reject is not None:
                    self._reject(str(error))
        return commands
