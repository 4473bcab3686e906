"""How much longer than its processor time the engine takes, because other programs use the processors."""

from __future__ import annotations

import os
import time
from pathlib import Path

_SCHEDULER = Path("/proc/self/schedstat")
"""Nanoseconds that the main thread ran and that it waited for a processor (Linux, Documentation/scheduler/sched-stats)."""
_START_FIELD = 21
"""Of `/proc/self/stat`: when the process started, in clock ticks since boot (proc_pid_stat(5), field 22)."""
_LEAST_SECONDS = 0.02
"""Shorter processor times say little: a processor is shared in parts of a few milliseconds."""
MOST = 20.0
"""Largest slowdown that is reported; it multiplies times that are reserved."""


def process_age() -> float:
    """Seconds since this process was started; 0 where the system does not say."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[_START_FIELD - 2])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


class Contention:
    """Measures the slowdown of the main thread since the object was made, or since its process started.

    Args:
        since_start: include all that the process has done so far, such as its imports.
    """

    def __init__(self, *, since_start: bool = False) -> None:
        self._ran, self._waited = (0.0, 0.0) if since_start else _times()

    def slowdown(self) -> float:
        """Elapsed seconds for each second of processor time, sleep not counted; 1 on an idle machine or if it is unknown."""
        ran, waited = _times()
        ran, waited = ran - self._ran, waited - self._waited
        return min(MOST, 1.0 + max(0.0, waited) / ran) if ran >= _LEAST_SECONDS else 1.0


def _times() -> tuple[float, float]:
    """Seconds that the main thread ran and that it waited for a processor; zeros where the system does not say."""
    try:
        ran, waited = _SCHEDULER.read_text().split()[:2]
        return int(ran) / 1e9, int(waited) / 1e9
    except (OSError, ValueError):
        return 0.0, 0.0
