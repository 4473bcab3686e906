"""The next fit for which its device has memory and a worker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import msgspec

from tabapp.engine.admission import Admission, Need
from tabapp.engine.candidates import Candidate
from tabapp.engine.devices import CPU, device_for
from tabapp.engine.plan import Plan
from tabapp.engine.scheduler import Fold, Scheduler, Work
from tabapp.models.contract import Plugin, Shape


class Placement:
    """Asks the scheduler for fits until one is admitted.

    Args:
        plugins: the models that compete, by name; it may grow.
        overhead: returns the bytes that the engine and its servers use.
        refuse: called with a fit that never has enough memory, and the reason; it ends the candidate.
        stacks: whether folds may be trained as one stacked network.
    """

    def __init__(
        self,
        plan: Plan,
        shape: Shape,
        scheduler: Scheduler,
        plugins: Mapping[str, Plugin],
        admission: Admission,
        *,
        overhead: Callable[[], int],
        refuse: Callable[[Work, str], None],
        stacks: bool,
    ) -> None:
        self._plan, self._shape, self._scheduler, self._plugins = plan, shape, scheduler, plugins
        self._admission, self._overhead, self._refuse = admission, overhead, refuse
        self._stacks = stacks
        self._needs: dict[tuple[tuple[str, int], str], Need] = {}

    def next_work(
        self, busy: set[Fold], running: Collection[Need], seconds_left: float, fit_limit: float
    ) -> Work | None:
        """The next fit to start now, or None.

        Args:
            busy: model, trial and fold of the fits in progress.
            running: their memory.
            seconds_left: seconds until fitting ends.
            fit_limit: seconds that one fit may take.
        """
        records = self._scheduler.models.values()
        too_large: set[str] = set()
        crowded = self._admission.crowded(running)
        try:
            while True:
                for record in records:
                    device = self._device_of(record.name)
                    record.waits = record.name in too_large or device in crowded
                work = self._scheduler.next_work(busy, seconds_left, fit_limit)
                if work is None and not crowded:
                    return None
                if work is None:
                    # The other device has nothing to do, so that no worker needs to be kept for it.
                    crowded = set[str]()
                    continue
                work = self._grouped(work, busy)
                decision = self._admission.decide(self.need(work), running, self._overhead())
                if decision.when == "now":
                    return work
                if decision.when == "later":
                    too_large.add(work.candidate.model)
                else:
                    self._refuse(work, decision.reason)
        finally:
            for record in records:
                record.waits = False

    def _device_of(self, model: str) -> str:
        """The device of the fits of a model."""
        plan = self._plan
        return device_for(self._plugins[model], plan.task, self._shape, plan.device)

    def _grouped(self, work: Work, busy: set[Fold]) -> Work:
        """A fit with the folds that are trained together with it: on a GPU all that its memory allows.

        What runs beside does not matter, so that groups, and with them the random numbers of dropout, do not depend on the number
        of workers.

        NOTE: not on a CPU. There, four folds of an MLP on 4,300 rows of 5 columns take 1.45 times as long as one stacked network
        than one after the other. Only layers of a quarter of the default width gain from it (0.54 times as long), which no defaults
        have (`benchmarks/results/stacked_fits.json`).
        """
        candidate = work.candidate
        if not self._stacks or candidate.device == CPU or not self._plugins[candidate.model].stacks:
            return work
        others = candidate.group_of(work.fold, self._scheduler.open_folds(candidate, busy))
        group = replace(work, others=others)
        while group.others and self._admission.decide(self.need(group), (), 0).when == "never":
            group = replace(group, others=group.others[:-1])
        return group

    def need(self, work: Work) -> Need:
        """The memory that a fit, or a group, is expected to need."""
        need = self._need_of(work.candidate)
        return replace(need, n_bytes=need.n_bytes * len(work.folds))

    def _need_of(self, candidate: Candidate) -> Need:
        """The memory of one fit of a candidate."""
        key = candidate.key, candidate.device
        if key not in self._needs:
            plugin = self._plugins[candidate.model]
            try:
                params = msgspec.convert(candidate.params, plugin.params_type)
                n_bytes = plugin.cost(self._plan.task, self._shape, params, candidate.device).n_bytes
            except Exception:  # of a third-party plugin, whose fit then reports it
                n_bytes = 0
            self._needs[key] = Need(candidate.model, candidate.device, n_bytes)
        return self._needs[key]
