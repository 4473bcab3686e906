"""What to fit next. Pure decisions over candidates, measured seconds and the time that is left.

The order: every model's defaults on fold 0, core models and those of merit first, cheap ones before dear ones, so that the board
fills at once; then the other folds of the defaults, since different models make an ensemble; then new trials, where a better-ranked
model gets more of the time. A model whose defaults are clearly behind the best model on fold 0 waits with its further folds until
tuning, and a trial that is behind its own model's best on fold 0 gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tabapp import metrics
from tabapp.engine.candidates import Candidate

RACING_SPREADS = 0.25
FAILURES_TO_GIVE_UP = 2
CAP_SHARE, HOLDOUT_CAP_SHARE, ALL_OF_IT = 0.15, 0.3, 0.9
"""No fit may take more than this share of the budget, so that one slow model cannot starve the others. With one holdout a fit is
all that a trial has. Where the defaults of few models are all that there is to fit, each gets its part of nearly all of it."""
FIRST_SHARE = 0.4
"""Models beyond the core ones start while first folds have taken less than this share of the time that all workers have."""
LEAST_SHARE = 0.05
"""In time that nothing else has a use for, a fit starts when that is at least this share of what it is expected to want: at its
deadline, a model returns the best that it has by then."""
AFFORDABLE_SHARE, LEADER_SHARE, URGENT_SHARE = 0.6, 0.9, 0.5
"""Defaults are completed when that takes at most this share of the time that all workers have left; those of the best model so far
may take nearly all of it, and come before all others' where they take more than half, or soon there would be no time for them."""


@dataclass
class ModelRecord:
    """What the scheduler knows of a model: its prior cost of one fit in seconds, whether it starts before the others, how many
    times its cost it is worth, what it has spent, how it failed, and what the user wants: `stopped` for good, `paused`, or a
    `share` of the time above or below its due."""

    name: str
    prior_seconds: float
    is_core: bool = True
    merit: float = 1.0
    spent: float = 0.0
    failures: int = 0
    stopped: bool = False
    paused: bool = False
    share: float = 1.0

    @property
    def is_favoured(self) -> bool:
        """Whether the user gives it more than its due."""
        return self.share > 1

    @property
    def price(self) -> float:
        """The cost by which models that have no score yet queue."""
        return self.prior_seconds / self.merit


@dataclass(frozen=True)
class Work:
    """One fit to start."""

    candidate: Candidate
    fold: int


class Scheduler:
    """Chooses the next fit.

    Args:
        models: those that compete, with their prior costs.
        workers: fits at a time.
        trials: most trials a model, None for no bound.
        tune: whether to go on after the defaults.
        race: whether trials that start behind are given up after fold 0.
        new_trial: asks the tuner of a model for a new candidate.
        loss: a candidate's out-of-fold loss, lower is better.
        clearly_behind: whether the first of two candidates is worse than the second beyond doubt, on the folds of both.
    """

    def __init__(
        self,
        models: Iterable[ModelRecord],
        *,
        metric: str,
        workers: int,
        trials: int | None,
        tune: bool,
        race: bool,
        new_trial: Callable[[str], Candidate],
        loss: Callable[[Candidate], float],
        clearly_behind: Callable[[Candidate, Candidate], bool],
    ) -> None:
        self.models = {model.name: model for model in models}
        self._metric = metric
        self._workers = workers
        self._trials = trials
        self._tune = tune
        self._race = race
        self._new_trial = new_trial
        self._loss = loss
        self._clearly_behind = clearly_behind
        self.candidates: dict[tuple[str, int], Candidate] = {}

    def of_model(self, name: str) -> list[Candidate]:
        """A model's candidates, oldest first."""
        return [candidate for candidate in self.candidates.values() if candidate.model == name]

    def best_of(self, name: str) -> Candidate | None:
        """A model's best candidate: most folds first, then the score; None before it has any."""
        scored = [candidate for candidate in self.of_model(name) if candidate.results]
        return min(scored, key=lambda c: (-len(c.results), self._loss(c)), default=None)

    def loss_of(self, candidate: Candidate) -> float:
        """A candidate's out-of-fold loss, lower is better."""
        return self._loss(candidate)

    def add(self, candidate: Candidate) -> Candidate:
        """Take a candidate into account."""
        self.candidates[candidate.key] = candidate
        return candidate

    def is_out(self, name: str) -> bool:
        """Whether a model gets no more fits: stopped by the user, or it fails and never worked."""
        record = self.models[name]
        never_worked = not any(candidate.results for candidate in self.of_model(name))
        return record.stopped or (never_worked and record.failures >= FAILURES_TO_GIVE_UP)

    def cap_share(self, n_folds: int) -> float:
        """The share of the budget that one fit may take at most."""
        rounds = -(-len(self.models) * n_folds // self._workers)
        return max(CAP_SHARE if n_folds > 1 else HOLDOUT_CAP_SHARE, ALL_OF_IT / rounds)

    def holds_back(self, seconds_left: float) -> bool:
        """Whether there is something left to do for a model that the user has paused."""
        return any(self._could_go_on(record, seconds_left) for record in self.models.values() if record.paused)

    def _could_go_on(self, record: ModelRecord, seconds_left: float) -> bool:
        if self.is_out(record.name) or seconds_left <= 0:
            return False
        candidates = self.of_model(record.name)
        if any(candidate.results for candidate in candidates):
            return self._option_of(record.name, set(), seconds_left) is not None
        return any(candidate.status == "active" for candidate in candidates) or self._has_trials_left(record.name)

    def expected_seconds(self, name: str) -> float:
        """Seconds that one more fit of a model is expected to take, from what was measured or its prior."""
        measured = [result.seconds for candidate in self.of_model(name) for result in candidate.results.values()]
        return float(np.mean(measured[-10:])) if measured else self.models[name].prior_seconds

    def next_work(self, running: set[tuple[str, int, int]], seconds_left: float) -> Work | None:
        """The next fit to start, or None when there is nothing that the time allows.

        Args:
            running: (model, trial, fold) of the fits at work.
            seconds_left: until fitting must be over; infinite without a clock.
        """
        if seconds_left <= 0:
            return None
        return (
            self._first_fold(running, seconds_left, may_begin=self._may_begin)
            or self._defaults(running, seconds_left)
            or self._next_share(running, seconds_left)
            or self._first_fold(running, seconds_left, may_begin=self._fits)
        )

    def _first_fold(
        self,
        running: set[tuple[str, int, int]],
        seconds_left: float,
        may_begin: Callable[[ModelRecord, set[tuple[str, int, int]], float], bool],
    ) -> Work | None:
        order = sorted(
            self.models.values(), key=lambda r: (not r.is_favoured, not r.is_core and r.merit <= 1, r.price, r.name)
        )
        for record in order:
            if record.paused or self.is_out(record.name):
                continue
            candidates = self.of_model(record.name)
            if any(candidate.results for candidate in candidates):
                continue
            at_once = record.is_core or record.is_favoured
            if not candidates and not at_once and not may_begin(record, running, seconds_left):
                continue
            active = [candidate for candidate in candidates if candidate.status == "active"]
            if not active and not self._has_trials_left(record.name):
                continue
            candidate = active[0] if active else self.add(self._new_trial(record.name))
            if (*candidate.key, 0) not in running:
                return Work(candidate, 0)
        return None

    def _may_begin(self, record: ModelRecord, running: set[tuple[str, int, int]], seconds_left: float) -> bool:
        """Whether there is time for the first fold of a model that is not a core one, beside what the models so far have used."""
        at_work = sum(self.models[name].prior_seconds for name, _, _ in running)
        used = sum(other.spent for other in self.models.values()) + at_work
        return used + record.price <= FIRST_SHARE * (used + self._workers * seconds_left)

    def _fits(self, record: ModelRecord, running: set[tuple[str, int, int]], seconds_left: float) -> bool:
        """Whether a first fold gets time that nothing else has a use for: what is at work, if anything, is such too. Any fold is
        better than a run without a score."""
        first = [name for name, _, _ in running if not any(c.results for c in self.of_model(name))]
        idle = len(first) == len(running) and not any(self.models[name].is_core for name in first)
        without_score = not any(candidate.results for candidate in self.candidates.values())
        return idle and (without_score or LEAST_SHARE * record.prior_seconds <= seconds_left)

    def _defaults(self, running: set[tuple[str, int, int]], seconds_left: float) -> Work | None:
        """A further fold of a model's first working trial: cheap and good ones first, but before any other one that was begun, and
        the best one where its time runs out."""
        ranked = self._ranked()
        leader = self.best_of(ranked[0]) if ranked else None
        options: list[tuple[bool, float, Candidate]] = []
        for rank, name in enumerate(ranked, start=1):
            candidate, record = next(c for c in self.of_model(name) if c.results), self.models[name]
            if record.paused or candidate.status != "active" or leader is None:
                continue
            cost = len(candidate.missing_folds) * self.expected_seconds(name)
            begun, leads, time_left = len(candidate.results) > 1, name == leader.model, self._workers * seconds_left
            affordable = cost <= (LEADER_SHARE if leads else AFFORDABLE_SHARE) * time_left
            urgent = begun or (leads and affordable and cost > URGENT_SHARE * time_left)
            if begun or record.is_favoured or (affordable and not self._clearly_behind(candidate, leader)):
                options.append((not urgent, cost * rank / record.share, candidate))
        for _, _, candidate in sorted(options, key=lambda option: option[:2]):
            option = self._option_of(candidate.model, running, seconds_left)
            if option is not None and option[0] is candidate:
                return Work(candidate, option[1])
        return None

    def _next_share(self, running: set[tuple[str, int, int]], seconds_left: float) -> Work | None:
        """The fit whose model is furthest below its share of the time: half as much for the second rank as for the first, a third
        for the third, and so on. What the fit is expected to take counts as spent, so that cheap ones come before dear ones. A
        model that the user favours counts as one of the first rank, times its share."""
        options: list[tuple[float, str, Candidate | None, int]] = []
        for rank, name in enumerate(self._ranked(), start=1):
            record = self.models[name]
            option = None if record.paused else self._option_of(name, running, seconds_left)
            if option is not None:
                at_work = sum(key[0] == name for key in running)
                expected = self.expected_seconds(name)
                due = record.share if record.is_favoured else record.share / rank
                share = (record.spent + (1 + at_work) * expected) / due
                options.append((share, name, *option))
        if not options:
            return None
        _, name, candidate, fold = min(options, key=lambda option: option[:2])
        return Work(candidate or self.add(self._new_trial(name)), fold)

    def _option_of(
        self, name: str, running: set[tuple[str, int, int]], seconds_left: float
    ) -> tuple[Candidate | None, int] | None:
        """What a model would fit next: a fold that its trial misses, or fold 0 of a new trial (None as candidate); None when all
        of it is at work, or the trial could not be completed in the time that is left."""
        each = self.expected_seconds(name)
        candidates = self.of_model(name)
        active = [candidate for candidate in candidates if candidate.status == "active"]
        if active:
            candidate = active[0]
            open_folds = [fold for fold in candidate.missing_folds if (*candidate.key, fold) not in running]
            rounds = -(-len(open_folds) // self._workers)
            if not open_folds or not candidate.results or rounds * each > seconds_left:
                return None
            return candidate, open_folds[0]
        rounds = -(-candidates[0].n_folds // self._workers)
        tunes = self._tune or self.models[name].is_favoured
        if not tunes or not self._has_trials_left(name) or rounds * each > seconds_left:
            return None
        return None, 0

    def _ranked(self) -> list[str]:
        """Models that may get time, best first, compared on the folds that the best trial of every one of them has."""
        best = {name: self.best_of(name) for name in self.models if not self.is_out(name)}
        scored = {name: candidate for name, candidate in best.items() if candidate is not None}
        if not scored:
            return []
        covered = [set(candidate.results) for candidate in scored.values()]
        common = covered[0].intersection(*covered[1:])
        sign = -1.0 if metrics.get(self._metric).greater_is_better else 1.0

        def loss(name: str) -> float:
            results = scored[name].results
            return sign * float(np.mean([results[fold].score for fold in common or results]))

        return sorted(scored, key=lambda name: (loss(name), name))

    def _has_trials_left(self, name: str) -> bool:
        """A model that the user favours may go beyond the bound by as much."""
        bound = self._trials
        return bound is None or len(self.of_model(name)) < round(bound * max(1.0, self.models[name].share))

    def is_behind(self, candidate: Candidate) -> str | None:
        """Why a tuning trial gets no further folds after its first, or None when it goes on.

        It is behind when its first fold is worse than the same fold of its model's best complete candidate by more than a
        quarter of the spread that the best one shows between folds.
        """
        if not self._race or candidate.trial == 0 or len(candidate.results) != 1 or candidate.n_folds == 1:
            return None
        rivals = [c for c in self.of_model(candidate.model) if c.is_complete and c is not candidate]
        if not rivals:
            return None
        best = min(rivals, key=self._loss)
        fold, result = next(iter(candidate.results.items()))
        spread = float(np.std([other.score for other in best.results.values()]))
        greater = metrics.get(self._metric).greater_is_better
        behind = best.results[fold].score - result.score if greater else result.score - best.results[fold].score
        if behind <= RACING_SPREADS * spread:
            return None
        return f"fold {fold + 1}: {result.score:.5g} is behind {best.results[fold].score:.5g} of trial {best.trial}"
