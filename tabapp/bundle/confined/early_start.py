"""Starts the process of a bundle's models before the bundle is read, so that both import what they need at the same time."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from tabapp.bundle.confined.box_process import BoxProcess
from tabapp.bundle.files.unpack import temporary_folder


class EarlyProcess:
    """A process for a bundle. A `Box` may take it; otherwise it ends with the block.

    Args:
        path: the bundle, which is not read.
        device: the device of the networks: "cpu", "cuda" or "cuda:N".
    """

    def __init__(self, path: Path, device: str) -> None:
        self._path, self._device = path, device
        with ExitStack() as stack:
            self._process: BoxProcess | None = BoxProcess(str(path), stack.enter_context(temporary_folder()), device)
            self._stack = stack.pop_all()

    def __enter__(self) -> EarlyProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.close()
        self._stack.close()

    def take(self, path: Path, device: str, stack: ExitStack) -> BoxProcess | None:
        """The process, if it is for this bundle and device and was not taken yet.

        Args:
            stack: receives the folder of the process, whose owner the caller becomes.
        """
        process = self._process if (path, device) == (self._path, self._device) else None
        if process is not None:
            self._process = None
            stack.push(self._stack.pop_all())
        return process
