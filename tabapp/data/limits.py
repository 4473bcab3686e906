"""Bound the memory that reading a table may take, and turn panics of polars into errors.

A failed allocation in polars ends the process, so the need is estimated before polars allocates.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from polars.exceptions import PanicException

from tabapp.errors import DataError, TooLargeError, option

DEFAULT_SHARE = 0.8
"""Share of the available memory that reading may use without `--max-memory`."""

CELL = 24
"""Bytes per cell of a text column: a view of 16 bytes, its null bit, and the copies of one column at a time."""

PYTHON_CELL = 72
"""Bytes per cell of a row that the csv module parses: a string of a few characters and its place in the row."""

LONGEST_CELL = 16 << 20
"""Longest text of a cell in bytes. Profiling a longer one takes more than a few seconds, and no model uses it."""

_NO_MEMORY = "Cannot allocate memory"
_CGROUP = Path("/sys/fs/cgroup")
_STDERR = 2
_LOCK = threading.Lock()


@dataclass(frozen=True)
class MemoryLimit:
    """The bytes that reading one file may use.

    Attributes:
        path: the file, for messages.
        n_bytes: the limit.
        copies: bytes of memory per byte of the decompressed table: its buffers, and what is made of them.
    """

    path: Path
    n_bytes: int
    copies: int = 2

    def require(self, needed: float) -> None:
        """Raise if a step of reading needs more than the limit.

        Raises:
            TooLargeError: names the file, the need and the limit.
        """
        if needed > self.n_bytes:
            raise TooLargeError(
                f"{self.path}: needs about {needed / 2**30:,.1f} GiB of memory to read, and {self.n_bytes / 2**30:,.1f} GiB "
                f"may be used. Give fewer rows or columns, or raise {option('max_memory')}."
            )

    def require_cell(self, n_bytes: int, column: str) -> None:
        """Raise if the longest text of a column is too long.

        Raises:
            TooLargeError: names the file, the column and the length.
        """
        if n_bytes > LONGEST_CELL:
            raise TooLargeError(
                f"{self.path}: column {column!r} has a text of {n_bytes / 2**20:,.1f} MiB; at most {LONGEST_CELL >> 20} MiB "
                "are possible. Shorten it, or leave the column out."
            )


def memory_limit(path: Path, max_memory: int | None) -> MemoryLimit:
    """The limit for a file: `max_memory` bytes, or a share of the memory that is available now."""
    return MemoryLimit(path, int(DEFAULT_SHARE * available_memory()) if max_memory is None else max_memory)


def available_memory() -> int:
    """Bytes that this process may still allocate: free memory, within its address space and its control group."""
    free = [psutil.virtual_memory().available]
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            free.append(soft - psutil.Process().memory_info().vms)
    with suppress(OSError, ValueError):
        limit = int((_CGROUP / "memory.max").read_text())
        free.append(limit - int((_CGROUP / "memory.current").read_text()))
    return max(0, min(free))


@contextmanager
def panics_as_errors(message: str) -> Generator[None]:
    """Raise a panic of polars as a `DataError`, and keep its report off stderr.

    A panic derives from `BaseException`, and polars writes its report to the file descriptor before it raises.
    """
    with _LOCK:
        saved = _redirect_stderr()
        try:
            yield
        except PanicException as error:
            first = str(error).partition("\n")[0][:160]
            if _NO_MEMORY in first:
                raise TooLargeError(
                    "The table needs more memory than may be used. Give fewer rows or columns."
                ) from None
            raise DataError(f"{message} ({first})") from None
        finally:
            if saved is not None:
                os.dup2(saved, _STDERR)
                os.close(saved)


def _redirect_stderr() -> int | None:
    """Point stderr to the null device; returns a duplicate of the former one, or None if there is none or nothing may be opened."""
    try:
        saved = os.dup(_STDERR)
    except OSError:
        return None
    try:
        null = os.open(os.devnull, os.O_WRONLY)
    except OSError:
        os.close(saved)
        return None
    os.dup2(null, _STDERR)
    os.close(null)
    return saved
