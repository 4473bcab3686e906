"""Measurements at the same time, each on its own share of the processor's cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any


def run_together(jobs: Mapping[str, Callable[[], Any]], turn: int) -> Iterator[tuple[str, Any]]:
    """Run jobs at the same time in processes of their own; yields each job's name and result in their order.

    Args:
        jobs: picklable functions without arguments. Processes that they start inherit their cores.
        turn: the jobs change places with it, in case one share of the cores is slower.
    """
    shares, names = shares_of_cores(len(jobs)), list(jobs)
    with ProcessPoolExecutor(len(jobs), mp_context=get_context("spawn")) as pool:
        first = turn % len(names)
        futures = {
            name: pool.submit(_run_on, shares[place], jobs[name])
            for place, name in enumerate(names[first:] + names[:first])
        }
        for name in names:
            yield name, futures[name].result()


def run_in_turn(jobs: Mapping[str, Callable[[], Any]], n_at_once: int) -> Iterator[tuple[str, Any]]:
    """Run jobs, some of them at the same time, each on the share of the cores that is free; yields names and results as they end.

    Args:
        jobs: as for `run_together`; the first ones start first.
    """
    context = get_context("spawn")
    with context.Manager() as manager:
        free = manager.Queue()
        for share in shares_of_cores(n_at_once):
            free.put(share)
        with ProcessPoolExecutor(n_at_once, context, initializer=_take_share, initargs=(free,)) as pool:
            futures = {pool.submit(job): name for name, job in jobs.items()}
            for done in as_completed(futures):
                yield futures[done], done.result()


def shares_of_cores(n: int) -> list[list[int]]:
    """The processor's cores in equal shares."""
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // n)
    return [cores[place * share : (place + 1) * share] for place in range(n)]


def _take_share(free: Any) -> None:
    os.sched_setaffinity(0, free.get())


def _run_on(cores: Sequence[int], job: Callable[[], Any]) -> Any:
    os.sched_setaffinity(0, cores)
    return job()
