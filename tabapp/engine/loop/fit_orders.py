"""What the engine orders from an executor, and what it remembers of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.executors import Executor
from tabapp.engine.fit.jobs import Companion, FitJob
from tabapp.engine.machine.admission import Need
from tabapp.engine.machine.devices import CPU, device_class
from tabapp.engine.machine.slots import Slots
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.schedule.placement import Placement
from tabapp.engine.schedule.work import Fold, Work
from tabapp.models.contract import Plugin
from tabapp.models.stated import Libraries
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder


@dataclass
class Running:
    """A fit in progress."""

    work: Work
    seconds_started: float
    need: Need
    n_threads: int
    pruned: bool = False


def names_of(candidate: Candidate, fold: int, seed: int | None = None) -> dict[str, Any]:
    """What all events of a fit contain, and its seed if it is given."""
    names: dict[str, Any] = {
        "fit": candidate.fit_name(fold, seed or 0),
        "model": candidate.model,
        "trial": candidate.trial,
        "fold": fold,
    }
    return names if seed is None else names | {"seed": seed}


class Orders:
    """Orders fits from an executor, and knows those in progress.

    Args:
        plugins: by name; it may grow.

    Attributes:
        running: the fits and groups in progress by the id of their first fit.
    """

    def __init__(
        self,
        folder: RunFolder,
        plan: Plan,
        executor: Executor,
        placement: Placement,
        slots: Slots,
        plugins: Mapping[str, Plugin],
        libraries_of: Callable[[Plugin], Libraries],
        emit: Callable[[ev.Event], None],
    ) -> None:
        self._run, self.plan, self.executor, self.placement = str(folder.path), plan, executor, placement
        self._slots = slots
        self._plugins, self._libraries_of, self.emit = plugins, libraries_of, emit
        self.running: dict[str, Running] = {}

    def submit(self, work: Work, deadlines: tuple[float, float] | None, seconds: float) -> None:
        """Start a fit or a group; see `job_of` and `start_of`."""
        need = self.placement.need(work)
        plugin = self._plugins[work.candidate.model]
        job = job_of(work, self.plan, self._run, plugin, self._libraries_of(plugin), deadlines, need)
        # Without a time limit, no fit depends on others.
        if deadlines is not None and device_class(work.device) == CPU and not self.executor.waits_for_memory:
            taken = [each.n_threads for each in self.running.values() if device_class(each.need.device) == CPU]
            job = msgspec.structs.replace(job, n_threads=self._slots.threads(taken))
        pid = self.executor.submit(job)
        self.running[job.fit] = Running(work, time.monotonic(), need, job.n_threads)
        for candidate, fold in work.fits:
            self.emit(start_of(work, candidate, fold, pid, seconds))

    def needs(self) -> list[Need]:
        """The memory of the fits in progress."""
        return [running.need for running in self.running.values()]

    def busy(self) -> set[Fold]:
        """Model, trial and fold of the fits in progress."""
        return {(*candidate.key, fold) for each in self.running.values() for candidate, fold in each.work.fits}

    def part_of(self, fit: str) -> tuple[Running, Candidate, int] | None:
        """The fit or group in progress that a fit belongs to, its candidate and its fold."""
        for running in self.running.values():
            for candidate, fold in running.work.fits:
                if candidate.fit_name(fold) == fit:
                    return running, candidate, fold
        return None


def start_of(work: Work, candidate: Candidate, fold: int, pid: int, seconds: float) -> ev.FitStarted:
    """The event of one of the fits of some work that was submitted.

    Args:
        pid: the process that was given the work.
        seconds: that the work is expected to take.
    """
    return ev.FitStarted(
        **names_of(candidate, fold, work.seed),
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
        fit=candidate.fit_name(fold, work.seed),
        seed=work.seed,
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
