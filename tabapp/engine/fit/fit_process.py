"""The process of one fit: it sends its result as one message, and ends when the engine ends."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait

import msgspec

from tabapp.engine.fit.jobs import Done, Failed, FitJob, Progress, encode
from tabapp.models.contract import FitStopped

WarmUp = Callable[[str, Callable[[], bool]], None]

PR_SET_PDEATHSIG = 1
OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "bad_alloc", "ALLOC_FAILED")
"""In messages of torch, XGBoost and cuBLAS."""


def _die_with_the_engine() -> None:
    """End this process when the engine ends: by a signal of the kernel on Linux, elsewhere by watching the engine."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    engine = parent_process()
    if engine is None:
        return

    def watch() -> None:
        wait([engine.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def fit_process(job_json: bytes, connection: Connection) -> None:
    """Entry point of a fit process: run the job and report over the connection; silent when the engine is gone."""
    _detach()
    _run(job_json, connection)


def spare_process(warm_up: WarmUp, device: str, connection: Connection) -> None:
    """Entry point of a spare process: warm up, then wait for a job, and run it as a fit process does.

    Args:
        warm_up: receives the device, and a function that returns whether the job has arrived. If it fails, the process ends.
    """
    _detach()
    warm_up(device, connection.poll)
    with suppress(EOFError, OSError):
        _run(connection.recv_bytes(), connection)


def _detach() -> None:
    """Make the process end with the engine, and leave interrupts of the terminal to the engine."""
    _die_with_the_engine()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.setpgid(0, 0)


def _run(job_json: bytes, connection: Connection) -> None:
    job = msgspec.json.decode(job_json, type=FitJob)

    def report(fit: str, step: int, value: float) -> None:
        if connection.poll():
            raise FitStopped
        # A metric may be undefined on few rows, such as an area under a curve where one class is absent.
        if math.isfinite(value):
            connection.send_bytes(encode(Progress(fit=fit, step=step, value=float(value))))

    message = result_of(job, report)
    with suppress(OSError):
        connection.send_bytes(encode(message))
        connection.close()


def result_of(job: FitJob, report: Callable[[str, int, float], None]) -> Done | Failed:
    """Run a fit, or a group; an error becomes a message.

    Args:
        report: receives the id of a fit, a step and a score.
    """
    try:
        # Imported here, so that the engine, which only names this function, loads no library for features.
        from tabapp.engine.fit.run_fit import run_fit

        first, *others = run_fit(job, report)
        return Done(fit=job.fit, result=first, others=tuple(others))
    except FitStopped:
        return Failed(fit=job.fit, reason="stopped", stopped=True)
    except Exception as error:
        if is_out_of_memory(error):
            return Failed(fit=job.fit, reason="out of memory", detail=traceback.format_exc(), out_of_memory=True)
        sentence = " ".join(str(error).split()) or type(error).__name__
        return Failed(fit=job.fit, reason=f"{type(error).__name__}: {sentence[:200]}", detail=traceback.format_exc())


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of any library means that memory is exhausted; imports none of them."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(part in str(error) for part in OUT_OF_MEMORY)
