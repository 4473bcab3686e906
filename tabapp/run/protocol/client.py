"""Start the engine process of a run and describe how it ended. Views follow the events in the run folder."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import BinaryIO

from tabapp import files
from tabapp.children import module_command
from tabapp.errors import UsageError, spelling_of_children
from tabapp.run.record.folder import RunFolder

DISK_FULL = 74
"""Exit code of an engine that could not write its last event because the disk is full."""
BUSY = 75
"""Exit code of an engine that did not start, because another one had the run."""


def engine_command(folder: RunFolder, *, watch_parent: bool) -> list[str]:
    """The command line of the engine process. With `watch_parent`, it ends when its parent process ends."""
    words = module_command("tabapp.processes.engine", str(folder.path))
    return [*words, "--watch-parent"] if watch_parent else words


def open_log(folder: RunFolder) -> BinaryIO:
    """The log file of a run, for the output of a process.

    Raises:
        UsageError: the run folder cannot be written.
    """
    try:
        return os.fdopen(files.open_to_append(folder.log), "ab")
    except OSError as error:
        raise UsageError(
            f"{folder.log} cannot be written: {error.strerror}. Copy the run folder to a place that you may write to."
        ) from None


def start_engine(folder: RunFolder) -> subprocess.Popen[bytes]:
    """Start the engine in the process group of a view that waits for it; the engine ends when the view is killed."""
    return _start(folder, detached=False)


def start_detached_engine(folder: RunFolder) -> subprocess.Popen[bytes]:
    """Start the engine in a new session; it continues without the view or its terminal.

    Raises:
        OSError: the system cannot start another process.
    """
    return _start(folder, detached=True)


def _start(folder: RunFolder, *, detached: bool) -> subprocess.Popen[bytes]:
    """Start the engine, with one OpenMP thread by default, because fits run in parallel.

    This does not use asyncio, whose transports kill running children when the event loop closes.
    """
    with open_log(folder) as log:
        return subprocess.Popen(
            engine_command(folder, watch_parent=not detached),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"OMP_NUM_THREADS": "1", **os.environ, **spelling_of_children(), "PYTHONUNBUFFERED": "1"},
            start_new_session=detached,
        )


def describe_full_disk(folder: RunFolder) -> str:
    """A sentence about a disk without space for the run."""
    return f"The disk of {folder.path} is full. Free some space, then continue with `tabapp resume {folder.argument}`."


def describe_death(return_code: int, folder: RunFolder) -> str:
    """A sentence about an engine that ended without a result, with the command that resumes the run."""
    cause = cause_of_death(return_code, folder)
    if return_code in (DISK_FULL, BUSY):
        return cause
    resume = f"`tabapp resume {folder.argument}` continues from the last complete fit"
    return f"{cause.removesuffix('.')}; {resume}. See {folder.log}."


def cause_of_death(return_code: int, folder: RunFolder) -> str:
    """A sentence about an engine that ended without a result."""
    if return_code == DISK_FULL:
        return describe_full_disk(folder)
    if return_code == BUSY:
        return folder.busy_sentence
    if return_code < 0:
        name = signal.Signals(-return_code).name if -return_code in set(signal.Signals) else str(-return_code)
        return f"The engine was killed by {name}" + (", likely because memory ran out." if name == "SIGKILL" else ".")
    return f"The engine ended with code {return_code}."


def log_tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log file; empty without a file."""
    try:
        return "\n".join(files.read_regular(path).decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
