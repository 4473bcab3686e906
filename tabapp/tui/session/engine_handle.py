"""The engine as the screen knows it: a process that it started, or one elsewhere that holds the run."""

from __future__ import annotations

from subprocess import Popen

from tabapp.run.client import start_detached_engine
from tabapp.run.folder import RunFolder


class EngineHandle:
    """Starts the engine of a run, and tells whether one is at work."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._process: Popen[bytes] | None = None

    def start(self) -> None:
        """Start an engine that goes on when the screen is gone.

        Raises:
            OSError: the system has no room for another process.
        """
        self._process = start_detached_engine(self._folder)

    @property
    def return_code(self) -> int | None:
        """How the process that was started here ended; None while it lives, and for one elsewhere."""
        return self._process.poll() if self._process is not None else None

    @property
    def is_ours(self) -> bool:
        """Whether an engine that was started here is at work."""
        return self._process is not None and self._process.poll() is None

    def is_alive(self) -> bool:
        """Whether any engine is at work on the run."""
        return self.is_ours if self._process is not None else self._folder.is_running()

    def terminate(self) -> None:
        """End the process that was started here, if it is still there."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
