"""Devices of fits. A trial belongs to a class of devices, since a model chooses its hyperparameters for a CPU or for a GPU."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabapp.models.contract import Plugin, Shape, Task

CPU, GPU = "cpu", "cuda"
"""The classes of devices."""
QUERY_SECONDS = 20.0
FREE_SHARE = 0.95
"""Share of a GPU's free memory for fits: every process also holds a context and code of the libraries."""


def available_cores() -> int:
    """Number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def device_class(device: str) -> str:
    """ "cpu" or "cuda", without the number of the device."""
    return device.partition(":")[0]


def device_for(plugin: Plugin, task: Task, shape: Shape, device: str) -> str:
    """The device of the fits of a model on such a table: that of the run, if the plugin uses it there, or the CPU.

    Args:
        device: the device of the run.
    """
    return device if device != CPU and plugin.device_for(task, shape, device) == device else CPU


def name_in_driver(device: str) -> str:
    """The name that `nvidia-smi` has for a GPU, which counts those that are not visible, too."""
    number = int(device.partition(":")[2] or 0)
    visible = [part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]
    return visible[number] if number < len(visible) else str(number)


def gpu_memory(device: str) -> int | None:
    """Bytes of a GPU that fits may use, or None if they are not known.

    Asks `nvidia-smi`, since the engine never initializes CUDA.
    """
    command = [
        "nvidia-smi",
        f"--id={name_in_driver(device)}",
        "--query-gpu=memory.free",
        "--format=csv,noheader,nounits",
    ]
    with suppress(OSError, ValueError, IndexError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_SECONDS, check=True)
        return int(FREE_SHARE * float(done.stdout.splitlines()[0]) * 2**20)
    return None
