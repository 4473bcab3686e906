"""Decides whether a fit may start beside the fits in progress, by the memory of its device."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tabapp.engine.machine.devices import CPU, device_class

PROCESS_BYTES = 80_000_000
"""Memory that a fit process takes of its own besides the fit: what it changes in pages shared with its server."""
GPU_HOST_BYTES = 1_500_000_000
"""Memory of the machine that a process on a GPU takes besides the fit: the context and the libraries of CUDA."""
GPU_CONTEXT_BYTES = 600_000_000
"""Memory of a GPU that every process on it takes."""
LEAST_FACTOR, MOST_FACTOR = 0.25, 8.0
OUT_OF_MEMORY_FACTOR = 2.0
GIB = 2**30


@dataclass(frozen=True)
class Need:
    """Memory that a fit is expected to need, in bytes: an estimate of its model, before it is corrected by measurements."""

    model: str
    device: str
    n_bytes: int


@dataclass(frozen=True)
class Decision:
    """Whether a fit may start: now, later when others have ended, or never, for a reason that the user reads."""

    when: Literal["now", "later", "never"]
    reason: str = ""


class Admission:
    """Admits fits whose expected memory fits beside that of the fits in progress.

    Args:
        memory_limit: bytes that the whole run may use.
        gpu_bytes: memory of each GPU of the run, which takes one fit at a time; None if it is not known.
        is_pooled: fits run on several machines, whose scheduler starts each one where it fits; the limit is that of one machine.
    """

    def __init__(
        self, memory_limit: int, gpu_bytes: Mapping[str, int | None] | None = None, *, is_pooled: bool = False
    ) -> None:
        self._limit, self._is_pooled = memory_limit, is_pooled
        # A spare process has a context, too.
        self._gpu_bytes = {
            gpu: None if n_bytes is None else n_bytes - GPU_CONTEXT_BYTES for gpu, n_bytes in (gpu_bytes or {}).items()
        }
        self._factors: dict[tuple[str, str], float] = {}

    def decide(self, need: Need, running: Collection[Need], overhead: int) -> Decision:
        """Decide on a fit.

        Args:
            running: of the fits in progress.
            overhead: bytes that the engine and its servers use.
        """
        for place, size, option in self._places(need):
            alone = self._on(place, need, corrected=False)
            if alone > size:
                sizes = f"It needs about {alone / GIB:.1f} GiB of memory; {max(size, 0) / GIB:.1f} GiB"
                return Decision("never", f"{sizes} {option}.")
        if running and not self._is_pooled:
            used = sum(self._on(CPU, each) for each in running)
            if used + self._on(CPU, need) > self._limit - overhead:
                return Decision("later")
        return Decision("now")

    def _places(self, need: Need) -> Iterable[tuple[str, int, str]]:
        """The memories that a fit uses: their names, their sizes if they are known, and where a size comes from."""
        yield CPU, self._limit, "are allowed (--memory-limit)"
        if (size := self._gpu_bytes.get(need.device)) is not None:
            yield need.device, size, f"are free on {need.device}"

    def _on(self, place: str, need: Need, *, corrected: bool = True) -> float:
        """Bytes that a fit takes of a memory."""
        n_bytes = need.n_bytes * (self._factors.get(_kind(need), 1.0) if corrected else 1.0)
        if place == CPU:
            return PROCESS_BYTES + (n_bytes if need.device == CPU else GPU_HOST_BYTES)
        return GPU_CONTEXT_BYTES + n_bytes

    def record(self, need: Need, measured: int) -> None:
        """Correct later estimates of a model by the measured memory of a fit, in bytes; 0 is not measured."""
        if measured > 0 and need.n_bytes > 0:
            key = _kind(need)
            ratio = min(max(measured / need.n_bytes, LEAST_FACTOR), MOST_FACTOR)
            # The largest so far, since fits of a model differ.
            self._factors[key] = max(ratio, self._factors.get(key, 0.0))

    def record_out_of_memory(self, need: Need) -> None:
        """Expect more memory of a model whose fit ran out of it."""
        key = _kind(need)
        self._factors[key] = min(MOST_FACTOR, OUT_OF_MEMORY_FACTOR * max(1.0, self._factors.get(key, 1.0)))


def _kind(need: Need) -> tuple[str, str]:
    """What measurements of a fit apply to: its model on devices of the same class."""
    return need.model, device_class(need.device)
