"""What lists of runs show of each run, read from its events except those that arrive by the thousand."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import decode
from tabapp.run.record.folder import LineReader, RunFolder
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.score_text import folds_text
from tabapp.run.record.state import RunState

SKIPPED = (b'{"ev":"fit.progress"', b'{"ev":"resources"', b'{"ev":"fit.started"', b'{"ev":"fit.finished"')


@dataclass(frozen=True)
class RunDescription:
    """A run in a list.

    Attributes:
        status: running, ok, interrupted, failed, stopped (the engine ended without a result) or unreadable.
        data: path or name of the table, as given by the user.
        metric: name of the metric; `metric_title` is its title for people.
        best: best score; `model` is the title of its model, and `partial` are its folds, such as "1 of 8 folds", if it lacks some.
        models: number of models with a score, without the ensemble.
        history: each new best score, oldest first.
        started: seconds since the epoch; None if the run never started.
        seconds: from its start to its last event.
        reason: a sentence on how it ended, or why it cannot be read.
    """

    folder: RunFolder
    status: str
    name: str = ""
    data: str = ""
    target: str = ""
    metric: str = ""
    metric_title: str = ""
    greater_is_better: bool = True
    best: float | None = None
    partial: str = ""
    model: str = ""
    models: int = 0
    history: tuple[float, ...] = ()
    started: float | None = None
    seconds: float = 0.0
    reason: str = ""

    @property
    def run(self) -> str:
        """The id of the run."""
        return self.folder.run


def version_of(folder: RunFolder) -> tuple[float, int, bool]:
    """A value that changes when a run has something new to read."""
    running = folder.is_running()
    try:
        status = folder.events.stat()
    except OSError:
        return 0.0, 0, running
    return status.st_mtime, status.st_size, running


def describe_run(folder: RunFolder) -> RunDescription:
    """Describe a run. Never fails: a run that cannot be read has the status "unreadable" and a reason."""
    try:
        config = folder.config()
        lines = LineReader(folder.events).read_new()
    except UsageError as error:
        return RunDescription(folder, "unreadable", reason=str(error))
    state = RunState()
    started: float | None = None
    plan: ev.PlanMade | None = None
    for line in lines:
        event = None if line.startswith(SKIPPED) else decode(line)
        if event is None:
            continue
        state = reduce(state, event)
        # In a run with several targets, these are those of the whole run and of the last target with a plan.
        started = event.t if isinstance(event, ev.RunStarted) else started
        plan = state.plan or plan
    finished, winner = state.finished, state.best
    ended = finished.status if finished is not None else "stopped"
    status = "running" if folder.is_running() else ended
    return RunDescription(
        folder,
        status,
        name=config.name or "",
        data=config.data,
        target=", ".join(plan.targets or (plan.target,)) if plan else _asked_target(config),
        metric=plan.metric if plan else config.metric or "",
        metric_title=plan.metric_title if plan else config.metric or "",
        greater_is_better=plan.greater_is_better if plan else True,
        best=winner.score if winner is not None else None,
        partial=folds_text(winner, plan.folds) if winner is not None and plan is not None else "",
        model=winner.title if winner is not None else "",
        models=sum(row.score is not None and row.model != "ensemble" for row in state.leaderboard),
        history=tuple(score for _, score in state.history),
        started=started,
        seconds=finished.seconds if finished is not None else max(0.0, state.time - (started or state.time)),
        reason=finished.message if finished is not None else "",
    )


def _asked_target(config: RunConfig) -> str:
    return ", ".join(config.target) if isinstance(config.target, tuple) else config.target or ""
