"""Fit servers: processes that import libraries once, and from which a fit is forked in milliseconds.

There are three, because a run should not wait for libraries that its first fits do not use. The boosters are imported in less than
a second without the packages that they use only if installed; scikit-learn takes longer than that, and torch twice as long.

`multiprocessing` keeps one server for all contexts; here each set of libraries has an instance of the same class.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Collection
from multiprocessing import forkserver, popen_forkserver, reduction, spawn, util
from multiprocessing.context import ForkServerProcess, set_spawning_popen
from typing import TYPE_CHECKING, Any

from tabapp.engine.machine.devices import available_cores

if TYPE_CHECKING:
    from tabapp.models.stated import Libraries

FEW_CORES = 4
"""With more cores, servers start at the same time."""


class FitServer:
    """A server that has one set of libraries loaded.

    Args:
        libraries: names its preload module.
    """

    def __init__(self, libraries: Libraries) -> None:
        self._libraries: Libraries = libraries
        self._server = forkserver.ForkServer()
        self._server.set_forkserver_preload([f"tabapp.engine.fit.preload_{libraries}"])
        self._ready = threading.Event()
        self._watch: threading.Thread | None = None

    @property
    def is_started(self) -> bool:
        """Whether the server loads its libraries, or has loaded them."""
        return self._watch is not None

    @property
    def is_ready(self) -> bool:
        """Whether the libraries are loaded, so that a fit starts without delay."""
        return self._ready.is_set()

    def start(self) -> None:
        """Start the server and its imports in the background; a second call does nothing."""
        if self._watch is None:
            self._server.ensure_running()
            self._watch = threading.Thread(target=self._wait_until_ready, daemon=True)
            self._watch.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Start the server and wait until it is ready; returns whether it is."""
        self.start()
        return self._ready.wait(seconds)

    def fork(self, fds: list[int]) -> tuple[int, int]:
        """Ask for a process; returns descriptors: to read its id and exit code from, and to write its data to."""
        return self._server.connect_to_new_process(fds)

    def stop(self) -> None:
        """Stop a server that is ready and has no fit; it starts again when it is needed."""
        if self._watch is not None:
            self._watch.join()
            # multiprocessing has no public name for it.
            self._server._stop()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            self._watch = None
            self._ready.clear()

    def _wait_until_ready(self) -> None:
        try:
            process = FitProcess(self._libraries, _nothing)
            process.start()
            process.join()
        finally:
            # If the server died, the next fit starts it again and reports what is wrong.
            self._ready.set()


SERVERS: dict[Libraries, FitServer] = {
    "boosters": FitServer("boosters"),
    "trees": FitServer("trees"),
    "torch": FitServer("torch"),
}


def start_first(models: Collection[str]) -> None:
    """Start the server that the first fits of a run need; on many cores also the others, which take no time from it there.

    Args:
        models: those that the user chose; none means all.
    """
    SERVERS[_needed(models)[0]].start()
    if available_cores() > FEW_CORES:
        start_all(models)


def start_all(models: Collection[str]) -> None:
    """Start the servers that the fits of these models, or of all, may need beside the first."""
    for libraries in _needed(models):
        if libraries != "boosters":
            SERVERS[libraries].start()


def _needed(models: Collection[str]) -> list[Libraries]:
    if not models:
        return list(SERVERS)
    # Imported here: without a choice of models, the first server starts sooner.
    from tabapp.models.stated import stated_libraries

    needed = set(map(stated_libraries, models))
    return [libraries for libraries in SERVERS if libraries in needed]


def stop_all() -> None:
    """Stop all servers, whose libraries take memory that a process without fits does not need."""
    for server in SERVERS.values():
        server.stop()


class FitProcess(ForkServerProcess):
    """A process forked from the server that has its libraries."""

    def __init__(
        self, libraries: Libraries, target: Callable[..., object], args: tuple[Any, ...] = (), name: str | None = None
    ) -> None:
        super().__init__(target=target, args=args, name=name)
        self.libraries: Libraries = libraries

    def start(self) -> None:
        """Start the process, once its server is ready. Any thread may call it, and the exit of the engine does not wait for it.

        The method of the base class does more: it polls all other processes, which their own threads do at the same time.
        """
        self._popen = ServerPopen(self)
        self._sentinel = self._popen.sentinel

    @staticmethod
    def _Popen(process_obj: Any) -> ServerPopen:  # noqa: N802 (a name of multiprocessing)
        return ServerPopen(process_obj)


class ServerPopen(popen_forkserver.Popen):
    """As the class of `multiprocessing`, whose `_launch` asks the global server."""

    _fds: list[int]

    def _launch(self, process_obj: FitProcess) -> None:
        content = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(spawn.get_preparation_data(process_obj.name), content)
            reduction.dump(process_obj, content)
        finally:
            set_spawning_popen(None)
        self.sentinel, writer = SERVERS[process_obj.libraries].fork(self._fds)
        # A copy of the pipe's end stays open as long as this process lives: the fit watches it.
        self.finalizer = util.Finalize(self, _close, (os.dup(writer), self.sentinel))
        with open(writer, "wb", closefd=True) as pipe:
            pipe.write(content.getbuffer())
        self.pid = forkserver.read_signed(self.sentinel)


def _nothing() -> None:
    """The target of a process that ends at once."""


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
