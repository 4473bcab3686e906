"""Jobs in worker processes that end after a time. What they have found is recorded at once, so that the next call continues."""

from __future__ import annotations

import argparse
import gc
import json
import math
import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.machine import Results

END_SECONDS = 5.0
"""Time for a worker to end before it is killed."""
WAIT_SECONDS = 3600.0
"""Maximum time to wait for results at once: the system's call has no infinite time."""


@dataclass(frozen=True)
class Job:
    """A generator function of a module, which yields results, and its arguments."""

    key: str
    function: Callable[..., Iterator[Any]]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Message:
    """What a worker sends: a result, or the end of a job with its error."""

    result: Any = None
    is_end: bool = False
    error: str = ""


def _work(connection: Connection) -> None:
    while (job := connection.recv()) is not None:
        error = ""
        try:
            for result in job.function(*job.arguments):
                connection.send(_Message(result))
        except Exception:
            error = traceback.format_exc(limit=-4)
        # Objects of a fit refer to each other, and would keep the memory of a GPU.
        gc.collect()
        connection.send(_Message(is_end=True, error=error))


class _Worker:
    """A process that does one job after the other, so that libraries are loaded and a GPU is initialized once."""

    def __init__(self, context: multiprocessing.context.ForkServerContext) -> None:
        self.connection, other = context.Pipe()
        self.process: ForkServerProcess = context.Process(target=_work, args=(other,), daemon=True)
        self.process.start()
        # Otherwise the death of the process would not end the connection.
        other.close()
        self.job: Job | None = None

    def start(self, job: Job) -> None:
        self.job = job
        self.connection.send(job)

    def end(self) -> None:
        self.process.terminate()
        self.process.join(END_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()


def earlier_results(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The raw results that a call with the same settings has written; empty without any.

    Raises:
        SystemExit: the settings were others.
    """
    if not path.is_file():
        return {}
    found = msgspec.json.decode(path.read_bytes(), type=Results).results
    if not isinstance(found, dict) or "settings" not in found:
        return {}
    if found["settings"] != settings:
        raise SystemExit(f"{path} has results of {found['settings']}, not of {settings}. Choose another --out.")
    return found


def run_jobs(
    following: Callable[[Collection[str]], Job | None],
    record: Callable[[str, Any], None],
    *,
    processes: int,
    seconds: float,
    preload: Sequence[str],
) -> bool:
    """Do jobs until there are none, or until the time is over, which ends the jobs in flight.

    A job that fails is reported and not repeated in this call.

    Args:
        following: the next job, given the keys of those in flight or failed; None if there is none now.
        record: receives each result, with the key of its job, as soon as it is there.
        processes: maximum number of jobs at a time.
        preload: modules of the jobs, which are loaded once for all processes.

    Returns:
        Whether all jobs were done.
    """
    deadline = time.monotonic() + seconds
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    workers: list[_Worker] = []
    failed: set[str] = set()
    try:
        while True:
            busy = [worker for worker in workers if worker.job is not None]
            taken = failed | {worker.job.key for worker in busy if worker.job is not None}
            if len(busy) < processes and (job := following(taken)) is not None:
                idle = next((worker for worker in workers if worker.job is None), None)
                if idle is None:
                    workers.append(idle := _Worker(context))
                idle.start(job)
                continue
            if not busy:
                return not failed
            by_connection: dict[Any, _Worker] = {worker.connection: worker for worker in busy}
            for connection in wait(
                list(by_connection), timeout=min(max(0.0, deadline - time.monotonic()), WAIT_SECONDS)
            ):
                worker = by_connection[connection]
                assert worker.job is not None
                try:
                    message: _Message = worker.connection.recv()
                except (EOFError, OSError):
                    message = _Message(is_end=True, error="the process has died")
                    workers.remove(worker)
                    worker.end()
                if not message.is_end:
                    record(worker.job.key, message.result)
                    continue
                if message.error:
                    print(f"{worker.job.key} failed: {message.error}", file=sys.stderr, flush=True)
                    failed.add(worker.job.key)
                worker.job = None
            if time.monotonic() >= deadline:
                return False
    finally:
        for worker in workers:
            worker.end()


def add_call_options(parser: argparse.ArgumentParser) -> None:
    """The options of scripts whose other `--seconds` are of one fit."""
    parser.add_argument("--total-seconds", type=float, default=math.inf, help="time after which the call ends")
    parser.add_argument("--processes", type=int, default=1, help="fits at the same time")


def run_cells(
    jobs: Sequence[Job],
    cells: dict[str, Any],
    write: Callable[[], None],
    *,
    processes: int,
    seconds: float,
    preload: Sequence[str],
) -> bool:
    """`run_jobs` for jobs with one result each, which do not depend on each other.

    Args:
        cells: the results by the key of the job; those that are there are not computed again.
        write: called after each new result.
    """

    def following(taken: Collection[str]) -> Job | None:
        return next((job for job in jobs if job.key not in cells and job.key not in taken), None)

    def record(key: str, result: Any) -> None:
        cells[key] = result
        print(f"{key}: {json.dumps(result)}", file=sys.stderr, flush=True)
        write()

    return run_jobs(following, record, processes=processes, seconds=seconds, preload=preload)
