"""Processor, memory and GPU use of a run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil

from tabapp.children import descendants
from tabapp.run.events import Resources


class ResourceMeter:
    """Measures this process and its children since the last call."""

    def __init__(self, gpu: bool) -> None:
        self._gpu = gpu
        self._own = psutil.Process()
        self._seen: dict[int, float] = {}
        self._at = time.monotonic()
        self._query: subprocess.Popen[str] | None = None
        self._gpu_figures: tuple[float, int, int] | None = None
        self.measure()

    def measure(self) -> Resources:
        """The current use. Pages shared between fit processes count once per process."""
        seconds, memory, seen = 0.0, 0, dict[int, float]()
        for process in (self._own, *self._descendants()):
            with suppress(psutil.Error):
                times = process.cpu_times()
                seen[process.pid] = times.user + times.system
                seconds += max(0.0, seen[process.pid] - self._seen.get(process.pid, 0.0))
                memory += process.memory_info().rss
        now = time.monotonic()
        elapsed, self._at, self._seen = max(1e-3, now - self._at), now, seen
        self._ask_gpu()
        gpu = self._gpu_figures
        return Resources(
            cpu_percent=round(100 * seconds / elapsed, 1),
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
        if not self._gpu:
            return
        if self._query is not None and self._query.poll() is not None:
            output = self._query.communicate()[0]
            self._query = None
            with suppress(ValueError):
                percent, used, total = (float(part) for part in output.splitlines()[0].split(","))
                self._gpu_figures = percent, int(used * 2**20), int(total * 2**20)
        if self._query is None:
            fields = "utilization.gpu,memory.used,memory.total"
            try:
                self._query = subprocess.Popen(
                    ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            except OSError:
                self._gpu = False
