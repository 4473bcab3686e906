"""What the engine orders from an executor, and what it remembers of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.jobs import Companion, FitJob
from tabapp.engine.machine.admission import Need
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.schedule.work import Work
from tabapp.models.contract import Plugin
from tabapp.models.stated import Libraries
from tabapp.run.record import events as ev


@dataclass
class Running:
    """A fit in progress."""

    work: Work
    seconds_started: float
    need: Need
    pruned: bool = False


def names_of(candidate: Candidate, fold: int) -> dict[str, Any]:
    """What all events of a fit contain."""
    return {
        "fit": candidate.fit_name(fold),
        "model": candidate.model,
        "trial": candidate.trial,
        "fold": fold,
    }


def start_of(work: Work, candidate: Candidate, fold: int, pid: int, seconds: float) -> ev.FitStarted:
    """The event of one of the fits of some work that was submitted.

    Args:
        pid: the process that was given the work.
        seconds: that the work is expected to take.
    """
    return ev.FitStarted(
        **names_of(candidate, fold),
        folds=candidate.n_folds,
        pid=pid,
        device=work.device,
        reason=work.reason,
        seconds=seconds,
    )


def job_of(
    work: Work,
    plan: Plan,
    run: str,
    plugin: Plugin,
    libraries: Libraries,
    deadlines: tuple[float, float] | None,
    need: Need,
) -> FitJob:
    """The job of a fit, or of a group of fits.

    Args:
        run: path of the run folder.
        deadlines: times on the monotonic clock, None for no limit: the fit ends with its best so far at the first, or as long after
            its begin if it waits for a node, but not after the second.
    """
    candidate, fold = work.candidate, work.fold
    return FitJob(
        fit=candidate.fit_name(fold),
        run=run,
        model=candidate.model,
        trial=candidate.trial,
        fold=fold,
        params=candidate.params,
        recipe=plugin.features_for(msgspec.convert(candidate.params, plugin.params_type)),
        task=plan.task,
        n_classes=plan.n_classes,
        metric=plan.metric,
        run_seed=plan.seed,
        device=work.device,
        libraries=libraries,
        n_threads=plan.n_threads,
        soft_deadline=None if deadlines is None else deadlines[0],
        latest_end=None if deadlines is None else deadlines[1],
        n_bytes=need.n_bytes,
        pilots=tuple(pilot.summary for pilot in candidate.pilots_of(fold)),
        most_step_rows=candidate.step_rows,
        companions=tuple(Companion(other.fit_name(its), other.trial, its, other.params) for other, its in work.others),
    )
