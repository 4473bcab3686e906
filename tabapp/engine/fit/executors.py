"""Where fits run. The engine uses the `Executor` protocol; processes on one machine are the implementation."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Protocol

import msgspec
import psutil

from tabapp.engine.fit.fit_process import fit_process
from tabapp.engine.fit.jobs import Failed, FitJob, Message, Progress, decode
from tabapp.engine.fit.servers import SERVERS, FitProcess
from tabapp.engine.fit.spares import SPARES, Spares
from tabapp.engine.machine.devices import CPU
from tabapp.models.stated import Libraries

GRACE_SECONDS = 3.0
MEMORY_CHECK_SECONDS = 0.5
OVERHEAD_SECONDS = 30.0
USED_SHARE = 0.97
"""Share of the memory limit from which the largest fit is stopped: fits grow between two checks, and the command that started the
engine is not counted. On 2,000,000 rows of 50 columns with a limit of 8 GiB, all processes had 8.1 GiB without it."""
TOGETHER_SECONDS = 0.03


class Executor(Protocol):
    """Runs fits. A fit ends with exactly one `Done` or `Failed` message, whatever happens to it.

    Attributes:
        waits_for_memory: fits that it accepts wait by themselves until a machine has memory and a device for them.
    """

    waits_for_memory: bool

    def prepare(self, libraries: Libraries) -> None:
        """Start loading the libraries of fits in the background; a second call does nothing."""
        ...

    def is_ready(self, libraries: Libraries) -> bool:
        """Whether those libraries are loaded."""
        ...

    def submit(self, job: FitJob) -> int:
        """Start a fit; returns its process id, or 0 if unknown."""
        ...

    def poll(self) -> list[Message]:
        """Messages since the last call, in order for each fit. Never blocks."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait until a fit may have sent a message, but no longer than that."""
        ...

    def cancel(self, fit: str) -> None:
        """Ask a fit to stop; it is killed if it does not within a grace period."""
        ...

    def kill(self, fit: str) -> None:
        """Kill a fit."""
        ...

    def running(self) -> list[str]:
        """Ids of the fits in progress."""
        ...

    def overhead(self) -> int:
        """Bytes of memory that the engine and its servers use."""
        ...

    def close(self) -> None:
        """Kill all fits and release their resources."""
        ...


@dataclass
class _Fit:
    process: FitProcess
    connection: Connection
    kill_at: float | None = None
    ended: bool = False
    cause: str | None = None
    messages: list[Message] = field(default_factory=list[Message])


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            name = signal.Signals(-code).name
            crashed = (
                " (it crashed inside a library)" if name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE") else ""
            )
            likely = " (likely out of memory)" if name == "SIGKILL" else crashed
            return f"its process was killed by {name}{likely}"
    return f"its process exited with code {code} without a result"


def _resident(process: psutil.Process) -> int:
    """Bytes of a process in memory, shared pages included; 0 if it has ended."""
    with suppress(psutil.Error):
        return process.memory_info().rss
    return 0


def _proportional(process: psutil.Process) -> int:
    """Bytes of a process in memory, its part of shared pages included; all of them where the system does not report it."""
    with suppress(psutil.Error, AttributeError):
        return int(process.memory_full_info().pss)
    return _resident(process)


class LocalExecutor:
    """Fit processes forked from servers that have the heavy libraries loaded.

    Args:
        memory_limit: bytes that the engine and all fits together may use; above it the largest fit is killed.
        device: the device of networks; a spare process is kept for a GPU.
        spares: keeps it.
        further_gpus: other GPUs, for each of which a spare process is kept.
    """

    waits_for_memory = False

    def __init__(
        self, memory_limit: int, device: str = CPU, spares: Spares = SPARES, further_gpus: Sequence[str] = ()
    ) -> None:
        self._fits: dict[str, _Fit] = {}
        self._gpus, self._spares = () if device == CPU else (device, *further_gpus), spares
        if device == CPU:
            # The run may have started one before its plan was made.
            spares.stop()
        self._memory_limit = memory_limit
        self._memory_checked = 0.0
        self._overhead, self._overhead_at = 0, -math.inf

    def prepare(self, libraries: Libraries) -> None:
        SERVERS[libraries].start()
        for gpu in self._gpus if libraries == "torch" else ():
            self._spares.keep(gpu)

    def is_ready(self, libraries: Libraries) -> bool:
        return SERVERS[libraries].is_ready

    def submit(self, job: FitJob) -> int:
        job_json = msgspec.json.encode(job)
        spare = self._spares.hand_over(job_json, job.device) if job.libraries == "torch" else None
        if spare is not None:
            self._fits[job.fit] = _Fit(spare.process, spare.connection)
            return spare.process.pid or 0
        ours, theirs = Pipe(duplex=True)
        process = FitProcess(job.libraries, fit_process, (job_json, theirs), job.fit)
        process.start()
        theirs.close()
        self._fits[job.fit] = _Fit(process, ours)
        return process.pid or 0

    def poll(self) -> list[Message]:
        now = time.monotonic()
        self._watch_memory(now)
        messages: list[Message] = []
        for name, fit in list(self._fits.items()):
            self._read(fit)
            if fit.kill_at is not None and now > fit.kill_at:
                self.kill(name)
            if not fit.ended and not fit.process.is_alive():
                self._read(fit)
                if not fit.ended:
                    reason = fit.cause or _describe_exit(fit.process.exitcode)
                    died = fit.cause is None
                    stopped, out_of_memory = fit.kill_at is not None, fit.cause is not None
                    fit.messages.append(
                        Failed(fit=name, reason=reason, stopped=stopped, died=died, out_of_memory=out_of_memory)
                    )
                    fit.ended = True
            messages += fit.messages
            fit.messages = []
            if fit.ended:
                self._release(name)
        return messages

    def wait(self, seconds: float) -> None:
        # Several messages that arrive within a short time are handled together.
        together = min(seconds, TOGETHER_SECONDS)
        time.sleep(together)
        if seconds > together and self._fits:
            sources = [each for fit in self._fits.values() for each in (fit.connection, fit.process.sentinel)]
            wait(sources, seconds - together)

    def cancel(self, fit: str) -> None:
        running = self._fits.get(fit)
        if running is None or running.kill_at is not None:
            return
        running.kill_at = time.monotonic() + GRACE_SECONDS
        with suppress(OSError):
            running.connection.send_bytes(b"stop")

    def kill(self, fit: str) -> None:
        running = self._fits.get(fit)
        if running is None or running.process.pid is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.kill()

    def running(self) -> list[str]:
        return list(self._fits)

    def close(self) -> None:
        self._spares.stop()
        for name in list(self._fits):
            self.kill(name)
            self._release(name)

    def _read(self, fit: _Fit) -> None:
        with suppress(EOFError, OSError):
            while not fit.ended and fit.connection.poll():
                message = decode(fit.connection.recv_bytes())
                if not isinstance(message, Progress):
                    fit.ended = True
                fit.messages.append(message)

    def _release(self, name: str) -> None:
        fit = self._fits.pop(name)
        fit.connection.close()
        fit.process.join(GRACE_SECONDS)
        if fit.process.is_alive():
            fit.process.kill()
            fit.process.join()

    def _watch_memory(self, now: float) -> None:
        if now - self._memory_checked < MEMORY_CHECK_SECONDS:
            return
        self._memory_checked = now
        processes: dict[str, psutil.Process] = {}
        for name, fit in self._fits.items():
            with suppress(psutil.Error):
                processes[name] = psutil.Process(fit.process.pid)
        if not processes:
            return
        # Pages that processes share count several times here, so that the exact sizes are rarely needed.
        most = USED_SHARE * self._memory_limit
        if sum(map(_resident, processes.values())) + self.overhead() <= most:
            return
        held = {name: _proportional(process) for name, process in processes.items()}
        if sum(held.values()) + self.overhead(fresh=True) > most:
            largest = max(held, key=lambda name: held[name])
            limit = self._memory_limit / 2**30
            self._fits[largest].cause = f"out of memory: the run may use {limit:.1f} GiB (--memory-limit)"
            self.kill(largest)

    def overhead(self, *, fresh: bool = False) -> int:
        now = time.monotonic()
        if fresh or now - self._overhead_at > OVERHEAD_SECONDS:
            engine = psutil.Process()
            with suppress(psutil.Error):
                # The servers are children of the engine; the fits are children of the servers.
                self._overhead = sum(map(_proportional, (engine, *engine.children())))
            for pid in self._spares.pids():
                with suppress(psutil.Error):
                    self._overhead += _proportional(psutil.Process(pid))
            self._overhead_at = now
        return self._overhead
