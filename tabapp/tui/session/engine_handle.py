"""The engine process of a run, started by this app or by another process."""

from __future__ import annotations

from subprocess import Popen

from tabapp.run.protocol.client import start_detached_engine
from tabapp.run.record.folder import RunFolder


class EngineHandle:
    """Starts the engine of a run and reports whether one is running."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._process: Popen[bytes] | None = None

    def start(self) -> None:
        """Start an engine that outlives the app.

        Raises:
            OSError: the process cannot be created.
        """
        self._process = start_detached_engine(self._folder)

    @property
    def return_code(self) -> int | None:
        """Exit status of the process started here; None while it runs, or if the engine was started elsewhere."""
        return self._process.poll() if self._process is not None else None

    @property
    def is_ours(self) -> bool:
        """Whether an engine started here is running."""
        return self._process is not None and self._process.poll() is None

    def is_alive(self) -> bool:
        """Whether any engine is running for the run."""
        return self.is_ours if self._process is not None else self._folder.is_running()

    def terminate(self) -> None:
        """Terminate the process started here, if it is still running."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
