"""What one decision of the scheduler depends on: the fits in progress, the time left, and what candidates are worth.

Terms:
    first fold: the first fit of a candidate. It shows what the candidate is worth; the candidate is then completed or dropped.
    begun: a candidate is begun when more than its first fold was started, so that it is being completed.
    committed: seconds that candidates that are being completed, or are to be, still need.
    gain: how much lower the error of the ensemble is with a candidate, as a share of that error.
    merit: how much better than others a model is expected to be on such tables; 1 is ordinary.
    left over: time that no useful fit needs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.devices import CPU
from tabapp.engine.schedule.competition import Competition, ModelRecord
from tabapp.engine.schedule.expected_seconds import ExpectedSeconds
from tabapp.engine.schedule.work import Fold
from tabapp.policy import POLICY, Policy


class Gain(Protocol):
    """How much a candidate lowers the error of the current ensemble, with other candidates in it, on the folds that it has, as a
    share of that error."""

    def __call__(self, candidate: Candidate, beside: tuple[Candidate, ...] = (), /) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What the rules of a run depend on, and which does not change.

    Attributes:
        workers: number of parallel fits on a class of devices.
        tune: whether to continue after the defaults.
        race: whether trials are dropped after a bad first fold.
        gain: how much a candidate lowers the error of the current ensemble.
        weights: weight of each member of the current ensemble by model and trial.
        clearly_behind: whether the first of two candidates is significantly worse than the second, on the folds of both.
        is_timed: the run has a time limit. Only then may decisions depend on measured times of other models.
    """

    competition: Competition
    workers: Callable[[str], int]
    tune: bool
    race: bool
    gain: Gain
    weights: Callable[[], Mapping[tuple[str, int], float]]
    clearly_behind: Callable[[Candidate, Candidate], bool]
    is_timed: bool
    policy: Policy = POLICY


@dataclass
class Memory:
    """What is known from earlier decisions and fits.

    Attributes:
        totals: seconds that all workers of a class of devices have in the whole run.
        begun: candidates with some of their folds of which more than one was begun.
        overheads, slowdowns: those of the last fits by class of devices, as in `ExpectedSeconds`.
    """

    totals: dict[str, float] = field(default_factory=dict[str, float])
    begun: tuple[Candidate, ...] = ()
    overheads: dict[str, deque[float]] = field(default_factory=dict[str, deque[float]])
    slowdowns: dict[str, deque[float]] = field(default_factory=dict[str, deque[float]])


class Moment:
    """The state of a run when the fit to start next on a class of devices is chosen.

    Attributes:
        running: (model, trial, fold) of the fits in progress on all devices.
        seconds: until fitting ends.
        limit: seconds that one fit may take.
        device: class of the devices that the fit starts on.
    """

    def __init__(
        self, setup: Setup, memory: Memory, running: set[Fold], seconds: float, limit: float, device: str = CPU
    ) -> None:
        self.setup, self.policy, self.competition = setup, setup.policy, setup.competition
        self._memory = memory
        self.running, self.seconds, self.limit, self.device = running, seconds, limit, device
        self._expected = ExpectedSeconds(
            self.competition, self.policy, memory.overheads, memory.slowdowns, corrects=setup.is_timed
        )

    def beside(self, running: set[Fold]) -> Moment:
        """The same moment with other fits in progress."""
        return Moment(self.setup, self._memory, set(running), self.seconds, self.limit, self.device)

    def remember(self) -> None:
        """Find the candidates that are being completed, and the time of the whole run."""
        self._memory.begun = tuple(
            candidate
            for candidate in self.competition.candidates.values()
            if candidate.status == "active"
            and candidate.results
            and candidate.n_folds - len(self.open_folds(candidate)) > 1
            and self._can_end(candidate, self.policy.short_share)
        )
        used = sum(record.spent for record in self.competition.models.values() if record.device == self.device)
        used += sum(self._takes(name) for name, _, _ in self.running if self.is_own(name))
        self._memory.totals[self.device] = used + self.left_of_workers

    def _takes(self, name: str) -> float:
        """Expected seconds of a fit in progress. The limit of fits ends that of a model that the user names, which may be expected
        to take many times the time of the run."""
        expected = self.expected(name)
        return min(expected, self.limit) if self.competition.models[name].is_named else expected

    @property
    def workers(self) -> int:
        """Number of parallel fits."""
        return self.setup.workers(self.device)

    def total(self, device: str | None = None) -> float:
        """Seconds that all workers of a class of devices have in the whole run; those on which the fit starts if None."""
        return self._memory.totals.get(device or self.device, math.inf)

    @property
    def left_of_workers(self) -> float:
        """Seconds that all workers have left."""
        return self.workers * self.seconds

    @property
    def begun(self) -> tuple[Candidate, ...]:
        """Candidates that are being completed."""
        return self._memory.begun

    def is_own(self, name: str) -> bool:
        """Whether the fits of a model run on the devices that the fit starts on."""
        return self.competition.models[name].device == self.device

    def may_fit(self, record: ModelRecord) -> bool:
        """Whether a fit of a model may start now on these devices."""
        return record.device == self.device and not record.is_held

    def own_candidates(self) -> list[Candidate]:
        """The candidates on these devices."""
        return [candidate for candidate in self.competition.candidates.values() if self.is_own(candidate.model)]

    def open_folds(self, candidate: Candidate) -> list[int]:
        """Folds of a candidate that have no fit and none in progress."""
        return self.competition.open_folds(candidate, self.running)

    def next_fold(self, candidate: Candidate) -> int | None:
        """The next fold of a candidate that can start now."""
        return self.competition.next_fold(candidate, self.running)

    def expected(self, name: str) -> float:
        """Expected seconds of the next fit of a model."""
        return self._expected.of_model(name)

    def expected_of(self, candidate: Candidate) -> float:
        """Expected seconds of another fold of a candidate."""
        return self._expected.of_candidate(candidate)

    def in_next_folds(self, candidate: Candidate) -> float:
        """The expected seconds of all open folds of a candidate as a multiple of those of the next one; 1 without any."""
        open_folds = self.open_folds(candidate)
        if not open_folds:
            return 1.0
        each = self._expected.in_first_folds(candidate, open_folds[:1])
        return self._expected.in_first_folds(candidate, open_folds) / each

    def shortest(self, name: str) -> float:
        """Seconds for which a fit of a model starts: near the end, a model that plans its steps gets shorter fits."""
        plans_steps = self.competition.models[name].plans_steps
        return self.expected(name) * (self.policy.short_share if plans_steps else 1.0)

    def is_cheap(self, name: str) -> bool:
        """Whether a first fold takes hardly any of the time."""
        return self.expected(name) <= self.policy.cheap_share * self.total()

    def is_quick(self, name: str) -> bool:
        """Whether a first fold takes little of the time."""
        return self.expected(name) <= self.policy.quick_share * self.total()

    def is_cut(self, record: ModelRecord) -> bool:
        """Whether a fit of a model is expected to end before it is done."""
        return self.expected(record.name) > self.limit

    def slot(self, n_folds: float) -> float:
        """Seconds for each of so many fits, so that all of them end in time."""
        return self.seconds / (self.policy.safety * math.ceil(n_folds / self.workers))

    def ends_in_time(self, n_folds: int, each: float, beside: float = 0.0, workers: int | None = None) -> bool:
        """Whether that many fits end in time, beside others that take `beside` seconds."""
        workers = workers or self.workers
        rounds = -(-n_folds // workers)
        return self.policy.safety * max(rounds * each, (beside + n_folds * each) / workers) <= self.seconds

    def fits(self, name: str, n_folds: int) -> bool:
        """Whether that many fits of a model end in time, beside candidates that are being completed."""
        return self.ends_in_time(n_folds, self.shortest(name), self.committed_beside(name))

    def committed_beside(self, name: str) -> float:
        """Expected seconds of the missing folds of candidates of other models that are being completed on the same devices."""
        others = (c for c in self.begun if c.model != name and self.is_own(c.model))
        return sum(len(candidate.missing_folds) * self.expected_of(candidate) for candidate in others)

    @cached_property
    def committed(self) -> tuple[float, float]:
        """Expected seconds of the missing folds of candidates that are being completed, and of those that are to be, too."""
        # No fit lasts longer than the run: near the end, one in progress on a holdout must not keep all workers busy.
        most = min(self.limit, self.slot(1))
        begun = to_be = 0.0
        for candidate in self.own_candidates():
            if candidate.status != "active":
                continue
            # Most of those that train together are dropped after their first fold.
            is_sibling = candidate.batch is not None and not candidate.results
            n_folds = 1 if is_sibling else len(candidate.missing_folds)
            seconds = n_folds * min(self.expected_of(candidate), most)
            if not self._can_end(candidate, self.policy.short_share if candidate in self.begun else 1.0):
                continue
            if candidate in self.begun or any(fold[:2] == candidate.key for fold in self.running):
                begun += seconds
            elif candidate.results and self.improves(candidate):
                to_be += seconds
        return begun, begun + to_be

    def _can_end(self, candidate: Candidate, share: float) -> bool:
        """Whether the folds of a candidate that are not in progress end in time, each in that share of its expected time. A
        candidate that can no longer be completed keeps no time from others."""
        n_open = len(self.open_folds(candidate))
        each = share * min(self.expected_of(candidate), self.limit)
        workers = self.setup.workers(self.competition.models[candidate.model].device)
        return not n_open or self.ends_in_time(n_open, each, workers=workers)

    def gain(self, candidate: Candidate, beside: tuple[Candidate, ...] = ()) -> float:
        """How much a candidate lowers the error of the ensemble, as a share of it."""
        return self.setup.gain(candidate, beside)

    def gain_share(self, gain: float) -> float:
        """A gain as a share of a large one, from 0 to 1."""
        return min(max(gain / self.policy.large_gain, 0.0), 1.0)

    def improves(self, candidate: Candidate) -> bool:
        """Whether a candidate with at least one fold is to be completed."""
        if len(candidate.results) > 1 or (candidate.trial and not self.setup.race):
            return True
        cost = len(candidate.missing_folds) * self.expected_of(candidate)
        total = self.total(self.competition.models[candidate.model].device)
        return self.gain(candidate) > self.policy.gain_of_all_time * min(1.0, cost / total)
