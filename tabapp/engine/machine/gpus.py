"""The GPUs that share the fits of a run: all visible ones, unless the user names one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tabapp.engine.machine.devices import CPU
from tabapp.models.devices import n_gpus


def further_gpus(wanted: str, device: str) -> tuple[str, ...]:
    """The GPUs of this machine that take fits beside the device of a run.

    Args:
        wanted: the device that the user chose.
    """
    if device == CPU or ":" in wanted:
        return ()
    return tuple(gpu for gpu in (f"cuda:{i}" for i in range(n_gpus())) if gpu != device)


def gpu_memories(gpus: Sequence[str], ask: Callable[[str], int | None]) -> dict[str, int | None]:
    """Bytes that fits may use on each GPU, None if they are not known.

    Args:
        ask: returns those of one GPU. It starts a process, so that all GPUs are asked for at the same time.
    """
    if not gpus:
        return {}
    with ThreadPoolExecutor(len(gpus)) as pool:
        return dict(zip(gpus, pool.map(ask, gpus), strict=True))
