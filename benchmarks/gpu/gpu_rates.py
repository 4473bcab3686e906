"""What a GPU can do at most, measured, and where the time of a step goes."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

REPEATS = 20


@dataclass(frozen=True)
class Rates:
    """Operations per second of a large bfloat16 matrix product, and bytes per second, read plus written, of a large copy."""

    flops: float
    bandwidth: float

    def floor(self, flops: float, n_bytes: float) -> tuple[float, float]:
        """Least seconds for the operations, and for the bytes."""
        return flops / self.flops, n_bytes / self.bandwidth


def seconds_on_gpu(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median time of a call on the GPU, after three that are not counted."""
    times: list[float] = []
    for i in range(repeats + 3):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        call()
        events[1].record()
        events[1].synchronize()
        if i >= 3:
            times.append(events[0].elapsed_time(events[1]) / 1e3)
    return statistics.median(times)


def measured_rates(device: torch.device) -> Rates:
    """Of random factors: zeros multiply faster."""
    size = 8192
    a, b = (torch.randn(size, size, dtype=torch.bfloat16, device=device) for _ in range(2))
    flops = 2 * size**3 / seconds_on_gpu(lambda: a @ b)
    source = torch.randn(2**29, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return Rates(flops, 2 * source.nbytes / seconds_on_gpu(lambda: target.copy_(source)))


def kernels_of(step: Callable[[], None], n_steps: int = 5) -> list[tuple[str, float, float]]:
    """Name, starts per step and seconds per step of every kernel of a step, slowest first."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(n_steps):
            step()
        torch.cuda.synchronize()
    found: defaultdict[str, list[float]] = defaultdict(list)
    for event in profiler.events() or ():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            found[event.name].append(event.time_range.elapsed_us() / 1e6)
    return sorted(
        ((name, len(times) / n_steps, sum(times) / n_steps) for name, times in found.items()), key=lambda x: -x[2]
    )
