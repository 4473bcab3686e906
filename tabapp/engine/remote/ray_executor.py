"""Fits on a Ray cluster, for runs that outgrow one machine. Needs the optional extra `tabapp[ray]`.

The run folder is on storage that all nodes share; a fit gets its path and returns a small message. Ray never repeats a fit: the
engine does, which alone knows the trials. Ray may stall without an error, so fits send signs of life of their own.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import msgspec

from tabapp.engine.fit.jobs import Done, Failed, FitJob, Message, Started, decode
from tabapp.engine.remote import ray_tasks
from tabapp.engine.remote.ray_cluster import Cluster
from tabapp.models.stated import Libraries

POLL_SECONDS = 0.1
SILENT_SECONDS = 30.0
"""A fit without a sign of life for so long is given up, with the node it runs on."""
STALLED_SECONDS = 120.0
"""A cluster that does not answer for so long is given up with all of its fits."""
GRACE_SECONDS = 5.0
GPU_SHARE = 1.0
HEAD, HEAD_SHARE = "node:__internal_head__", 0.001
"""Ray's own resource of the head node, and what the mailbox takes of it."""


@dataclass
class _Fit:
    reference: Any
    kill_at: float | None = None
    has_begun: bool = False


class RayExecutor:
    """Runs fits as tasks of a Ray cluster; see `Executor`.

    A thread talks to the cluster, so that a cluster that stalls does not stop the engine.

    Args:
        cluster: an open connection, which `close` closes.
    """

    waits_for_memory = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        # On the head node, without which there is no cluster: elsewhere, a run would not survive the loss of its node.
        mailbox = self._ray.remote(num_cpus=0, max_restarts=0, resources={HEAD: HEAD_SHARE})(ray_tasks.Mailbox)
        self._mailbox: Any = mailbox.remote()
        # The process ends with the fit, which frees its memory. A fit that is lost is submitted again by the engine.
        self._task: Any = self._ray.remote(max_calls=1, max_retries=0)(ray_tasks.fit_on_node)
        self._lock = threading.Lock()
        self._fits: dict[str, _Fit] = {}
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._answered = time.monotonic()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def prepare(self, libraries: Libraries) -> None:
        """Nothing: Ray starts a process for each fit."""

    def is_ready(self, libraries: Libraries) -> bool:
        return True

    def submit(self, job: FitJob) -> int:
        on_gpu = job.device.startswith("cuda")
        now = time.monotonic()
        seconds = None if job.soft_deadline is None else job.soft_deadline - now
        left = seconds if job.latest_end is None else job.latest_end - now
        # Ray shows a fit only the GPU that it gets.
        job = msgspec.structs.replace(
            job, soft_deadline=None, latest_end=None, device="cuda:0" if on_gpu else job.device
        )
        self._mailbox.expect.remote(job.fit, seconds, left)
        task = self._task.options(
            num_cpus=1 if on_gpu else job.n_threads,
            num_gpus=GPU_SHARE if on_gpu else 0,
            memory=None if on_gpu or not job.n_bytes else job.n_bytes,
            name=job.fit,
        )
        reference = task.remote(msgspec.json.encode(job), self._mailbox)
        with self._lock:
            self._fits[job.fit] = _Fit(reference)
        return 0

    def poll(self) -> list[Message]:
        messages: list[Message] = []
        with suppress(queue.Empty):
            while True:
                messages.append(self._messages.get_nowait())
        if time.monotonic() - self._answered > STALLED_SECONDS:
            reason = f"the Ray cluster has not answered for {STALLED_SECONDS:.0f} s"
            with self._lock:
                lost, self._fits = list(self._fits), {}
            messages += [Failed(fit=fit, reason=reason, died=True, lost=True) for fit in lost]
            self._answered = time.monotonic()
        return messages

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, POLL_SECONDS))

    def cancel(self, fit: str) -> None:
        with self._lock:
            running = self._fits.get(fit)
            if running is None or running.kill_at is not None:
                return
            running.kill_at = time.monotonic() + GRACE_SECONDS
        self._mailbox.stop.remote(fit)

    def kill(self, fit: str) -> None:
        with self._lock:
            running = self._fits.get(fit)
        if running is not None:
            with suppress(Exception):
                self._ray.cancel(running.reference, force=True)

    def running(self) -> list[str]:
        with self._lock:
            return list(self._fits)

    def overhead(self) -> int:
        """0: nodes have memory of their own, which Ray divides among fits."""
        return 0

    def close(self) -> None:
        self._closed.set()
        for fit in self.running():
            self.kill(fit)
        self._thread.join(GRACE_SECONDS)
        self._cluster.close()

    def _follow(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            # Errors of the connection end in silence, which `poll` reports.
            with suppress(Exception):
                self._exchange()
                self._answered = time.monotonic()

    def _exchange(self) -> None:
        """Pass on what fits have sent, and find those that have ended or are silent."""
        sent, silence = self._ray.get(self._mailbox.collect.remote(), timeout=SILENT_SECONDS)
        with self._lock:
            fits = dict(self._fits)
        for content in sent:
            message = decode(content)
            if message.fit in fits:
                fits[message.fit].has_begun |= isinstance(message, Started)
                self._messages.put(message)
        references = [fit.reference for fit in fits.values()]
        done: set[Any] = set()
        if references:
            done = set(self._ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)[0])
        now = time.monotonic()
        for name, fit in fits.items():
            if fit.reference in done:
                self._end(name, self._result(name, fit))
            elif fit.kill_at is not None and (now > fit.kill_at or not fit.has_begun):
                self.kill(name)
                self._end(name, Failed(fit=name, reason="stopped", stopped=True))
            elif silence.get(name, 0.0) > SILENT_SECONDS:
                self.kill(name)
                reason = f"its node has been silent for {SILENT_SECONDS:.0f} s"
                self._end(name, Failed(fit=name, reason=reason, died=True, lost=True))

    def _end(self, name: str, message: Message) -> None:
        with self._lock:
            self._fits.pop(name, None)
        self._mailbox.forget.remote(name)
        self._messages.put(message)

    def _result(self, name: str, fit: _Fit) -> Message:
        """The message of a fit whose task has ended."""
        exceptions: Any = import_module("ray.exceptions")
        stopped = fit.kill_at is not None
        try:
            message = decode(self._ray.get(fit.reference, timeout=SILENT_SECONDS))
        except exceptions.TaskCancelledError:
            return Failed(fit=name, reason="stopped", stopped=True)
        except exceptions.OutOfMemoryError:
            reason = "out of memory: its node killed it"
            return Failed(fit=name, reason=reason, stopped=stopped, out_of_memory=True)
        except (exceptions.NodeDiedError, exceptions.ObjectLostError, exceptions.OwnerDiedError):
            return Failed(fit=name, reason="its node was lost", stopped=stopped, died=True, lost=True)
        except exceptions.WorkerCrashedError:
            # Ray raises it for a process that died, and also for one whose node died.
            return Failed(fit=name, reason="its process or its node died", stopped=stopped, died=True, lost=True)
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[-1][:160]
            return Failed(fit=name, reason=f"{type(error).__name__}: {first}", stopped=stopped)
        if isinstance(message, Done | Failed):
            return message
        return Failed(fit=name, reason="its result is not valid")
