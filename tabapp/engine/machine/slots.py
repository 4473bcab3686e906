"""How many fits run at the same time on the cores and on each GPU, so that neither waits for the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tabapp.engine.machine.devices import CPU

FITS_PER_GPU = 1
"""Processes take turns on a GPU. On an H100, a step of a network takes 2.85 ± 0.17 times as long beside a second fit as alone, so
that two fits at the same time get 0.7 times as much done as one after the other (`benchmarks/results/fits_beside.json`)."""


class Slots:
    """The slots of all devices.

    A fit on a GPU needs the GPU and one core. The cores of the slots of GPUs are kept for them as long as they may get fits.

    Args:
        workers: fits at the same time on the cores if no GPU needs any.
        n_threads: of each of them.
        gpus: names of the GPUs of the run; empty without one.
        per_gpu: fits at the same time on each GPU. On a cluster, one name stands for the GPUs of all machines.
    """

    def __init__(self, workers: int, n_threads: int, gpus: Sequence[str] = (), per_gpu: int = FITS_PER_GPU) -> None:
        self._workers, self._n_threads, self.gpus, self.per_gpu = workers, n_threads, tuple(gpus), per_gpu

    @property
    def on_gpus(self) -> int:
        """Fits at the same time on all GPUs together."""
        return len(self.gpus) * self.per_gpu

    def on_cores(self, n_on_gpus: int) -> int:
        """Fits at the same time on the cores, beside so many on GPUs."""
        return max(1, self._workers - -(-n_on_gpus // self._n_threads))

    def threads(self, taken: Sequence[int]) -> int:
        """Threads of the next fit on the cores. The slots of GPUs take the cores of a fit and need one each; the others are shared.

        Args:
            taken: threads of each fit in progress on the cores.
        """
        n_fits = self.on_cores(self.on_gpus)
        if len(taken) >= n_fits:
            # No fit needs the GPUs, so that one more has their cores.
            return self._n_threads
        spare = max(0, self._workers * self._n_threads - self.on_gpus - n_fits * self._n_threads)
        left = spare - sum(max(0, n - self._n_threads) for n in taken)
        return self._n_threads + max(0, min(left, -(-spare // n_fits)))

    def of(self, device: str) -> int:
        """Fits at the same time on the devices of a class, if both classes have enough to do."""
        return self.on_cores(self.on_gpus) if device == CPU else self.on_gpus

    def free_gpus(self, devices: Sequence[str]) -> list[str]:
        """The GPUs with a free slot.

        Args:
            devices: of the fits in progress.
        """
        taken = Counter(devices)
        return [gpu for gpu in self.gpus if taken[gpu] < self.per_gpu]

    def has_free_core(self, devices: Sequence[str], *, keeps: bool) -> bool:
        """Whether another fit may start on the cores.

        Args:
            devices: of the fits in progress.
            keeps: keep the cores of the free slots of GPUs, which may get fits.
        """
        n_on_cores = devices.count(CPU)
        n_on_gpus = len(devices) - n_on_cores
        return n_on_cores < self.on_cores(max(n_on_gpus, self.on_gpus) if keeps else n_on_gpus)

    def are_full(self, devices: Sequence[str]) -> bool:
        """Whether no fit may start on any device."""
        return not self.free_gpus(devices) and not self.has_free_core(devices, keeps=False)
