"""Chooses the next fit of a run: asks the rules in their order, and ends candidates that are not worth their other folds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.devices import CPU
from tabapp.engine.schedule.choices import Rule, option_of
from tabapp.engine.schedule.competition import ModelRecord
from tabapp.engine.schedule.moment import Memory, Moment, Setup
from tabapp.engine.schedule.preview import preview
from tabapp.engine.schedule.rules import TIMED_RULES, UNTIMED_RULES
from tabapp.engine.schedule.starting import has_prospects, has_turn, turn_seconds
from tabapp.engine.schedule.work import Fold, Work
from tabapp.run.record import events as ev

N_OVERHEADS = 20
"""Last fits whose median is the expected overhead of the next."""
N_SLOWDOWNS = 3
"""Last fits whose median is the expected slowdown of the next; it changes when libraries are loaded."""


class Scheduler:
    """Chooses the next fit.

    Args:
        rules: in their order; by default, those of a run with or without a time limit.
    """

    def __init__(self, setup: Setup, rules: tuple[Rule, ...] | None = None) -> None:
        self._setup, self._memory = setup, Memory()
        self.competition = setup.competition
        self._rules = rules or (TIMED_RULES if setup.is_timed else UNTIMED_RULES)

    def next_work(
        self, running: set[Fold], seconds_left: float, fit_limit: float = math.inf, device: str = CPU
    ) -> Work | None:
        """The next fit to start, or None if there is none that the time allows.

        Args:
            running: (model, trial, fold) of the fits in progress on all devices.
            seconds_left: seconds until fitting ends.
            fit_limit: seconds that one fit may take.
            device: class of the devices that it starts on.
        """
        if seconds_left <= 0:
            return None
        moment = Moment(self._setup, self._memory, running, seconds_left, fit_limit, device)
        moment.remember()
        return next(filter(None, (rule(moment) for rule in self._rules)), None)

    def seconds_for(
        self, candidate: Candidate, running: set[Fold], seconds_left: float, fit_limit: float = math.inf
    ) -> float:
        """Seconds that a fit of a candidate may take, so that its other folds can still be completed. The first of an uncertain
        model's new trial, or of a model that starts because it is expected to take little time, takes not much more. Other folds of
        a candidate whose first lowers the error of the ensemble by much may exceed the limit of fits, as far as candidates that are
        being completed need no time. The first fold of a model that the user names gets its part of the time.

        Args:
            running, seconds_left, fit_limit: as in `next_work`.
        """
        record, policy = self.competition.models[candidate.model], self._setup.policy
        m = Moment(self._setup, self._memory, running, seconds_left, fit_limit, record.device)
        slot = m.slot(m.in_next_folds(candidate))
        if not candidate.results:
            is_limited = record.is_uncertain if candidate.trial else not (record.is_core or has_prospects(m, record))
            most = policy.overrun * max(m.expected(record.name), policy.cheap_share * m.total())
            turn = turn_seconds(m) if has_turn(m, record) else math.inf
            return min(slot, fit_limit, turn, most if is_limited and not record.is_favored else math.inf)
        if slot <= fit_limit or not self.competition.has_complete:
            return min(slot, fit_limit)
        free = m.left_of_workers - m.committed_beside(record.name)
        each = free / (policy.safety * max(1, len(candidate.missing_folds)))
        longer = fit_limit * (1 + (policy.longest - 1) * m.gain_share(m.gain(candidate)))
        return min(slot, max(fit_limit, min(longer, each)))

    def preview(
        self, running: Callable[[], set[Fold]], left: Callable[[], float], fit_limit: Callable[[str], float]
    ) -> ev.FitsPlanned:
        """What would follow if no fit in progress ended; the run is not changed.

        Args:
            running, left: return the first arguments of `next_work`.
            fit_limit: returns the seconds that one fit on a class of devices may take.
        """
        return preview(self._setup, self._memory, self._rules, running(), max(0.0, left()), fit_limit)

    def expected_seconds(self, candidate: Candidate) -> float:
        """Expected seconds of the next fit of a candidate."""
        device = self.competition.models[candidate.model].device
        return Moment(self._setup, self._memory, set(), math.inf, math.inf, device).expected_of(candidate)

    def cap_share(self, device: str = CPU) -> float:
        """The largest share of the budget that one fit on a class of devices may take."""
        policy, competition = self._setup.policy, self.competition
        n_others = sum(record.device != device for record in competition.models.values())
        n_fits = max(1, competition.n_expected - n_others) * competition.n_folds
        rounds = -(-n_fits // self._setup.workers(device))
        share = policy.cap_share if competition.n_folds > 1 else policy.holdout_cap_share
        return max(share, policy.cap_of_all / rounds)

    def record_times(self, overhead: float, slowdown: float = 1.0, device: str = CPU) -> None:
        """Record what a fit took beside training and predicting: to start, to prepare features, and to save; and how much it waited
        for a processor."""
        if self._setup.is_timed:
            self._memory.overheads.setdefault(device, deque(maxlen=N_OVERHEADS)).append(overhead)
            self._memory.slowdowns.setdefault(device, deque(maxlen=N_SLOWDOWNS)).append(slowdown)

    def waits_for_user(self, seconds_left: float) -> bool:
        """Whether a model paused by the user has something left to fit."""
        paused = [record for record in self.competition.models.values() if record.paused]
        return seconds_left > 0 and any(self._could_resume(record, seconds_left) for record in paused)

    def _could_resume(self, record: ModelRecord, seconds_left: float) -> bool:
        competition, name = self.competition, record.name
        if competition.is_out(name):
            return False
        if competition.has_fold(name):
            moment = Moment(self._setup, self._memory, set(), seconds_left, math.inf, record.device)
            return option_of(moment, name) is not None
        active = any(candidate.status == "active" for candidate in competition.of_model(name))
        return active or competition.has_trials_left(name)

    def is_behind(self, candidate: Candidate) -> str | None:
        """Why a new trial gets no further folds after its first, or None if it continues."""
        if not self._setup.race or not candidate.trial or len(candidate.results) != 1 or candidate.n_folds == 1:
            return None
        return self._adds_nothing(candidate) if self._setup.is_timed else self._loses_to_own_best(candidate)

    def _adds_nothing(self, candidate: Candidate) -> str | None:
        """With a time limit, a trial is behind if its first fold does not improve the ensemble."""
        record = self.competition.models[candidate.model]
        moment = Moment(self._setup, self._memory, set(), math.inf, math.inf, record.device)
        if record.is_favored or moment.improves(candidate):
            return None
        fold, result = next(iter(candidate.results.items()))
        shown = "undefined" if result.score is None else f"{result.score:.5g}"
        return f"fold {fold + 1}: {shown}; it does not improve the ensemble"

    def _loses_to_own_best(self, candidate: Candidate) -> str | None:
        """Without a time limit, a trial is behind if its first fold is worse than the same fold of its model's best complete
        candidate by more than a share of the standard deviation between the folds of that candidate."""
        competition = self.competition
        rivals = [c for c in competition.of_model(candidate.model) if c.is_complete and c is not candidate]
        if not rivals:
            return None
        best, metric = min(rivals, key=competition.loss_of), metrics.get(competition.metric)
        own, known = candidate.fold_scores, best.fold_scores
        least = self._setup.policy.racing_spreads * float(np.std(list(known.values())))
        # Where the metric is undefined on the fold, the trial continues.
        for fold in own.keys() & known.keys():
            if metric.as_loss(own[fold]) - metric.as_loss(known[fold]) > least:
                return f"fold {fold + 1}: {own[fold]:.5g}, worse than {known[fold]:.5g} of trial {best.trial}"
        return None
