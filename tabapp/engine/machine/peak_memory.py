"""Peak memory of the current process."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"


def reset_peak() -> int:
    """Start measuring the peak, where the system can; returns the bytes in memory now."""
    with suppress(OSError):
        CLEAR.write_text(RESET_PEAK)
    return _status("VmRSS:") or peak()


def peak() -> int:
    """The most bytes in memory since `reset_peak`, or since the process started."""
    if n_bytes := _status("VmHWM:"):
        return n_bytes
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _status(name: str) -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in STATUS.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def reset_gpu_peak(device: str) -> None:
    """Start measuring the peak of a GPU, if the device is one and the process uses torch."""
    if device.startswith("cuda") and "torch" in sys.modules:
        import torch

        # The allocator rejects every device until CUDA is initialized, which the first tensor on it would do.
        torch.cuda.init()
        torch.cuda.reset_peak_memory_stats(device)


def gpu_peak(device: str) -> int:
    """The most bytes of a GPU that torch has reserved in this process since `reset_gpu_peak`; 0 if the device is no GPU, or the
    process does not use torch: importing it would take longer than the fit of a booster."""
    if not device.startswith("cuda") or "torch" not in sys.modules:
        return 0
    import torch

    return torch.cuda.max_memory_reserved(device)
