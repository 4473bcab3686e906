"""The temporary folder of an unpacked bundle."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tabapp.bundle.files.archive import Archive, Members
from tabapp.errors import BundleError
from tabapp.temporary import TemporaryFolder


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Make a temporary folder, which is removed when the block ends."""
    with TemporaryFolder("bundle") as name:
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
