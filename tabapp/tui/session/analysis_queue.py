"""The analyses that the user has asked for: they run one after the other, each in a process of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tabapp.errors import TabappError
from tabapp.run.protocol.analyses import Diagnose, analyze_in_background
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import analysis_of, any_result, title_of_request
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.folder import EventLog, RunFolder
from tabapp.run.record.state import RunState

LOOK_AGAIN_SECONDS = 0.5
"""Time between two looks at whether another process has left the run."""


class Owner(Protocol):
    """The app, as far as the queue needs it."""

    @property
    def whole_state(self) -> RunState: ...
    def run_worker(self, work: Any, *, exit_on_error: bool = ...) -> Any: ...
    def notify(self, message: str, *, title: str = ..., severity: Any = ..., timeout: float | None = ...) -> None: ...


@dataclass
class Job:
    """An analysis that was asked for.

    Attributes:
        status: "failed" jobs stay until they are removed or asked for again.
        trouble: why a failed job has no result.
    """

    number: int
    folder: RunFolder
    request: Diagnose
    status: Literal["queued", "running", "failed"] = "queued"
    trouble: str = ""

    @property
    def title(self) -> str:
        """The analysis with its value in words."""
        return title_of_request(self.request.option, self.request.value)


class AnalysisQueue:
    """Runs analyses one after the other, whichever screen is shown. They wait while another process works on the run.

    Attributes:
        jobs: those that are not done, in their order; failed ones are kept.
        ended: the number of analyses that have ended, so that a view knows when to read the results of a target again.
    """

    def __init__(self, app: Owner) -> None:
        self._app = app
        self._last = 0
        self._is_working = False
        self._task: asyncio.Task[AnalysisEvent] | None = None
        self.jobs: list[Job] = []
        self.ended = 0

    @property
    def pending(self) -> list[Job]:
        """The jobs that run or wait."""
        return [job for job in self.jobs if job.status != "failed"]

    def jobs_of(self, folder: RunFolder) -> list[Job]:
        """The jobs on a run."""
        return [job for job in self.jobs if job.folder == folder]

    def add(self, folder: RunFolder, request: Diagnose) -> str:
        """Ask for an analysis; returns a sentence on what happens. One that already waits is not asked for twice."""
        if any(job.folder == folder and job.request == request for job in self.pending):
            return "This analysis is already asked for."
        self.jobs = [job for job in self.jobs if (job.folder, job.request) != (folder, request)]
        self._last += 1
        before = len(self.pending)
        self.jobs.append(Job(self._last, folder, request))
        if not self._is_working:
            self._is_working = True
            self._app.run_worker(self._work(), exit_on_error=False)
        if self._app.whole_state.finished is None:
            return "It starts when the run has ended."
        return f"It starts after {before} other{'s' if before > 1 else ''}." if before else ""

    def cancel(self, job: Job) -> None:
        """End a running job, or remove one that waits or has failed."""
        if job.status == "running" and self._task is not None:
            self._task.cancel()
        else:
            self.jobs.remove(job)

    async def _work(self) -> None:
        try:
            while self.pending:
                job = self.pending[0]
                if await asyncio.to_thread(self._may_start, job):
                    await self._run(job)
                else:
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
        finally:
            self._is_working = False

    def _may_start(self, job: Job) -> bool:
        return self._app.whole_state.finished is not None and not job.folder.is_running()

    async def _run(self, job: Job) -> None:
        if job not in self.jobs:
            return
        job.status = "running"
        self._task = asyncio.create_task(analyze_in_background(any_result(), job.request, job.folder.path))
        try:
            found = await self._task
        except asyncio.CancelledError:
            _record_end(job, "canceled", "")
            self._remove(job)
            # The app itself may be ending.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            self._app.notify(f"{job.title} is canceled.", timeout=3)
        except (TabappError, OSError) as error:
            job.status, job.trouble = "failed", str(error)
            await asyncio.to_thread(_record_end, job, "failed", str(error))
            self._app.notify(str(error), title=f"No result: {job.title}", severity="error")
        else:
            self._remove(job)
            line = analysis_of(found).line
            text = line(found, self._app.whole_state) if line is not None else job.title
            self._app.notify(f"{text} · 9 shows it", title="An analysis is done", timeout=4)
        finally:
            self._task = None
            self.ended += 1

    def _remove(self, job: Job) -> None:
        if job in self.jobs:
            self.jobs.remove(job)


def _record_end(job: Job, status: Literal["failed", "canceled"], message: str) -> None:
    """Record the end of an analysis whose process may have been killed before it could."""
    with suppress(TabappError, OSError), job.folder.lock():
        if status == "failed" and job.folder.state().underway is None:
            return
        log = EventLog(job.folder.events)
        try:
            request = job.request
            log.append(ev.AnalysisEnded(option=request.option, value=request.value, status=status, message=message))
        finally:
            log.close()
