"""Atomic, durable file writes: temporary name, fsync, rename, fsync of the folder. All files that must survive a crash use it.

Files of a run folder are opened here too: a folder from elsewhere may contain a FIFO, on which reading waits forever, or a symbolic
link, through which appending would change a file outside the folder.

Tests replace the functions of `operations` to make the n-th operation fail.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO


@dataclass
class Operations:
    """The system calls that durability depends on."""

    write: Callable[[int, bytes], int] = os.write
    fsync: Callable[[int], None] = os.fsync
    rename: Callable[[Path, Path], None] = os.replace


operations = Operations()

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
SHARED_FILE = 0o644
_CHUNK = 2**20
_user_umask: int | None = None


LONGEST_NAME = 255


def is_plain_name(name: str) -> bool:
    """Whether a text from a file names something directly inside of a folder: a run, for example. It is then safe to append."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        return False
    try:
        return len(os.fsencode(name)) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


def is_address(path: str) -> bool:
    """Whether a text is an address such as https://… rather than the path of a file. A `Path` keeps one of its slashes."""
    return re.match(r"[a-z][a-z0-9+]{1,9}:/", path) is not None


def make_files_private() -> None:
    """Give the files and folders that this process and its children create to their owner only. `write_bytes(..., shared=True)`
    still uses the file mode of the user."""
    global _user_umask
    _user_umask = os.umask(0o077)


def _regular(path: Path, flags: int) -> int:
    """Open a regular file without waiting for the other end of a FIFO."""
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as error:
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            raise OSError(errno.ELOOP, "It is a symbolic link", str(path)) from None
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "It is not a regular file", str(path)) from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "It is not a regular file", str(path))


def open_to_read(path: Path) -> BufferedReader:
    """Open a regular file for reading, such as one of a run folder or a served bundle. Links to regular files are followed.

    Raises:
        OSError: it is missing, may not be read, or is a folder, FIFO, socket or device.
    """
    return os.fdopen(_regular(path, os.O_RDONLY), "rb")


def open_private(path: str, flags: int) -> int:
    """An opener for `open`: a file that it creates has the mode 0600."""
    return os.open(path, flags, PRIVATE_FILE)


def open_to_append(path: Path) -> int:
    """A descriptor that appends to a file of a run folder, created if it is missing.

    Raises:
        OSError: it may not be written, or is a symbolic link, folder, FIFO, socket or device.
    """
    return _regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)


def open_lock(path: Path, *, create: bool) -> int:
    """A descriptor of a lock file. Without `create` it is read-only, which a read-only folder allows.

    Raises:
        OSError: as for `open_to_append`.
    """
    return _regular(path, (os.O_RDWR | os.O_CREAT if create else os.O_RDONLY) | os.O_NOFOLLOW)


def read_regular(path: Path) -> bytes:
    """The content of a file of a run folder; see `open_to_read`."""
    with open_to_read(path) as file:
        return file.read()


def sha256(path: Path) -> str:
    """The SHA-256 of a regular file, in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    with open_to_read(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy_regular(path: Path, target: Path, *, most_bytes: int) -> None:
    """Copy a regular file to a new one.

    Raises:
        OSError: as for `open_to_read`; or the file is larger than `most_bytes` or the space on the disk, or grows while it is
            copied.
    """
    with open_to_read(path) as source, target.open("xb") as copy:
        size = left = os.fstat(source.fileno()).st_size
        if size > min(most_bytes, shutil.disk_usage(target.parent).free):
            raise OSError(errno.EFBIG, "It is too large", str(path))
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise OSError(errno.EBUSY, "It is being written", str(path))
            copy.write(chunk)


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


def write_bytes(path: Path, data: bytes, *, shared: bool = False, mode: int = SHARED_FILE) -> None:
    """Replace a file's content atomically: readers see the old bytes or the new ones, never a mixture. A symbolic link is replaced.

    Args:
        shared: use the file mode of the user after `make_files_private` too.
        mode: of the file, before the umask of the process.

    Raises:
        OSError: the write failed. The old content is unchanged, except when only the fsync of the folder failed.
    """
    _replace(path, [data], shared=shared, mode=mode)


def write_stream(path: Path, source: BinaryIO) -> None:
    """Replace a file's content by that of an open file, atomically (see `write_bytes`), in constant memory."""
    _replace(path, iter(lambda: source.read(_CHUNK), b""))


def _replace(path: Path, parts: Iterable[bytes], *, shared: bool = False, mode: int = SHARED_FILE) -> None:
    temporary = _temporary(path)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            if shared and _user_umask is not None:
                os.fchmod(descriptor, SHARED_FILE & ~_user_umask)
            for data in parts:
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
        OSError: the file cannot be read, or is not a regular file.
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(read_regular(path))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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
