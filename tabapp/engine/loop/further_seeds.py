"""Further seeds of the members of the final ensemble, whose predictions are averaged.

The ensembles of one model of Gorishniy et al. 2021 (section 4.3) are such averages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tabapp.engine.fit.candidates import Candidate, saved_results
from tabapp.engine.fit.executors import Executor
from tabapp.engine.fit.jobs import Done, Failed, FitResult, Message, Progress
from tabapp.engine.loop.clock import Clock
from tabapp.engine.loop.fit_orders import Orders, names_of
from tabapp.engine.schedule.work import Work
from tabapp.models import registry
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder

SEEDS_SHARE = 0.4
"""Share of the time for fits that is kept for further seeds."""
TICK_SECONDS, CANCEL_SECONDS = 0.1, 10.0
MOST_SLOWER, SPARE_TIME = 3.0, 0.9
"""A fit may take so many times as long as with the first seed, and fits may take this share of the time that is left."""
SHORT_OF_TIME = "the time left is too short for more"


@dataclass
class _Group:
    """One further seed of a member: a fit on each of its folds."""

    candidate: Candidate
    seed: int
    results: dict[int, FitResult] = field(default_factory=dict[int, FitResult])
    started: set[int] = field(default_factory=set[int])

    @property
    def open_folds(self) -> list[int]:
        """Folds whose fit has not started."""
        return [fold for fold in self.candidate.results if fold not in self.results and fold not in self.started]

    @property
    def is_complete(self) -> bool:
        """Whether every fold has a fit."""
        return set(self.results) == set(self.candidate.results)

    @property
    def seconds(self) -> float:
        """Expected seconds of the fits that are not complete, one after the other."""
        return sum(each.used_seconds for fold, each in self.candidate.results.items() if fold not in self.results)


class FurtherSeeds:
    """Fits further seeds of candidates, one seed after the other, as long as time is left.

    A seed counts only with all folds of its candidate, so that the predictions of every row are averaged over equally many models.

    Args:
        orders: starts the fits.
        is_over: handles what the user asks for, and returns whether that ends the run.
    """

    def __init__(self, folder: RunFolder, orders: Orders, clock: Clock, is_over: Callable[[], bool]) -> None:
        self._folder, self._orders, self._clock, self._is_over = folder, orders, clock, is_over
        self._plan, self._executor = orders.plan, orders.executor
        self._running, self._emit = orders.running, orders.emit
        self._groups: list[_Group] = []
        self._ended: dict[tuple[str, int], str] = {}
        """Why a candidate gets no more seeds."""

    def fit(self, members: Sequence[tuple[Candidate, float]]) -> None:
        """Fit further seeds of the members of an ensemble, the one with the largest weight first, and count the complete ones. Fits
        that are in progress are killed."""
        stop_all(self._executor)
        candidates = [each for each, _ in sorted(members, key=lambda member: (-member[1], member[0].key))]
        self._groups = [_Group(each, seed) for seed in range(1, self._plan.seeds) for each in candidates]
        for group in self._groups:
            saved = saved_results(self._folder, group.candidate, group.candidate.results, group.seed)
            group.results = {result.fold: result for result in saved}
        self._emit(ev.Log(level="info", message=f"{self._plan.seeds} seeds of each model of the ensemble follow."))
        while not self._is_over() and self._clock.fitting_left() > 0:
            for message in self._executor.poll():
                self._handle(message)
            if not self._clock.paused:
                self._start_fits()
            if not self._running and not self._clock.paused:
                break
            self._executor.wait(TICK_SECONDS)
        self._running.clear()
        cause = SHORT_OF_TIME if self._clock.fitting_left() <= 0 else "the run was ended"
        for candidate in candidates:
            self._count(candidate, cause)

    def _start_fits(self) -> None:
        """Start all fits that have a free slot, memory and time."""
        for group in self._groups:
            candidate = group.candidate
            for fold in group.open_folds:
                if candidate.key in self._ended:
                    break
                if not group.started and not self._has_time(group):
                    self._ended[candidate.key] = SHORT_OF_TIME
                    break
                reason = f"seed {group.seed + 1} of {self._plan.seeds} of a model of the ensemble"
                work = Work(candidate, fold, seed=group.seed, reason=reason)
                work = self._orders.placement.placed(work, self._orders.needs())
                if work is None and self._running:
                    return
                if work is None:
                    self._ended[candidate.key] = "there is too little memory for more"
                    break
                group.started.add(fold)
                seconds = candidate.results[fold].used_seconds
                self._orders.submit(work, self._deadlines(seconds), round(seconds, 2))

    def _has_time(self, group: _Group) -> bool:
        """Whether the fits of a seed that has none yet are expected to end in time, after those in progress."""
        begun = [each for each in self._groups if each.started and each.candidate.key not in self._ended]
        seconds = sum(each.seconds for each in (*begun, group))
        return seconds / max(1, self._plan.workers) <= SPARE_TIME * self._clock.fitting_left()

    def _deadlines(self, expected: float) -> tuple[float, float] | None:
        if self._clock.fitting_end is None:
            return None
        now, left = time.monotonic(), SPARE_TIME * self._clock.fitting_left()
        return now + min(left, MOST_SLOWER * expected + 1.0), now + left

    def _handle(self, message: Message) -> None:
        running = self._running.get(message.fit)
        if running is None:
            return
        work = running.work
        names = names_of(work.candidate, work.fold, work.seed)
        match message:
            case Progress():
                names.pop("seed")
                self._emit(ev.FitProgress(**names, step=message.step, value=message.value))
            case Done():
                del self._running[message.fit]
                group = next(g for g in self._groups if g.candidate is work.candidate and g.seed == work.seed)
                group.results[work.fold] = message.result
                score, seconds = message.result.score, round(message.result.seconds, 3)
                self._emit(ev.FitFinished(**names, score=score, seconds=seconds))
            case Failed():
                del self._running[message.fit]
                self._ended.setdefault(work.candidate.key, f"a fit failed: {message.reason.rstrip('.')}")
                self._emit(ev.FitFailed(**names, reason=message.reason, detail=message.detail))
                self._cancel(work.candidate)
            case _:
                pass

    def _cancel(self, candidate: Candidate) -> None:
        for name, running in self._running.items():
            if running.work.candidate is candidate:
                self._executor.cancel(name)

    def _count(self, candidate: Candidate, cause: str) -> None:
        """Give a candidate its complete seeds, and say if some are missing, for a cause of its own or for the common one."""
        own = [group for group in self._groups if group.candidate is candidate]
        complete = [group for number, group in enumerate(own) if all(each.is_complete for each in own[: number + 1])]
        candidate.further = tuple(group.results for group in complete)
        if len(complete) < len(own):
            why = self._ended.get(candidate.key, cause)
            title = registry.get(candidate.model).title
            message = f"{title} #{candidate.trial} has {candidate.seeds} of {self._plan.seeds} seeds: {why}."
            self._emit(ev.Log(level="warning", message=message))


def stop_all(executor: Executor) -> None:
    """Kill all fits, and wait until they have ended."""
    for fit in executor.running():
        executor.kill(fit)
    end = time.monotonic() + CANCEL_SECONDS
    while executor.running() and time.monotonic() < end:
        executor.poll()
        time.sleep(TICK_SECONDS / 10)
