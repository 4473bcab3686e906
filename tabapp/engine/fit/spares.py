"""Spare processes: fit processes that start before their jobs, so that a fit does not wait for its GPU.

No process may initialize CUDA before it is forked. So every fit process creates a context of its own, loads kernels, and creates
the handles of cuBLAS, which takes longer than many fits. A spare has done so when its job arrives, or does the rest of it then.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from tabapp.engine.fit.fit_process import WarmUp, spare_process
from tabapp.engine.fit.servers import SERVERS, FitProcess
from tabapp.engine.machine.devices import CPU
from tabapp.engine.machine.warm_up import warm_up
from tabapp.errors import UsageError
from tabapp.models.devices import existing_gpu, has_driver

END_SECONDS = 3.0


@dataclass(frozen=True)
class Spare:
    """A process, and the connection over which it receives its job."""

    process: FitProcess
    connection: Connection

    def end(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        self.process.join(END_SECONDS)
        self.connection.close()


class Spares:
    """Keeps a spare process for each device that asks for one. A device whose spare fails gets no other.

    Args:
        warm_up: what a spare does before it waits for its job.
    """

    def __init__(self, warm_up: WarmUp = warm_up) -> None:
        self._warm_up = warm_up
        self._lock = threading.Lock()
        self._wanted, self._failed = set[str](), set[str]()
        self._spares: dict[str, Spare] = {}

    def keep(self, device: str) -> None:
        """Keep a spare for a device from when the server of networks is ready; a second call does nothing."""
        with self._lock:
            if device in self._wanted | self._failed:
                return
            self._wanted.add(device)
        threading.Thread(target=self._add_when_ready, args=(device,), daemon=True).start()

    def hand_over(self, job_json: bytes, device: str) -> Spare | None:
        """Give a job to the spare of its device, which is replaced at once; None if there is no spare that works."""
        with self._lock:
            spare = self._spares.pop(device, None)
            if spare is None:
                return None
            if spare.process.is_alive():
                with suppress(OSError):
                    spare.connection.send_bytes(job_json)
                    self._add(device)
                    return spare
            spare.end()
            self._wanted.discard(device)
            self._failed.add(device)
            return None

    def pids(self) -> list[int]:
        """Process ids of the spares that wait for a job."""
        with self._lock:
            return [spare.process.pid or 0 for spare in self._spares.values() if spare.process.is_alive()]

    def stop(self) -> None:
        """End all spares; `keep` starts new ones."""
        with self._lock:
            self._wanted.clear()
            for spare in self._spares.values():
                spare.end()
            self._spares.clear()

    def _add_when_ready(self, device: str) -> None:
        SERVERS["torch"].wait()
        with self._lock:
            if device in self._wanted and device not in self._spares:
                self._add(device)

    def _add(self, device: str) -> None:
        ours, theirs = Pipe(duplex=True)
        process = FitProcess("torch", spare_process, (self._warm_up, device, theirs), f"spare-{device}")
        # Without a server there is no spare: the next fit starts the server again, or reports what is wrong.
        with theirs, suppress(OSError, EOFError):
            process.start()
            self._spares[device] = Spare(process, ours)
            return
        ours.close()


SPARES = Spares()


def start_spare(wanted: str) -> None:
    """Keep a spare from the start of a run, in the background: the driver takes a while to report its GPUs."""
    threading.Thread(target=keep_spare, args=(wanted,), daemon=True).start()


def keep_spare(wanted: str) -> None:
    """Keep a spare for the GPU of a run, if there is one, and the server of networks has been started.

    Args:
        wanted: the device that the user chose.
    """
    if wanted != CPU and SERVERS["torch"].is_started and has_driver():
        # The plan reports a device that does not exist.
        with suppress(UsageError):
            SPARES.keep(existing_gpu("cuda" if wanted == "auto" else wanted))
