"""Private temporary folders. That of a killed process is removed by the next process that needs one."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path

LOCK = ".tabapp-lock"
"""A file in each folder, which its process locks."""
_PREFIX = "tabapp-"
_SETTLED_SECONDS = 60
"""A younger folder may belong to a process that has not locked it yet."""


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder with the mode 0700, removed by `cleanup` or at the end of the block.

    Args:
        kind: what it contains, a word for its name.
    """

    def __init__(self, kind: str) -> None:
        remove_abandoned_folders()
        super().__init__(prefix=f"{_PREFIX}{kind}-")
        descriptor = os.open(Path(self.name) / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._unlock = weakref.finalize(self, os.close, descriptor)
        _lock(descriptor)

    def cleanup(self) -> None:
        super().cleanup()
        self._unlock()


def remove_abandoned_folders() -> None:
    """Remove this user's temporary folders whose process has ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            is_settled = time.time() - found.st_mtime > _SETTLED_SECONDS
            is_own = (
                stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700 and found.st_uid == os.getuid()
            )
            if is_settled and is_own:
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder.

    Raises:
        OSError: it has no lock, or a process holds it.
    """
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        _lock(descriptor)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock an open file until it is closed or the process ends, however it ends.

    Raises:
        OSError: another process holds it.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
