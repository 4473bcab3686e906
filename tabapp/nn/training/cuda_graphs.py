"""Training steps as CUDA graphs.

A step of a network on a table of usual size consists of a hundred or more short operations, and the host takes longer to start them
than the GPU to compute them. A graph records the operations of a step once and starts all of them with one call
(https://pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

EAGER_STEPS = 3
"""Steps of a number of rows before its graph is recorded: they create the optimizer's state and constants of the network."""
STEPS_AHEAD, SECONDS_AHEAD = 32, 0.1
"""Most steps, and about the most seconds of steps, that the host starts before it waits for those before them, so that it notices
the deadline in time."""


def can_record(device: torch.device) -> bool:
    """Whether steps on a device can be recorded. Numbers that change between steps are then tensors."""
    return device.type == "cuda"


def steps_ahead(n_steps: int, seconds: float) -> int:
    """Steps that the host may start before it waits again.

    Args:
        n_steps: those before the last wait.
        seconds: that they took.
    """
    most = int(SECONDS_AHEAD * n_steps / max(seconds, 1e-9))
    return max(1, min(STEPS_AHEAD, 2 * n_steps, most))


def is_recording(device: torch.device) -> bool:
    """Whether operations on the device are recorded instead of computed."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


@dataclass(frozen=True)
class _Recorded:
    """A graph, and the tensor from which it reads the rows of its step."""

    graph: torch.cuda.CUDAGraph
    rows: Tensor


class GraphedSteps:
    """Training steps that are recorded on the GPU after the first few and then repeated.

    Every step must start the same operations on the same tensors. Numbers that change between steps are tensors on the device; the
    learning rates of the optimizer become such tensors. If a step cannot be recorded, all steps stay eager.

    Args:
        take: take one step on the (batch,) indices of some training rows, or on another tensor that differs between steps.
        device: a GPU.
        optimizer: an optimizer of torch with a fused implementation; None if `take` has no such optimizer.
        generators: generators of the device from which steps draw, besides torch's default one.
    """

    def __init__(
        self,
        take: Callable[[Tensor], None],
        device: torch.device,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        generators: Sequence[torch.Generator] = (),
    ) -> None:
        self._take, self._device = take, device
        self._optimizer, self._generators = optimizer, generators
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()
        self._recorded: dict[int, _Recorded] = {}
        self._n_seen = Counter[int]()
        self._n_replayed = self._n_waited = 0
        self._ahead, self._waited_at = 1, time.monotonic()
        self._reached = torch.cuda.Event()
        self.is_possible = True
        self._rates: list[Tensor] = []
        for group in self._groups():
            group["capturable"] = True
            self._rates.append(torch.tensor(float(group["lr"]), device=device))

    def __call__(self, rows: Tensor) -> None:
        """Take one step, after the optimizer's learning rates are set. Steps with the same length of `rows` share a recording.

        Raises:
            torch.OutOfMemoryError: an eager step does not fit in memory.
        """
        self._move_rates()
        n = len(rows)
        if n not in self._recorded:
            self._n_seen[n] += 1
            if not self.is_possible or self._n_seen[n] <= EAGER_STEPS or not self._record(rows):
                self._take_eagerly(rows)
                return
        recorded = self._recorded[n]
        recorded.rows.copy_(rows)
        recorded.graph.replay()
        self._n_replayed += 1
        if self._n_replayed - self._n_waited >= self._ahead:
            self._wait()

    @property
    def n_replayed(self) -> int:
        """Number of steps that were started as a graph."""
        return self._n_replayed

    def _wait(self) -> None:
        """Wait for the steps before the last ones."""
        self._reached.synchronize()
        self._reached.record(torch.cuda.current_stream(self._device))
        now = time.monotonic()
        self._ahead = steps_ahead(self._n_replayed - self._n_waited, now - self._waited_at)
        self._n_waited, self._waited_at = self._n_replayed, now

    def _groups(self) -> list[dict[str, Any]]:
        return [] if self._optimizer is None else self._optimizer.param_groups

    def _move_rates(self) -> None:
        """Write learning rates that a schedule or a checkpoint has set into the tensors that the graphs read."""
        for group, rate in zip(self._groups(), self._rates, strict=True):
            if group["lr"] is not rate:
                rate.fill_(group["lr"])
                group["lr"] = rate

    def _take_eagerly(self, rows: Tensor) -> None:
        # On the stream of the graphs, as torch asks for steps before a recording.
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            self._take(rows)
        current.wait_stream(self._stream)

    def _record(self, rows: Tensor) -> bool:
        """Record the step for a number of rows without taking it; False if that is not possible."""
        graph, kept = torch.cuda.CUDAGraph(), rows.clone()
        for generator in self._generators:
            graph.register_generator_state(generator)
        try:
            # Other threads of the process may use the GPU meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                self._take(kept)
        except RuntimeError as error:
            # Operations that cannot be recorded raise it, and so does exhausted memory.
            print(f"A training step cannot be recorded: {error}", file=sys.stderr)
            self.is_possible = False
            self._recorded.clear()
            # torch leaves its generators in the state of a recording, in which they refuse to draw.
            for generator in (torch.cuda.default_generators[rows.device.index], *self._generators):
                generator.graphsafe_set_state(generator.clone_state())
            return False
        self._recorded[len(rows)] = _Recorded(graph, kept)
        return True
