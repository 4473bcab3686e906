"""The process of one fit: it sends its result as one message, and ends when the engine ends."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait

import msgspec

from tabapp.engine.jobs import Done, Failed, FitJob, Progress, encode
from tabapp.models.contract import FitStopped

PR_SET_PDEATHSIG = 1


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
    _die_with_the_engine()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.setpgid(0, 0)
    job = msgspec.json.decode(job_json, type=FitJob)

    def report(step: int, value: float) -> None:
        if connection.poll():
            raise FitStopped
        # A metric may be undefined on few rows, such as an area under a curve where one class is absent.
        if math.isfinite(value):
            connection.send_bytes(encode(Progress(fit=job.fit, step=step, value=float(value))))

    try:
        # Imported here, so that the engine, which only names this function, loads no library for features.
        from tabapp.engine.fit import run_fit

        message = Done(fit=job.fit, result=run_fit(job, report))
    except FitStopped:
        message = Failed(fit=job.fit, reason="stopped", stopped=True)
    except MemoryError:
        message = Failed(fit=job.fit, reason="out of memory", detail=traceback.format_exc())
    except Exception as error:
        sentence = " ".join(str(error).split()) or type(error).__name__
        message = Failed(fit=job.fit, reason=f"{type(error).__name__}: {sentence[:200]}", detail=traceback.format_exc())
    with suppress(OSError):
        connection.send_bytes(encode(message))
        connection.close()
