"""Memory of networks: how many rows to compute at once, and errors that mean that the memory is exhausted."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

MOST_ROWS = 8192
PREDICTION_BYTES = {"cpu": 2**27, "cuda": 2**30}
"""Memory of the values that a network computes for one chunk of rows in a prediction."""
STEP_BYTES = {"cpu": 2**30, "cuda": 2**33}
"""Memory of the values that a training step keeps for the gradient, and of their gradients."""
SMALL_CELLS = 2**14
"""Chunks of at most this many cells are not measured: no network of this project needs 100 MB for them."""
PROBED_ROWS = (2, 6)
GRADIENT_FACTOR = 1.5
"""Ratio of the memory of a training step and of all values that a prediction computes."""
LEAST_STEP_ROWS = 16

_MESSAGES = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "bad_alloc")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory is exhausted. torch reports that of a CPU as a plain RuntimeError."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(part in str(error) for part in _MESSAGES)


@dataclass(frozen=True)
class RowBytes:
    """Memory that a network needs for each row of a prediction.

    Attributes:
        peak: bytes alive at the same time.
        total: bytes of all values together, which a training step keeps for the gradient.
    """

    peak: float
    total: float


class _Allocations(TorchDispatchMode):
    """Counts the bytes of the tensors that operations create, and the most that were alive at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.peak = self._live = 0
        self._known: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would import its compiler, which takes seconds.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        inputs = {id(arg.untyped_storage()) for arg in args if isinstance(arg, Tensor)}
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if id(storage) not in inputs and id(storage) not in self._known:
                    self._count(storage)
        return result

    def _count(self, storage: Any) -> None:
        n_bytes, key = storage.nbytes(), id(storage)
        self.total += n_bytes
        self._live += n_bytes
        self.peak = max(self.peak, self._live)
        self._known.add(key)
        weakref.finalize(storage, self._free, key, n_bytes).atexit = False

    def _free(self, key: int, n_bytes: int) -> None:
        self._known.discard(key)
        self._live -= n_bytes


_measured: weakref.WeakKeyDictionary[nn.Module, dict[bool, RowBytes]] = weakref.WeakKeyDictionary()


def row_bytes(network: nn.Module, numeric: Tensor, categorical: Tensor) -> RowBytes:
    """Memory of each row of a prediction, measured once by predicting a few rows.

    Nothing random is drawn and no statistics change, since the network is in evaluation mode.

    Args:
        numeric, categorical: at least as many rows as `PROBED_ROWS`.
    """
    known = _measured.setdefault(network, {})
    autocast = torch.is_autocast_enabled(numeric.device.type)
    if autocast not in known:
        was_training = network.training
        network.eval()
        try:
            seen: list[_Allocations] = []
            # Not in inference mode, which hides the parts of composed operations.
            with torch.no_grad():
                for n_rows in PROBED_ROWS:
                    with _Allocations() as allocations:
                        network(numeric[:n_rows], categorical[:n_rows])
                    seen.append(allocations)
        finally:
            network.train(was_training)
        few, more = seen
        n_more = PROBED_ROWS[1] - PROBED_ROWS[0]
        known[autocast] = RowBytes((more.peak - few.peak) / n_more, (more.total - few.total) / n_more)
    return known[autocast]


def _is_small(network: nn.Module, numeric: Tensor, categorical: Tensor, n_rows: int) -> bool:
    """Whether so many rows certainly fit, or the network itself limits its memory."""
    n_cells = min(n_rows, len(numeric)) * (numeric.shape[1] + categorical.shape[1])
    return n_cells <= SMALL_CELLS or len(numeric) < PROBED_ROWS[1] or getattr(network, "limits_its_memory", False)


def prediction_rows(network: nn.Module, numeric: Tensor, categorical: Tensor) -> int:
    """Rows to predict at once, so that they take at most `PREDICTION_BYTES`; at least one."""
    if _is_small(network, numeric, categorical, MOST_ROWS):
        return MOST_ROWS
    each = row_bytes(network, numeric, categorical).peak
    return max(1, min(MOST_ROWS, int(PREDICTION_BYTES[numeric.device.type] / max(each, 1))))


def step_rows(network: nn.Module, numeric: Tensor, categorical: Tensor, batch_size: int) -> int:
    """Rows of a batch whose gradients to compute at once, so that they take at most `STEP_BYTES`."""
    if _is_small(network, numeric, categorical, batch_size):
        return batch_size
    each = GRADIENT_FACTOR * row_bytes(network, numeric, categorical).total
    return max(LEAST_STEP_ROWS, min(batch_size, int(STEP_BYTES[numeric.device.type] / max(each, 1))))
