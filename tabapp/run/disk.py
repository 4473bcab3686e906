"""A full disk below a run, however a library reports it."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LEAST_FREE = 1 << 20
"""Free bytes below which any failure is one of the disk: a library may report it as a file that it cannot write."""


def is_disk_full(error: BaseException, folder: Path) -> bool:
    """Whether a full disk is the cause of an error.

    Args:
        folder: the folder of the run.
    """
    for each in _causes(error):
        if isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if getattr(each, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return True
    try:
        return shutil.disk_usage(folder).free < LEAST_FREE
    except OSError:
        return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def print_traceback() -> None:
    """Print the traceback of the current exception into the log, unless the disk has no space for it."""
    with suppress(OSError):
        traceback.print_exc()
