"""How many fits run at the same time on the cores and on each GPU, so that neither waits for the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tabapp.engine.machine.devices import CPU

FIRST_SLOTS, MOST_SLOTS = 2, 4
"""Fits on a GPU at the same time: while one starts its process or saves its model, another computes. The number grows from the
first to the second value while all slots are taken and the GPU is not busy. Processes take turns on a busy GPU, so that more of
them gain nothing."""
BUSY_PERCENT, N_MEASUREMENTS = 70.0, 5
"""Another slot is added if so many measurements in a row have a mean utilization below the first value."""


class Slots:
    """The slots of all devices.

    A fit on a GPU needs the GPU and one core. The cores of the slots of GPUs are kept for them as long as they may get fits.

    Args:
        workers: fits at the same time on the cores if no GPU needs any.
        n_threads: of each of them.
        gpus: names of the GPUs of the run; empty without one.
        per_gpu: fits at the same time on each GPU, to begin with.
        may_grow: whether the number of slots depends on the utilization of the GPUs.
    """

    def __init__(
        self,
        workers: int,
        n_threads: int,
        gpus: Sequence[str] = (),
        per_gpu: int = FIRST_SLOTS,
        *,
        may_grow: bool = True,
    ) -> None:
        self._workers, self._n_threads, self.gpus = workers, n_threads, tuple(gpus)
        # Fits on GPUs take at most half of the cores.
        most = max(1, workers * n_threads // (2 * len(self.gpus))) if self.gpus and may_grow else per_gpu
        self.per_gpu = min(per_gpu, most)
        self._most = min(MOST_SLOTS, most) if may_grow else per_gpu
        self._utilization: list[float] = []

    @property
    def on_gpus(self) -> int:
        """Fits at the same time on all GPUs together."""
        return len(self.gpus) * self.per_gpu

    def on_cores(self, n_on_gpus: int) -> int:
        """Fits at the same time on the cores, beside so many on GPUs."""
        return max(1, self._workers - -(-n_on_gpus // self._n_threads))

    def of(self, device: str) -> int:
        """Fits at the same time on the devices of a class, if both classes have enough to do."""
        return self.on_cores(self.on_gpus) if device == CPU else self.on_gpus

    def free_gpus(self, devices: Sequence[str]) -> list[str]:
        """The GPUs with a free slot, those with the fewest fits first.

        Args:
            devices: of the fits in progress.
        """
        taken = Counter(devices)
        return sorted((gpu for gpu in self.gpus if taken[gpu] < self.per_gpu), key=lambda gpu: taken[gpu])

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

    def measured(self, percent: float, devices: Sequence[str]) -> None:
        """Add a slot to each GPU if they are not busy although all of their slots are taken.

        Args:
            percent: mean utilization of the GPUs.
            devices: of the fits in progress.
        """
        if not self.gpus or self.free_gpus(devices):
            self._utilization.clear()
            return
        self._utilization.append(percent)
        if len(self._utilization) < N_MEASUREMENTS:
            return
        if sum(self._utilization) < BUSY_PERCENT * N_MEASUREMENTS and self.per_gpu < self._most:
            self.per_gpu += 1
        self._utilization.clear()
