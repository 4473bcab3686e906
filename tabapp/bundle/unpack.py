"""The temporary folder of an unpacked bundle, which outlives no process for long."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tabapp.bundle.archive import Archive, Members
from tabapp.errors import BundleError

_PREFIX = "tabapp-bundle-"
_LOCK = ".lock"
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
_SETTLED_SECONDS = 60
"""A younger folder may belong to a process that has not locked it yet."""


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Make a temporary folder, which is removed when the block ends.

    A process that crashes leaves its folder, which the next call removes: the lock in it is then free.
    """
    remove_stale_folders()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, _held(os.open(Path(name) / _LOCK, _NEW, 0o600)):
        yield Path(name)


def extract(archive: Archive, folder: Path) -> None:
    """Unpack and verify all members into a folder.

    Raises:
        BundleError: a member differs from the manifest, or the disk has no space for the members.
    """
    check_space(archive, folder)
    archive.extract(folder)


def check_space(archive: Members, folder: Path) -> None:
    """Check that the disk of a folder has space for all members.

    Raises:
        BundleError: it has less.
    """
    needed = sum(member.bytes for member in archive.members)
    if needed > shutil.disk_usage(folder).free:
        raise BundleError(
            f"{archive.path} needs {needed:,} bytes in {tempfile.gettempdir()}, which has less space. Set TMPDIR to a "
            "folder with more."
        )


@contextmanager
def unpacked(archive: Archive) -> Generator[Path]:
    """Unpack and verify all members into a temporary folder, which is removed when the block ends.

    Raises:
        BundleError: a member differs from the manifest, or the disk has no space for the members.
    """
    with temporary_folder() as temporary:
        folder = temporary / "members"
        folder.mkdir()
        extract(archive, folder)
        yield folder


def remove_stale_folders() -> None:
    """Remove this user's folders of unpacked bundles whose process has ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            found = folder.lstat()
            is_settled = time.time() - found.st_mtime > _SETTLED_SECONDS
            if folder.is_symlink() or not is_settled or found.st_uid != os.getuid():
                continue
            with _held(os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


@contextmanager
def _held(descriptor: int) -> Generator[None]:
    """Lock an open file and close it at the end. The lock ends with the process, however it ends.

    Raises:
        OSError: another process holds it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
