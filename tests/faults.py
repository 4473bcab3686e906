"""Fault injection: the n-th durable operation fails, as on a full or broken disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from types import TracebackType

import pytest

from tabapp import files


class FailingOperations:
    """Inside this context, the n-th write, fsync or rename raises ENOSPC. A failing write writes half of its data first.

    Args:
        n: the operation that fails, counted from 1; 0 for none.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
        self._monkeypatch = monkeypatch
        self._n = n
        self.calls = 0

    @property
    def failed(self) -> bool:
        """Whether the operation was reached."""
        return 0 < self._n <= self.calls

    def _should_fail(self) -> bool:
        self.calls += 1
        return self.calls == self._n

    def _write(self, descriptor: int, data: bytes) -> int:
        if self._should_fail():
            os.write(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data)

    def _fsync(self, descriptor: int) -> None:
        if self._should_fail():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)

    def _rename(self, old: os.PathLike[str], new: os.PathLike[str]) -> None:
        if self._should_fail():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.replace(old, new)

    def __enter__(self) -> FailingOperations:
        self._context = self._monkeypatch.context()
        patch = self._context.__enter__()
        patch.setattr(files, "operations", files.Operations(self._write, self._fsync, self._rename))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.__exit__(kind, error, trace)

    @classmethod
    def count(cls, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
        """Number of durable operations of a function."""
        with cls(monkeypatch, 0) as counted:
            work()
        return counted.calls
