"""Processor, memory and GPU use of a run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import psutil

from tabapp.children import descendants
from tabapp.engine.machine.devices import name_in_driver
from tabapp.run.record.events import Resources


class ResourceMeter:
    """Measures this process and its children since the last call.

    Args:
        gpus: names of the GPUs to measure: their mean utilization, and the sums of their memory.
    """

    def __init__(self, gpus: Sequence[str] = ()) -> None:
        self._gpus = [name_in_driver(gpu) for gpu in gpus]
        self._own = psutil.Process()
        self._seconds = 0.0
        self._at = time.monotonic()
        self._query: subprocess.Popen[str] | None = None
        self._gpu_figures: tuple[float, int, int] | None = None
        self.measure()

    def measure(self) -> Resources:
        """The current use. Pages shared between fit processes count once per process."""
        seconds, memory = 0.0, 0
        for process in (self._own, *self._descendants()):
            with suppress(psutil.Error):
                times = process.cpu_times()
                # The children that have ended count by their parents: many fits take less time than a measurement waits.
                seconds += times.user + times.system + times.children_user + times.children_system
                memory += process.memory_info().rss
        now = time.monotonic()
        elapsed, self._at = max(1e-3, now - self._at), now
        used, self._seconds = max(0.0, seconds - self._seconds), seconds
        self._ask_gpu()
        gpu = self._gpu_figures
        return Resources(
            cpu_percent=round(100 * used / elapsed, 1),
            memory=memory,
            memory_total=psutil.virtual_memory().total,
            gpu_percent=gpu[0] if gpu else None,
            gpu_memory=gpu[1] if gpu else None,
            gpu_memory_total=gpu[2] if gpu else None,
        )

    def _descendants(self) -> Iterator[psutil.Process]:
        pids = descendants(self._own.pid)
        if pids is None:
            with suppress(psutil.Error):
                yield from self._own.children(recursive=True)
        for pid in pids or ():
            with suppress(psutil.Error):
                yield psutil.Process(pid)

    def _ask_gpu(self) -> None:
        """Start `nvidia-smi` without waiting for it; the next measurement uses its output."""
        if not self._gpus:
            return
        if self._query is not None and self._query.poll() is not None:
            output = self._query.communicate()[0]
            self._query = None
            with suppress(ValueError):
                lines = [[float(part) for part in line.split(",")] for line in output.splitlines()]
                percent, used, total = (sum(parts) for parts in zip(*lines, strict=True))
                self._gpu_figures = percent / len(lines), int(used * 2**20), int(total * 2**20)
        if self._query is None:
            query = "--query-gpu=utilization.gpu,memory.used,memory.total", "--format=csv,noheader,nounits"
            try:
                self._query = subprocess.Popen(
                    ["nvidia-smi", f"--id={','.join(self._gpus)}", *query],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            except OSError:
                self._gpus = []
