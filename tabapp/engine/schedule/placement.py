"""The next fit for which a device has memory and a free slot. GPUs come first, so that none waits for a fit on the cores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import msgspec

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.admission import Admission, Decision, Need
from tabapp.engine.machine.devices import CPU, GPU
from tabapp.engine.machine.slots import Slots
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.engine.schedule.work import Fold, Work
from tabapp.models.contract import Plugin, Shape


class Placement:
    """Asks the scheduler for fits until one is admitted.

    Args:
        plugins: the models that compete, by name; it may grow.
        slots: fits at the same time on each device.
        overhead: returns the bytes that the engine and its servers use.
        refuse: called with a fit that never has enough memory, and the reason; it ends the candidate.
        stacks: whether several fits may be trained as one stacked network.
    """

    def __init__(
        self,
        plan: Plan,
        shape: Shape,
        scheduler: Scheduler,
        plugins: Mapping[str, Plugin],
        admission: Admission,
        slots: Slots,
        *,
        overhead: Callable[[], int],
        refuse: Callable[[Work, str], None],
        stacks: bool,
    ) -> None:
        self._plan, self._shape, self._scheduler, self._plugins = plan, shape, scheduler, plugins
        self._admission, self._slots, self._overhead, self._refuse = admission, slots, overhead, refuse
        self._stacks = stacks
        self._needs: dict[tuple[tuple[str, int], str], Need] = {}

    def next_work(
        self, busy: set[Fold], running: Collection[Need], seconds_left: float, fit_limit: Callable[[str], float]
    ) -> Work | None:
        """The next fit to start now, or None.

        Args:
            busy: model, trial and fold of the fits in progress.
            running: their memory.
            seconds_left: seconds until fitting ends.
            fit_limit: returns the seconds that one fit on a class of devices may take.
        """
        devices, competition = [need.device for need in running], self._scheduler.competition
        # Until networks are loaded, the cores that they need beside their GPUs are kept for them.
        records = competition.models.values()
        keeps = competition.n_expected > len(records) and not any(record.uses_device for record in records)
        if self._slots.free_gpus(devices):
            work = self._next_on(GPU, busy, running, seconds_left, fit_limit(GPU))
            if work is not None:
                return work
        if not self._slots.has_free_core(devices, keeps=keeps):
            return None
        return self._next_on(CPU, busy, running, seconds_left, fit_limit(CPU))

    def placed(self, work: Work, running: Collection[Need]) -> Work | None:
        """A fit on a device that has a free slot and memory for it now, or None."""
        on_cpu = work.candidate.device == CPU
        if on_cpu and not self._slots.has_free_core([need.device for need in running], keeps=False):
            return None
        work, decision = self._admitted(work, running)
        return work if decision.when == "now" else None

    def is_full(self, running: Collection[Need]) -> bool:
        """Whether no further fit may start beside those in progress."""
        return self._slots.are_full([need.device for need in running])

    def _next_on(
        self,
        device: str,
        busy: set[Fold],
        running: Collection[Need],
        seconds_left: float,
        fit_limit: float,
    ) -> Work | None:
        """The next fit on a class of devices that is admitted now, or None."""
        records = self._scheduler.competition.models.values()
        too_large: set[str] = set()
        try:
            while True:
                for record in records:
                    record.waits = record.name in too_large
                work = self._scheduler.next_work(busy, seconds_left, fit_limit, device)
                if work is None:
                    return None
                work, decision = self._admitted(self._grouped(work, busy), running)
                if decision.when == "now":
                    return work
                if decision.when == "later":
                    too_large.add(work.candidate.model)
                else:
                    self._refuse(work, decision.reason)
        finally:
            for record in records:
                record.waits = False

    def _admitted(self, work: Work, running: Collection[Need]) -> tuple[Work, Decision]:
        """A fit on its device, and whether it may start there. Any GPU takes a fit whose hyperparameters were chosen for GPUs: that
        with the fewest fits, of those that have memory for it."""
        overhead = self._overhead()
        if work.candidate.device == CPU:
            return work, self._admission.decide(self.need(work), running, overhead)
        free = self._slots.free_gpus([need.device for need in running])
        refusals: list[Decision] = []
        for gpu in (*free, *(other for other in self._slots.gpus if other not in free)):
            placed = replace(work, gpu=gpu)
            decision = self._admission.decide(self.need(placed), running, overhead)
            if decision.when == "now" and gpu in free:
                return placed, decision
            refusals.append(decision)
        has_memory = any(decision.when != "never" for decision in refusals)
        return work, Decision("later") if has_memory else refusals[0]

    def _grouped(self, work: Work, busy: set[Fold]) -> Work:
        """A fit with those that are trained together with it: on a GPU, all other folds of its candidate after the first, and all
        siblings of a new one, as far as the memory allows.

        What runs beside does not matter, so that groups, and with them the random numbers of dropout, do not depend on the number
        of workers.

        NOTE: not on a CPU. There, four folds of an MLP on 4,300 rows of 5 columns take 1.45 times as long as one stacked network
        than one after the other. Only layers of a quarter of the default width gain from it (0.54 times as long), which no defaults
        have (`benchmarks/results/stacked_fits.json`).
        """
        candidate, competition = work.candidate, self._scheduler.competition
        if not self._stacks or candidate.device == CPU or not self._plugins[candidate.model].stacks:
            return work
        folds = candidate.group_of(work.fold, competition.open_folds(candidate, busy))
        siblings = competition.waiting_siblings(candidate, busy) if work.fold == 0 else []
        group = replace(work, others=(*((candidate, fold) for fold in folds), *((other, 0) for other in siblings)))
        while group.others and self._admission.decide(self.need(group), (), 0).when == "never":
            group = replace(group, others=group.others[:-1])
        return group

    def need(self, work: Work) -> Need:
        """The memory that a fit, or a group, is expected to need."""
        needs = [self._need_of(candidate) for candidate, _ in work.fits]
        return replace(needs[0], device=work.device, n_bytes=sum(need.n_bytes for need in needs))

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
