"""A process that analyzes finished runs for a view: `python -m tabapp.processes.analyst REQUEST RUN_DIR …`.

The request is a `Compare` or a `Diagnose` as JSON. The last line on stdout is the result as JSON, or `AnalysisFailed`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tabapp.errors import ExitCode, TabappError
from tabapp.run.protocol.analyses import AnalysisFailed, Compare, Diagnose
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import all_requests
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.folder import EventLog, RunFolder

if TYPE_CHECKING:
    from tabapp.engine.analyses.finished_run import FinishedRun

REPORT_SECONDS = 1.0
"""Least time between two events on the progress of an analysis."""


def _compare(a: RunFolder, b: RunFolder) -> msgspec.Struct:
    from tabapp.engine.analyses.compare_runs import compare_runs

    return compare_runs(a, b)


class _Steps:
    """Records in the events of a run that an analysis begins, continues and ends."""

    def __init__(self, log: EventLog, request: Diagnose) -> None:
        self._log, self._request = log, request
        self._last = time.monotonic()

    def begin(self) -> None:
        request = self._request
        self._log.append(ev.AnalysisStarted(option=request.option, value=request.value, model=request.model))

    def progress(self, share: float) -> None:
        """Record a share of the work; at most every `REPORT_SECONDS`, as each event is synced to disk."""
        if time.monotonic() - self._last < REPORT_SECONDS:
            return
        self._last = time.monotonic()
        request = self._request
        self._log.append(
            ev.AnalysisProgress(option=request.option, value=request.value, share=round(min(1.0, share), 3))
        )

    def end(self, message: str = "") -> None:
        request = self._request
        status = "failed" if message else "done"
        self._log.append(ev.AnalysisEnded(option=request.option, value=request.value, status=status, message=message))


def _diagnose(request: Diagnose, folder: RunFolder) -> msgspec.Struct:
    from tabapp.engine.analyses.finished_run import FinishedRun

    declared = next(each for each in all_requests() if each.option == request.option)
    module, _, function = declared.computation.partition(":")
    compute: Callable[..., AnalysisEvent] = getattr(import_module(module), function)
    arguments = [] if declared.metavar is None else [request.value]
    arguments += [request.model, request.seconds] if declared.is_limited else []
    with folder.lock():
        run = FinishedRun(folder)
        log = EventLog(folder.events)
        try:
            return _recorded(_Steps(log, request), log, run, lambda: compute(run, *arguments))
        finally:
            log.close()


def _recorded(steps: _Steps, log: EventLog, run: FinishedRun, compute: Callable[[], AnalysisEvent]) -> msgspec.Struct:
    """The result of an analysis, appended to the events of its run between the events on its steps."""
    steps.begin()
    run.report = steps.progress
    try:
        found = log.append(run.described(compute()))
    except Exception as error:
        steps.end(str(error) if isinstance(error, TabappError) else f"{type(error).__name__}: {error}.")
        raise
    steps.end()
    return found


def result_of(request: Compare | Diagnose, *paths: Path) -> msgspec.Struct:
    """The result of an analysis, or why there is none."""
    folders = [RunFolder(path) for path in paths]
    try:
        return _compare(*folders) if isinstance(request, Compare) else _diagnose(request, *folders)
    except TabappError as error:
        return AnalysisFailed(error=str(error), exit_code=error.exit_code)
    except OSError as error:
        return AnalysisFailed(error=f"{error.filename or 'The run'}: {error.strerror or error}.")


def main() -> int:
    """Analyze and print the result; returns the exit code."""
    # Ctrl+C in a terminal reaches the whole process group; the view alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request, *folders = sys.argv[1:]
    result = result_of(msgspec.json.decode(request, type=Compare | Diagnose), *map(Path, folders))
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    return result.exit_code if isinstance(result, AnalysisFailed) else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
