"""Forked processes, in which polars may wait forever for threads that only the parent has."""

from __future__ import annotations

import os
import sys
from threading import Thread

from tabapp.errors import UsageError

_PATIENCE = 10.0
"""Seconds after which polars counts as waiting forever; it otherwise answers within milliseconds."""

_works: dict[int, bool] = {}
"""Whether polars answers, by process id: a fork inherits the entry of its parent."""


def check_process(patience: float = _PATIENCE) -> None:
    """Check once for each process that polars answers.

    Args:
        patience: seconds to wait for an answer.

    Raises:
        UsageError: it waits for threads that were lost in a fork.
    """
    if "polars" not in sys.modules:
        # Its threads start in this process.
        return
    pid = os.getpid()
    if pid not in _works:
        probe = Thread(target=_use_threads, daemon=True)
        probe.start()
        probe.join(patience)
        _works[pid] = not probe.is_alive()
    if not _works[pid]:
        raise UsageError(
            "This process was forked from one that had used polars, whose threads it lacks, so it would wait forever. Start it "
            'with multiprocessing.get_context("forkserver") or "spawn".'
        )


def _use_threads() -> None:
    import polars as pl

    # The calling thread evaluates a single expression by itself.
    pl.select(a=0, b=1)
