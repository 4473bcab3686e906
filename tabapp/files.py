"""Atomic, durable file writes: temporary name, fsync, rename, fsync of the folder. All files that must survive a crash use it.

Tests replace the functions of `operations` to make the n-th operation fail.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Operations:
    """The system calls that durability depends on."""

    write: Callable[[int, bytes], int] = os.write
    fsync: Callable[[int], None] = os.fsync
    rename: Callable[[Path, Path], None] = os.replace


operations = Operations()


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")


def fsync_folder(folder: Path) -> None:
    """Make the names inside a folder durable. The fsync of a file does not do this."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        operations.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, even if the system splits the write.

    Raises:
        OSError: the disk is full or the write failed; part of the data may have been written.
    """
    view = memoryview(data)
    while view:
        view = view[operations.write(descriptor, bytes(view)) :]


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file's content atomically: readers see the old bytes or the new ones, never a mixture.

    Raises:
        OSError: the write failed. The old content is unchanged, except when only the fsync of the folder failed.
    """
    temporary = _temporary(path)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            write_all(descriptor, data)
            operations.fsync(descriptor)
        finally:
            os.close(descriptor)
        operations.rename(temporary, path)
        fsync_folder(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Replace a file's content with UTF-8 text, atomically (see `write_bytes`)."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace a file's content with JSON, atomically (see `write_bytes`)."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not JSON.
    """
    return json.loads(path.read_text(encoding="utf-8"))


def _fsync_tree(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(os.path.join(root, name), os.O_RDONLY)
            try:
                operations.fsync(descriptor)
            finally:
                os.close(descriptor)
        fsync_folder(Path(root))


@contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """Fill a folder under a temporary name and rename it, complete and durable, when the block ends.

    If another process creates the same folder first, that folder is kept and this one is removed: equal names imply equal content.

    Raises:
        OSError: a write failed. `path` does not exist or is complete.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    temporary.mkdir()
    try:
        yield temporary
        _fsync_tree(temporary)
        try:
            operations.rename(temporary, path)
        except OSError:
            if not path.is_dir():
                raise
        fsync_folder(path.parent)
    finally:
        if temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)


def sweep(folder: Path) -> int:
    """Remove temporary files and folders of killed processes; returns their number."""
    removed = 0
    for leftover in list(folder.rglob(".*.tmp")):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            with suppress(OSError):
                leftover.unlink()
        removed += 1
    return removed
