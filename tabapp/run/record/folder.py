"""Run folders: create, find, list and lock them; append and read events and commands. Only their owner may read them.

run.json        the configuration            events.jsonl    events of the engine, one per line
lock            locked by the engine         commands.jsonl  commands of the views, one per line
data/           the table, typed (Arrow)     splits.npz      the folds of each row
features/       prepared arrays              fits/<id>/      complete fits
study.db        Optuna's trials (SQLite)     log.txt         output of the engine and its libraries
checkpoints/    running fits                 model.tabapp    the bundle
run.seal        shows that this user wrote run.json
labels.json     the user's name, note and tags of the run

A run with several targets has targets.json and an ordinary run folder targets/<n>-<name>/ for each of them, without data and fits.
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
from tabapp.errors import UsageError, did_you_mean, option
from tabapp.run.options.config import RunConfig
from tabapp.run.options.places import reject_inputs, reject_undecodable, tables_of
from tabapp.run.record import events as ev
from tabapp.run.record import origin
from tabapp.run.record.commands import COMMANDS, AnyCommand
from tabapp.run.record.event_lines import decode, encode
from tabapp.run.record.labels import read_labels
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import RunState
from tabapp.user_folders import NOWHERE, data_folder

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a line or a file of JSON raises when it is damaged or nested too deeply."""
LAST_LINES = 100
HIGHEST_SEQUENCE = 2**53
LOCK_TRIES = 5
LOCK_PAUSE = 0.05


def default_runs_dir() -> Path:
    """The default folder for runs: `$TABAPP_RUNS_DIR`, or `tabapp/runs` in the platform's data directory; `tabapp-runs` in the
    working directory for a user without a home folder."""
    chosen = os.environ.get("TABAPP_RUNS_DIR")
    if chosen:
        return Path(chosen).absolute()
    folder = data_folder()
    return Path("tabapp-runs").absolute() if folder == NOWHERE else folder / "runs"


def with_runs_dir(command: str, runs_dir: Path) -> str:
    """A command on the runs of a folder: with the option that names it, unless it is the default."""
    folder = runs_dir.absolute()
    return command if folder == default_runs_dir() else f"{command} --runs-dir {shlex.quote(str(folder))}"


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run on disk. `path` may not exist yet."""

    path: Path

    @property
    def run(self) -> str:
        return self.path.name

    @property
    def short_id(self) -> str:
        """The id without its date, which commands accept too: titanic-f78e."""
        return self.run.split("-", 2)[-1]

    @property
    def argument(self) -> str:
        """The argument that selects this run on the command line: its id, or its path outside the default folder."""
        return self.run if self.path.parent == default_runs_dir() else shlex.quote(str(self.path))

    @property
    def busy_sentence(self) -> str:
        """What to do about a run that another process has: the engine, or an analysis once the run has ended."""
        if self.state().finished is not None:
            return (
                f"The run {self.run} has ended, and another process is analyzing it. Wait for the analysis or stop it, then "
                "try again."
            )
        return f"The run {self.run} is running in another process. Use `tabapp attach {self.argument}` to show it."

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
        """Checkpoints from which killed fits resume, one folder for each fit."""
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
        """Written last when a run starts: if it exists, rows and folds are on disk too."""
        return self.path / "plan.json"

    @property
    def targets(self) -> Path:
        """The record of the runs of several targets, written when the run starts; other runs have none."""
        return self.path / "targets.json"

    @property
    def has_started(self) -> bool:
        """Whether the run was started, so that it may hold results."""
        return self.plan.exists() or self.targets.exists()

    @property
    def bundle(self) -> Path:
        return self.path / "model.tabapp"

    def config(self) -> RunConfig:
        """The configuration of the run.

        Raises:
            UsageError: `run.json` is missing or cannot be understood.
        """
        path = self.path / "run.json"
        try:
            return msgspec.json.decode(files.read_regular(path), type=RunConfig)
        except FileNotFoundError:
            raise UsageError(f"{self.path} is not a run folder; it has no run.json.") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
        except UNREADABLE as error:
            raise UsageError(
                f"{path} cannot be understood: {error}. The run cannot be resumed; start a new one with `tabapp DATA`."
            ) from None

    def save_config(self, config: RunConfig) -> None:
        """Replace the configuration, atomically, and record that this user wrote it."""
        content = msgspec.json.format(msgspec.json.encode(config), indent=1) + b"\n"
        files.write_bytes(self.path / "run.json", content, mode=files.PRIVATE_FILE)
        origin.seal(self.path, content)

    def is_own(self) -> bool:
        """Whether this user wrote the configuration on this machine; it may then name files outside of the folder."""
        try:
            return origin.is_sealed(self.path, files.read_regular(self.path / "run.json"))
        except OSError:
            return False

    def state(self) -> RunState:
        """The state of the run from its events so far."""
        return replay(EventReader(self.events).read_new())

    def is_running(self) -> bool:
        """Whether an engine currently holds the lock. Nothing is written."""
        try:
            descriptor = files.open_lock(self.path / "lock", create=False)
        except OSError:
            return False
        try:
            return not _lock(descriptor, fcntl.LOCK_SH, tries=1)
        finally:
            os.close(descriptor)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Lock the run. The system releases the lock when the process ends for any reason.

        Raises:
            RunBusy: another process holds the lock.
            OSError: the lock cannot be created.
        """
        descriptor = files.open_lock(self.path / "lock", create=True)
        try:
            if not _lock(descriptor, fcntl.LOCK_EX, LOCK_TRIES):
                raise RunBusy(self.busy_sentence)
            yield
        finally:
            os.close(descriptor)

    def send(self, command: AnyCommand) -> None:
        """Append a command for the engine. Any number of views may send commands."""
        line = COMMANDS.encode(command)
        descriptor = files.open_to_append(self.commands)
        try:
            files.write_all(descriptor, line)
        finally:
            os.close(descriptor)


def reject_links(folder: Path) -> None:
    """Check that a run folder contains no symbolic link, through which the engine would write elsewhere.

    Raises:
        UsageError: names the link.
    """
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(root, name)
            if os.path.islink(path):
                raise UsageError(f"{path} is a symbolic link. Put what it points to in its place, then resume the run.")


def _lock(descriptor: int, kind: int, tries: int) -> bool:
    """Try to lock a file. `is_running` also takes the lock for a moment, so an engine tries several times."""
    for attempt in range(tries):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if attempt + 1 < tries:
                time.sleep(LOCK_PAUSE)
    return False


class RunBusy(UsageError):
    """Another process holds the lock of the run."""


def create_run(config: RunConfig, runs_dir: Path) -> RunFolder:
    """Create a run folder with its configuration.

    Raises:
        UsageError: the folder cannot be created, a path cannot be recorded, or the bundle would replace a table.
    """
    reject_undecodable(config, runs_dir)
    reject_inputs(config.out, tables_of(config))
    stem = re.sub(r"[^a-zA-Z0-9]+", "-", Path(config.data).name.split(".")[0]).strip("-").lower()[:24] or "run"
    run = f"{time.strftime('%Y%m%d-%H%M%S')}-{stem}-{secrets.token_hex(2)}"
    folder = RunFolder(runs_dir / run)
    try:
        runs_dir.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
        folder.path.mkdir(mode=files.PRIVATE_FOLDER)
        folder.fits.mkdir(mode=files.PRIVATE_FOLDER)
        folder.save_config(config)
    except OSError as error:
        raise UsageError(
            f"No run can be created in {runs_dir}: {error.strerror}. Choose another folder with "
            f"{option('runs_dir')} or TABAPP_RUNS_DIR."
        ) from None
    return folder


def list_runs(runs_dir: Path) -> list[RunFolder]:
    """All runs in a folder, newest first, with absolute paths, since a leading dash would make an option of one."""
    if not runs_dir.is_dir():
        return []
    found = [RunFolder(path) for path in runs_dir.absolute().iterdir() if _is_run(path)]
    return sorted(found, key=lambda folder: folder.run, reverse=True)


def _is_run(path: Path) -> bool:
    """Whether a folder contains a run.json; a folder that may not be searched does not."""
    try:
        return (path / "run.json").is_file()
    except OSError:
        return False


def find_run(text: str, runs_dir: Path) -> RunFolder:
    """Find a run by its path, its id, an unambiguous part of its id, its name, or `last`.

    Only a text with a slash, `.` and `..` are paths, so that a folder in the working directory never hides a run.

    Raises:
        UsageError: no run matches, or several do.
    """
    if "/" not in text and text not in (".", ".."):
        return find_listed_run(text, runs_dir)
    if not _is_run(Path(text)):
        raise UsageError(f"{text} is not a run folder; it has no run.json.")
    return RunFolder(Path(text).resolve())


def find_listed_run(text: str, runs_dir: Path) -> RunFolder:
    """Find a run of a folder of runs; as `find_run`, but without paths.

    Raises:
        UsageError: no run matches, or several do.
    """
    runs = list_runs(runs_dir)
    if text == "last":
        if not runs:
            raise UsageError(
                f"There are no runs in {runs_dir} yet. Start one with `{with_runs_dir('tabapp DATA', runs_dir)}`."
            )
        return runs[0]
    exact = [folder for folder in runs if folder.run == text]
    matching = exact or [folder for folder in runs if text in folder.run or _name_of(folder) == text]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(
            f"{text!r} matches {len(matching)} runs: {', '.join(folder.run for folder in matching[:4])}. Use a longer part."
        )
    hint = did_you_mean(text, [folder.run for folder in runs])
    hint = hint or f"; `{with_runs_dir('tabapp runs', runs_dir)}` lists them."
    if text and _is_run(Path(text)):
        hint = f"; write ./{text} for the folder."
    raise UsageError(f"There is no run {text!r} in {runs_dir}{hint}")


def _name_of(folder: RunFolder) -> str | None:
    """The name of a run; None if it has none, or its files cannot be read."""
    try:
        return read_labels(folder.path).name or folder.config().name
    except UsageError:
        return None


class EventLog:
    """Appends events to a run. Each event is on disk before `append` returns. Opening removes a partial last line.

    Raises:
        OSError: the file cannot be read or written, or is not a regular file of this folder.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = files.open_to_append(path)
        content = files.read_regular(path)
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.ftruncate(self._descriptor, len(whole))
        self._opened = time.monotonic()
        lines = whole.splitlines()
        # A line that was removed or damaged must not make new events look old to a reader.
        numbers = [event.seq for event in map(decode, lines[-LAST_LINES:]) if event is not None]
        self.seq = max([len(lines), *(number for number in numbers if number < HIGHEST_SEQUENCE)])

    def append(self, event: ev.Event) -> ev.Event:
        """Write an event with its sequence number and time; returns the written event.

        Raises:
            OSError: the write failed, for example on a full disk; the partial line is removed.
        """
        elapsed = max(0.001, round(time.monotonic() - self._opened, 3))
        event = msgspec.structs.replace(event, seq=self.seq + 1, t=round(time.time(), 3), elapsed=elapsed)
        size = os.fstat(self._descriptor).st_size
        try:
            files.write_all(self._descriptor, encode(event))
        except OSError:
            os.ftruncate(self._descriptor, size)
            raise
        if not isinstance(event, ev.FitProgress | ev.Resources):
            files.operations.fsync(self._descriptor)
        self.seq += 1
        return event

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class LineReader:
    """Reads the complete lines added to a growing file since the last call; a partial last line is read when it is complete."""

    def __init__(self, path: Path, *, at_end: bool = False) -> None:
        self._path = path
        self._offset = path.stat().st_size if at_end and path.exists() else 0

    def read_new(self) -> list[bytes]:
        """New lines without their newline; empty without new lines or without a file.

        Raises:
            UsageError: the file cannot be read, or is not a regular file.
        """
        try:
            with files.open_to_read(self._path) as file:
                file.seek(self._offset)
                added = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UsageError(f"{self._path} cannot be read: {error.strerror}.") from None
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()


class EventReader:
    """Reads the events of a run incrementally."""

    def __init__(self, path: Path) -> None:
        self._lines = LineReader(path)

    def read_new(self) -> list[ev.AnyEvent]:
        """The events since the last call, without unknown ones."""
        decoded = (decode(line) for line in self._lines.read_new())
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
