"""A table that comes through stdin: kept in a file, after which the keys of the screen come from the terminal itself."""

from __future__ import annotations

import os
import shutil
import sys

from tabapp import files
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder

STDIN_FILE = "stdin.csv"
TERMINAL = "/dev/tty"


def open_keyboard() -> int | None:
    """A descriptor of the terminal that this process belongs to; None where it has none, as in a cron job."""
    try:
        return os.open(TERMINAL, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def take_keys_from(keyboard: int) -> None:
    """Let standard input be the terminal; Textual's driver reads keys, and sets the terminal's modes, through descriptor 0."""
    os.dup2(keyboard, 0)
    os.close(keyboard)


def keep_stdin(folder: RunFolder, config: RunConfig) -> None:
    """Write what comes through stdin into the run folder, where the engine, and a resumed one, finds it.

    An interrupt while it comes leaves no run.
    """
    import msgspec

    file = folder.path / STDIN_FILE
    try:
        with open(file, "wb", opener=files.open_private) as spool:
            shutil.copyfileobj(sys.stdin.buffer, spool)
        folder.save_config(msgspec.structs.replace(config, data=str(file)))
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
