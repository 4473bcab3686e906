"""What lists of runs show of each run, read from its events except those that arrive by the thousand."""

from __future__ import annotations

import os
import time as clock
from dataclasses import dataclass, field

from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import decode
from tabapp.run.record.folder import LineReader, RunFolder
from tabapp.run.record.labels import FILE as LABELS_FILE
from tabapp.run.record.labels import RunLabels, read_labels
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.score_text import folds_text
from tabapp.run.record.state import RunState, seconds_used
from tabapp.run.texts.progress import progress_of

SKIPPED = (b'{"ev":"fit.progress"', b'{"ev":"resources"', b'{"ev":"fit.started"', b'{"ev":"fit.finished"')
Version = tuple[float, int, float, bool]


@dataclass(frozen=True)
class RunDescription:
    """A run in a list.

    Attributes:
        status: running, ok, interrupted, failed, stopped (the engine ended without a result) or unreadable.
        name: from the labels, or else that of its start.
        labels: what the user wrote on the run; `labels_problem` is a sentence if they cannot be read.
        data: path or name of the table, as given by the user.
        metric: name of the metric; `metric_title` is its title for people.
        best: best score; `model` is the title of its model, and `partial` are its folds, such as "1 of 8 folds", if it lacks some.
        models: number of models with a score, without the ensemble.
        curve: (seconds of fitting, score) of each new best score, oldest first.
        started: seconds since the epoch; None if the run never started.
        seconds: of the budget that it used, which time before its start and between its sessions does not count.
        reason: a sentence on how it ended, or why it cannot be read.
        plan: the last plan; None before the table is read.
        share: of its budget or trials that a running run has used, in [0, 1]; None if it is unknown.
        bundle_bytes: size of the bundle; 0 without one.
    """

    folder: RunFolder
    status: str
    name: str = ""
    labels: RunLabels = field(default_factory=RunLabels)
    labels_problem: str = ""
    data: str = ""
    target: str = ""
    metric: str = ""
    metric_title: str = ""
    greater_is_better: bool = True
    best: float | None = None
    partial: str = ""
    model: str = ""
    models: int = 0
    curve: tuple[tuple[float, float], ...] = ()
    started: float | None = None
    seconds: float = 0.0
    reason: str = ""
    plan: ev.PlanMade | None = None
    share: float | None = None
    bundle_bytes: int = 0

    @property
    def run(self) -> str:
        """The id of the run."""
        return self.folder.run

    @property
    def title(self) -> str:
        """The name of the run, or else its id without the date, which commands accept too."""
        return self.name or self.folder.short_id

    @property
    def history(self) -> tuple[float, ...]:
        """Each new best score, oldest first."""
        return tuple(score for _, score in self.curve)


def version_of(folder: RunFolder) -> Version:
    """A value that changes when a run has something new to read."""
    running = folder.is_running()
    try:
        labeled = os.stat(folder.path / LABELS_FILE).st_mtime
    except OSError:
        labeled = 0.0
    try:
        status = folder.events.stat()
    except OSError:
        return 0.0, 0, labeled, running
    return status.st_mtime, status.st_size, labeled, running


def describe_run(folder: RunFolder) -> RunDescription:
    """Describe a run. Never fails: a run that cannot be read has the status "unreadable" and a reason."""
    labels, problem = _labels(folder)
    try:
        config = folder.config()
        lines = LineReader(folder.events).read_new()
    except UsageError as error:
        return RunDescription(
            folder, "unreadable", name=labels.name, labels=labels, labels_problem=problem, reason=str(error)
        )
    state = RunState()
    started: float | None = None
    plan: ev.PlanMade | None = None
    events: list[ev.AnyEvent] = []
    known: tuple[tuple[float, float], ...] = ()
    curve: list[tuple[float, float]] = []
    for line in lines:
        event = None if line.startswith(SKIPPED) else decode(line)
        if event is None:
            continue
        events.append(event)
        state = reduce(state, event)
        # In a run with several targets, these are those of the whole run and of the last target with a plan.
        started = event.t if isinstance(event, ev.RunStarted) else started
        plan = state.plan or plan
        if state.history is not known:
            if state.history[: len(known)] != known:
                # Another target begins another curve.
                curve, known = [], ()
            curve += [(state.fitting_seconds(time), score) for time, score in state.history[len(known) :]]
            known = state.history
    finished, winner = state.finished, state.best
    progress = progress_of(state, clock.time())
    # An analysis of a run that has ended holds its lock too.
    ended = finished.status if finished is not None else "running" if folder.is_running() else "stopped"
    return RunDescription(
        folder,
        ended,
        name=labels.name or config.name or "",
        labels=labels,
        labels_problem=problem,
        data=config.data,
        target=", ".join(plan.targets or (plan.target,)) if plan else _asked_target(config),
        metric=plan.metric if plan else config.metric or "",
        metric_title=plan.metric_title if plan else config.metric or "",
        greater_is_better=plan.greater_is_better if plan else True,
        best=winner.score if winner is not None else None,
        partial=folds_text(winner, plan.folds) if winner is not None and plan is not None else "",
        model=winner.title if winner is not None else "",
        models=sum(row.score is not None and row.model != "ensemble" for row in state.leaderboard),
        curve=tuple(curve),
        started=started,
        seconds=finished.seconds if finished is not None and state.fitting_since is not None else seconds_used(events),
        reason=finished.message if finished is not None else "",
        plan=plan,
        share=progress.share if progress is not None else None,
        bundle_bytes=_size(folder),
    )


def _labels(folder: RunFolder) -> tuple[RunLabels, str]:
    try:
        return read_labels(folder.path), ""
    except UsageError as error:
        return RunLabels(), str(error)


def _size(folder: RunFolder) -> int:
    try:
        return os.stat(folder.bundle).st_size
    except OSError:
        return 0


def _asked_target(config: RunConfig) -> str:
    return ", ".join(config.target) if isinstance(config.target, tuple) else config.target or ""
