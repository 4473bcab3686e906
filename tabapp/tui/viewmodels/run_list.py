"""What the list of runs tells of each, read from its events without those that come by the thousand."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tabapp.errors import TabappError
from tabapp.run import events as ev
from tabapp.run.folder import RunFolder
from tabapp.tui.viewmodels.query import Value
from tabapp.tui.viewmodels.texts import is_new_best

SKIPPED = (b'{"ev":"fit.progress"', b'{"ev":"resources"', b'{"ev":"fit.started"', b'{"ev":"fit.finished"')
FIELDS = ("run", "name", "status", "data", "target", "metric", "best", "seconds", "models", "age")


@dataclass(frozen=True)
class RunFacts:
    """A run as a row.

    Attributes:
        status: running, ok, interrupted, failed, stopped (an engine that ended without a word), or unreadable.
        best: the best score; `model` has it. `history` are the bests one after another.
        started: seconds since the epoch; None where it never did.
        seconds: from its start to its last event.
        reason: a sentence on how it ended, or why it cannot be read.
    """

    folder: RunFolder
    status: str
    name: str = ""
    data: str = ""
    target: str = ""
    metric: str = ""
    greater_is_better: bool = True
    best: float | None = None
    model: str = ""
    models: int = 0
    history: tuple[float, ...] = ()
    started: float | None = None
    seconds: float = 0.0
    reason: str = ""

    @property
    def run(self) -> str:
        """The id."""
        return self.folder.run

    def facts(self) -> dict[str, Value]:
        """Its fields, for filters; `age` is in seconds."""
        return {
            "run": self.run,
            "name": self.name,
            "status": self.status,
            "data": self.data,
            "target": self.target,
            "metric": self.metric,
            "best": self.best,
            "seconds": self.seconds,
            "models": self.models,
            "age": time.time() - self.started if self.started is not None else None,
        }


def version_of(folder: RunFolder) -> tuple[float, int, bool]:
    """What changes when there is something new to read of a run."""
    running = _is_running(folder)
    try:
        status = folder.events.stat()
    except OSError:
        return 0.0, 0, running
    return status.st_mtime, status.st_size, running


def read_run(folder: RunFolder) -> RunFacts:
    """Read a run. Never fails: one that cannot be read is a row that says so."""
    try:
        config = folder.config()
        lines = folder.events.read_bytes().splitlines() if folder.events.exists() else []
    except (TabappError, OSError) as error:
        return RunFacts(folder, "unreadable", reason=str(error))
    started: float | None = None
    plan: ev.PlanMade | None = None
    finished: ev.RunFinished | None = None
    rows: tuple[ev.LeaderboardRow, ...] = ()
    history: list[float] = []
    last = 0.0
    for line in lines:
        if line.startswith(SKIPPED):
            continue
        event = ev.decode(line)
        if event is None:
            continue
        last = event.t
        match event:
            case ev.RunStarted():
                started, finished = event.t, None
            case ev.PlanMade():
                plan = event
            case ev.LeaderboardChanged():
                rows = event.rows
                best = next((row for row in rows if row.score is not None), None)
                if (
                    best is not None
                    and best.score is not None
                    and is_new_best(best, plan, history[-1] if history else None)
                ):
                    history.append(best.score)
            case ev.RunFinished():
                finished = event
                rows = event.leaderboard or rows
            case _:
                pass
    ended = finished.status if finished is not None else "stopped"
    status = "running" if _is_running(folder) else ended
    winner = next((row for row in rows if row.score is not None), None)
    return RunFacts(
        folder,
        status,
        name=config.name or "",
        data=Path(config.data).name,
        target=plan.target if plan else config.target or "",
        metric=plan.metric_title if plan else config.metric or "",
        greater_is_better=plan.greater_is_better if plan else True,
        best=winner.score if winner is not None else None,
        model=winner.title if winner is not None else "",
        models=sum(row.score is not None and row.model != "ensemble" for row in rows),
        history=tuple(history),
        started=started,
        seconds=finished.seconds if finished is not None else max(0.0, last - (started or last)),
        reason=finished.message if finished is not None else "",
    )


def _is_running(folder: RunFolder) -> bool:
    try:
        return folder.is_running()
    except OSError:
        return False
