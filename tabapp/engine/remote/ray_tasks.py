"""What runs on the nodes of a Ray cluster: fits, checks of the shared storage, and the mailbox of a run's messages.

Only paths and small messages travel. This module is imported by Ray's workers, so it imports neither features nor models.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

import tabapp
from tabapp.engine.fit.jobs import FitJob, Progress, Started, encode

BEAT_SECONDS = 1.0
REPLY_SECONDS = 10.0


class Mailbox:
    """Messages of fits to the engine, signs of life, and requests to stop; an actor of Ray.

    Its clock alone measures how long fits have been silent and how long they may take: clocks of nodes differ.
    """

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._beats: dict[str, float] = {}
        self._limits: dict[str, tuple[float, float]] = {}
        self._stopped: set[str] = set()

    def expect(self, fit: str, seconds: float | None, seconds_left: float | None) -> None:
        """A fit is submitted that may take some seconds once it begins, but must end within `seconds_left` from now."""
        if seconds is not None and seconds_left is not None:
            self._limits[fit] = seconds, time.monotonic() + seconds_left

    def begin(self, message: bytes, fit: str) -> float | None:
        """A fit begins; returns the seconds that it has left, or None without a limit."""
        self._messages.append(message)
        self._beats[fit] = time.monotonic()
        limits = self._limits.get(fit)
        return None if limits is None else min(limits[0], limits[1] - time.monotonic())

    def post(self, message: bytes) -> None:
        """Pass a message to the engine."""
        self._messages.append(message)

    def beat(self, fit: str) -> bool:
        """A fit is alive; returns whether it should stop."""
        self._beats[fit] = time.monotonic()
        return fit in self._stopped

    def stop(self, fit: str) -> None:
        """Ask a fit to stop."""
        self._stopped.add(fit)

    def forget(self, fit: str) -> None:
        """Forget a fit that has ended."""
        self._beats.pop(fit, None)
        self._limits.pop(fit, None)
        self._stopped.discard(fit)

    def collect(self) -> tuple[list[bytes], dict[str, float]]:
        """The messages since the last call, and the seconds since the last sign of life of each fit that has begun."""
        messages, self._messages = self._messages, []
        now = time.monotonic()
        return messages, {fit: now - at for fit, at in self._beats.items()}


def fit_on_node(job_json: bytes, mailbox: Any) -> bytes:
    """Run a fit on the node of this process; its result or its error is the returned message."""
    from tabapp.engine.fit.fit_process import result_of
    from tabapp.models.contract import FitStopped

    # Not an `import`: the extra is optional, also for the type checker.
    ray: Any = import_module("ray")
    job = msgspec.json.decode(job_json, type=FitJob)
    started = encode(Started(fit=job.fit, node=socket.gethostname(), pid=os.getpid()))
    seconds: Any = ray.get(mailbox.begin.remote(started, job.fit))
    deadline = None if seconds is None else time.monotonic() + seconds
    job = msgspec.structs.replace(job, soft_deadline=deadline)
    stopped, ended = threading.Event(), threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            with suppress(Exception):
                if ray.get(mailbox.beat.remote(job.fit), timeout=REPLY_SECONDS):
                    stopped.set()

    def report(fit: str, step: int, value: float) -> None:
        if stopped.is_set():
            raise FitStopped
        if value == value and abs(value) != float("inf"):
            mailbox.post.remote(encode(Progress(fit=fit, step=step, value=float(value))))

    threading.Thread(target=beat, daemon=True).start()
    try:
        return encode(result_of(job, report))
    finally:
        ended.set()


def read_back(path: str) -> tuple[str, str]:
    """The content of a file, or the reason why this node cannot read it as a sentence, and the version of tabapp here."""
    try:
        return Path(path).read_text(), tabapp.__version__
    except OSError as error:
        return f"{type(error).__name__}: {error.strerror}", tabapp.__version__
