"""Growing CatBoost's trees on a GPU, where the library has no callbacks: the deadline is kept by planning the number of trees."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from tabapp.models.contract import FitContext

GPU_RAM_PART = 0.3
"""Share of a GPU's free memory that a fit reserves for itself. The library's 0.95 leaves nothing to fits beside it."""
PILOT_TREES = 20
"""Trees that are grown to measure the seconds of a tree."""
USED_SHARE = 0.7
"""Share of the time left for which trees are planned, since other fits may slow a tree down."""


class Stamps:
    """A stream for the library's log that records when each tree was grown.

    Attributes:
        seconds: of the monotonic clock, one for each tree.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def write(self, text: str) -> int:
        """Record the time if the text begins with the number of a tree and a colon."""
        if text.partition(":")[0].strip().isdigit():
            self.seconds.append(time.monotonic())
        return len(text)

    def flush(self) -> None:
        """Do nothing."""

    def trees_in(self, seconds: float, started: float, n_trees: int) -> int:
        """Number of trees that a fit like the one with these stamps, which has just ended, grows in some seconds; at least one.

        Args:
            started: when that fit started; until its first tree, it prepared the rows.
            n_trees: that it has grown.
        """
        # Without stamps, the preparation counts as growing.
        first, last, n_grown = started, time.monotonic(), n_trees
        if len(self.seconds) > 1:
            first, last, n_grown = self.seconds[0], self.seconds[-1], len(self.seconds) - 1
        each = max(1e-6, (last - first) / max(1, n_grown))
        return max(1, 1 + int((seconds - (first - started)) / each))


def gpu_settings(loss: str, patience: int | None, context: FitContext) -> dict[str, Any]:
    """The library's parameters with which a fit on a GPU is like one on a CPU.

    Args:
        patience: trees without improvement on the early-stopping rows, if there are any.
    """
    settings: dict[str, Any] = {
        "task_type": "GPU",
        "devices": context.device.partition(":")[2] or "0",
        "gpu_ram_part": GPU_RAM_PART,
        # By default, a GPU uses ordered boosting, and gradient steps for absolute errors.
        "boosting_type": "Plain",
    }
    if patience is not None:
        settings |= {"od_type": "Iter", "od_wait": patience}
    if loss == "MAE":
        settings |= {"leaf_estimation_method": "Exact", "leaf_estimation_iterations": 1}
    return settings


def grown_in_time(grow: Callable[[int, Stamps | None], Any], n_trees: int, context: FitContext) -> Any:
    """A booster of at most `n_trees` trees, fewer if a pilot of a few trees shows that the deadline would be missed.

    Args:
        grow: trains a booster of a number of trees, and writes the log of the library to the stream.
    """
    if context.seconds_left() == math.inf:
        return grow(n_trees, None)
    n_pilot = 1 if context.seconds_left() <= 0 else min(n_trees, PILOT_TREES)
    stamps, started = Stamps(), time.monotonic()
    pilot = grow(n_pilot, stamps)
    planned = min(n_trees, stamps.trees_in(USED_SHARE * context.seconds_left(), started, n_pilot))
    return pilot if planned <= n_pilot else grow(planned, None)
