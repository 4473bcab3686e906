"""Measurements at the same time, each on its own share of the processor's cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any


def run_together(jobs: Mapping[str, Callable[[], Any]], turn: int) -> Iterator[tuple[str, Any]]:
    """Run jobs at the same time in processes of their own; yields each job's name and result in their order.

    Args:
        jobs: picklable functions without arguments. Processes that they start inherit their cores.
        turn: the jobs change places with it, in case one share of the cores is slower.
    """
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // len(jobs))
    names = list(jobs)
    with ProcessPoolExecutor(len(jobs), mp_context=get_context("spawn")) as pool:
        first = turn % len(names)
        futures = {
            name: pool.submit(_run_on, cores[place * share : (place + 1) * share], jobs[name])
            for place, name in enumerate(names[first:] + names[:first])
        }
        for name in names:
            yield name, futures[name].result()


def _run_on(cores: list[int], job: Callable[[], Any]) -> Any:
    os.sched_setaffinity(0, cores)
    return job()
