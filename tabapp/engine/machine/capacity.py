"""The machine, or the cluster, that a run uses: its cores and its memory."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from tabapp.engine.machine.devices import available_cores
from tabapp.run.options.config import RunConfig


@dataclass(frozen=True)
class Machines:
    """The machines of a cluster.

    Attributes:
        cores: of all of them.
        gpus: of all of them.
        largest_cores, largest_memory: of the largest one, which bounds a fit; bytes.
    """

    cores: int
    gpus: int
    largest_cores: int
    largest_memory: int


def memory_limit_of(config: RunConfig, machines: Machines | None = None) -> int:
    """Bytes that the run may use, or one fit of it on a cluster: as requested, or most of what there is."""
    if machines is not None:
        return config.memory_limit or machines.largest_memory
    return config.memory_limit or int(0.9 * psutil.virtual_memory().available)


def share_cores(config: RunConfig, machines: Machines | None = None) -> tuple[int, int]:
    """Number of parallel fits and threads per fit: one fit per core up to four cores, beyond that four threads per fit.

    Parallel fits use cores better than threads within a fit do, until memory bandwidth and the number of candidates limit them.
    """
    cores = available_cores() if machines is None else machines.cores
    workers = config.workers or (cores if cores <= 4 else max(4, cores // 4))
    n_threads = max(1, cores // workers)
    return workers, n_threads if machines is None else min(n_threads, max(1, machines.largest_cores))
