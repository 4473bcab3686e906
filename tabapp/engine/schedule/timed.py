"""What to fit next in a run with a time limit: only fits that can be useful in the end.

A candidate counts once it has all of its folds, so it is either completed or dropped after its first fold. In this order:

1. Until a candidate is complete: the first folds of a few models, then the other folds of the best of them. If some models take
   hardly any time, and not more than some seconds, only those.
2. The first folds of models that take hardly any time.
3. The first folds of quick models that start first on all tables, and of those with a high merit: on some tables they are far ahead
   of all others, and later there would be no time for their other folds. Where a network is dropped, those of lower merit count as
   models without merit. On a single holdout, models that would be cut at the limit of fits do not come before cheaper ones.
4. The other folds of candidates whose first fold improves the ensemble, together with those that are being completed: by
   improvement, less the price of their time. Those that improve it far more than candidates that are being completed go first.
5. The first folds of other models, those that take little time first, without networks where several were of no use. Here and in
   2 and 3, all of their folds must end in time; here and in 2, dropped first folds may take little of it, or as much as new trials.
6. The first fold of the second trial of quick models that start first on all tables, and of other models than networks that take
   almost no time: its hyperparameters differ much from the defaults, and on some tables only they improve the ensemble.
7. New trials of models in the ensemble, in proportion to their weight and to the success of their earlier trials. A trial is pruned
   if its first fold does not improve the ensemble.
8. In time that nothing else can use: candidates that do not improve the ensemble yet, models that have not run, and new trials of
   models outside the ensemble that are not far behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.devices import CPU
from tabapp.engine.schedule.scheduler import ModelRecord
from tabapp.engine.schedule.starting import (
    AFFORDABLE_SHARE,
    CHEAP_SECONDS,
    CHEAP_SHARE,
    SHORT_SHARE,
    Gain,
    StartingScheduler,
)
from tabapp.engine.schedule.time_left import SAFETY, TimeLeft
from tabapp.engine.schedule.work import Fold, Work

N_RIVALS = 3
"""Models with a first fold of which the best is completed before others start."""
LEADER_SHARE, LARGE_GAIN = 0.9, 0.05
"""Replaces `AFFORDABLE_SHARE` for the first candidate that is completed, for the last one, and for those whose first
fold lowers the error of the ensemble by at least the second value; between no gain and that, the share grows with the gain."""
PRICE_OF_ALL_TIME_LEFT = 0.05
"""Improvement of the ensemble, as a share of its error, that would be worth all of the time left: a candidate with a smaller
improvement comes before a better one if it takes so much less time."""
FAR_BEHIND = 0.005
"""A model whose best trial raises the error of the ensemble by this share gets no new trials."""
OVERRUN = 2.0
"""Most that the first fold of a model without prospects or of a network's new trial takes, as a multiple of its expected time."""
TINY_SHARE = 0.0025
"""A first fold that takes at most this share of the time of all workers takes almost no time, so that a second trial costs little
although the first adds nothing. With 600 seconds, that of k nearest neighbors lowers the RMSE on protein_casp by 1 %
(`benchmarks/results/budgets.json`)."""
LONGEST = 2.0
"""Most that the other folds of a candidate take that improves the ensemble by `LARGE_GAIN`, as a multiple of the limit of fits."""


class TimedScheduler(StartingScheduler):
    """Chooses the next fit in a run with a time limit.

    Args:
        models: the competing models.
        gain: how much a candidate lowers the error of the current ensemble.
        weights: weight of each member of the current ensemble by model and trial.
        others: as in `Scheduler`.
    """

    def __init__(
        self,
        models: Iterable[ModelRecord],
        *,
        gain: Gain,
        weights: Callable[[], Mapping[tuple[str, int], float]],
        **others: Any,
    ) -> None:
        super().__init__(models, gain=gain, **others)
        self._weights = weights
        self._being_completed: tuple[Candidate, ...] = ()
        """Candidates with some of their folds of which more than one was begun."""

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
        self._device, self._limit = device, fit_limit
        with self._expected.decision():
            return self._next_work(running, seconds_left, fit_limit) if seconds_left > 0 else None

    def _next_work(self, running: set[Fold], seconds_left: float, fit_limit: float) -> Work | None:
        self._being_completed = tuple(
            candidate
            for candidate in self.candidates.values()
            if candidate.status == "active"
            and candidate.results
            and candidate.n_folds - len(self.open_folds(candidate, running)) > 1
            and self._can_end(candidate, SHORT_SHARE, running, seconds_left, fit_limit)
        )
        time = self._time_left(running, seconds_left, fit_limit)
        if self._device != CPU and (shortest := self._shortest_network(running, time)) is not None:
            return shortest
        if not any(candidate.is_complete for candidate in self.candidates.values()):
            early = self._first_complete(running, time)
            if early is not None:
                return early

        def first_fold(may_start: Callable[[ModelRecord], bool]) -> Work | None:
            return self._first_fold(
                running, lambda record: may_start(record) and self._may_start(record, running, time)
            )

        return (
            first_fold(lambda record: self._is_cheap(record.name))
            or first_fold(lambda r: self._has_precedence(r) and (r.merit > 1 or self._is_quick(r.name)))
            or self._begun(running, time)
            or first_fold(lambda record: self._is_quick(record.name))
            or self._first_fold(running, lambda record: self._may_start(record, running, time))
            or self._second_trial(running, time)
            or self._next_share(running, seconds_left, self._targets_of_members())
            or self._ahead(running, time)
            or self._begun(running, time, improving=False)
            or self._first_fold(running, lambda record: self._fits_leftover(record, running, time))
            or self._next_share(running, seconds_left)
            or self._beside(running, seconds_left, self._targets_of_members())
        )

    def _shortest_network(self, running: set[Fold], time: TimeLeft) -> Work | None:
        """The first fold of a short network with precedence, before any network has begun on a GPU: its measured time soon corrects
        the priors of the others."""
        networks = [record for record in self.models.values() if record.uses_device and self._may_fit(record)]
        worthy = [record for record in networks if self._has_precedence(record)]
        if not worthy or any(self.of_model(record.name) for record in networks):
            return None
        shortest = min(worthy, key=lambda record: (self.expected_seconds(record.name), record.name))
        if self.expected_seconds(shortest.name) > CHEAP_SECONDS:
            return None
        return self._first_fold(running, lambda record: record is shortest and self._may_start(record, running, time))

    def _second_trial(self, running: set[Fold], time: TimeLeft) -> Work | None:
        """The first fold of the second trial of a quick core model, or of one that takes almost no time, the cheapest first, if all
        of its folds would end in time."""
        for record in sorted(self.models.values(), key=lambda record: (record.price, record.name)):
            candidates, each = self.of_model(record.name), self.expected_seconds(record.name)
            is_tiny = not record.is_uncertain and each <= TINY_SHARE * self._total
            if (
                not (self._tune and (record.is_core or is_tiny))
                or not self._may_fit(record)
                or self.is_out(record.name)
            ):
                continue
            if len(candidates) != 1 or not candidates[0].results or not self._has_trials_left(record.name):
                continue
            if self._is_quick(record.name) and time.fits(self.n_folds, each, time.committed):
                return Work(self._begin(record.name), 0)
        return None

    def _first_complete(self, running: set[Fold], time: TimeLeft) -> Work | None:
        """The next fit of a run without a complete candidate: a few first folds, then the other folds of the best of them, so that
        there is an ensemble to compare other models with. It may be a weak one: an expensive model is then completed only if it is
        better than the others that have a first fold."""
        cheap = {
            name
            for name, record in self.models.items()
            if self._is_own(name)
            and self._is_cheap(name)
            and (record.is_core or self.expected_seconds(name) <= CHEAP_SECONDS)
        }
        if cheap:
            return self._first_fold(
                running, lambda record: record.name in cheap and self._may_start(record, running, time)
            ) or self._begun(running, time, only=cheap)
        started = {c.model for c in self.candidates.values() if c.results} | {name for name, _, _ in running}
        if sum(map(self._is_own, started)) < N_RIVALS:
            return self._first_fold(running, lambda record: self._may_start(record, running, time))
        return self._begun(running, time)

    def _time_left(self, running: set[Fold], seconds_left: float, fit_limit: float) -> TimeLeft:
        used = sum(record.spent for record in self.models.values() if record.device == self._device)
        used += sum(self.expected_seconds(name) for name, _, _ in running if self._is_own(name))
        self._totals[self._device] = used + self.workers * seconds_left
        # No fit lasts longer than the run: near the end, one in progress on a holdout must not keep all workers busy.
        most = min(fit_limit, self._slot(1, seconds_left))
        committed = begun = 0.0
        for candidate in self._own_candidates():
            if candidate.status != "active":
                continue
            # Most of those that train together are dropped after their first fold.
            is_sibling = candidate.batch is not None and not candidate.results
            n_folds = 1 if is_sibling else len(candidate.missing_folds)
            seconds = n_folds * min(self._expected.of_candidate(candidate), most)
            share = SHORT_SHARE if candidate in self._being_completed else 1.0
            if not self._can_end(candidate, share, running, seconds_left, fit_limit):
                continue
            if candidate in self._being_completed or any(fold[:2] == candidate.key for fold in running):
                begun += seconds
            elif candidate.results and self._improves(candidate):
                committed += seconds
        return TimeLeft(self.workers, seconds_left, fit_limit, begun + committed, begun)

    def _can_end(
        self, candidate: Candidate, share: float, running: set[Fold], seconds_left: float, fit_limit: float
    ) -> bool:
        """Whether the folds of a candidate that are not in progress end in time, each in that share of its expected time. A
        candidate that can no longer be completed keeps no time from others."""
        n_open = len(self.open_folds(candidate, running))
        each = share * min(self._expected.of_candidate(candidate), fit_limit)
        workers = self._workers(self.models[candidate.model].device)
        return not n_open or TimeLeft(workers, seconds_left, fit_limit, 0.0).fits(n_open, each)

    def seconds_for(
        self, candidate: Candidate, running: set[Fold], seconds_left: float, fit_limit: float = math.inf
    ) -> float:
        """Seconds that a fit of a candidate may take, so that its other folds can still be completed. The first of an uncertain
        model's new trial, or of a model that starts because it is expected to take little time, takes not much more. Other folds of
        a candidate whose first lowers the error of the ensemble by much may exceed the limit of fits, as far as candidates that are
        being completed need no time."""
        record = self.models[candidate.model]
        self._device = record.device
        slot = self._slot(max(1, len(self.open_folds(candidate, running))), seconds_left)
        if not candidate.results:
            may_be_long = record.is_core or self._has_prospects(record)
            is_limited = record.is_uncertain if candidate.trial else not may_be_long
            most = OVERRUN * max(self.expected_seconds(record.name), CHEAP_SHARE * self._total)
            return min(slot, fit_limit, most if is_limited and not record.is_favored else math.inf)
        if slot <= fit_limit or not any(other.is_complete for other in self.candidates.values()):
            return min(slot, fit_limit)
        free = self.workers * seconds_left - self._committed_beside(record.name)
        each = free / (SAFETY * max(1, len(candidate.missing_folds)))
        longer = fit_limit * (1 + (LONGEST - 1) * min(max(self._gain(candidate) / LARGE_GAIN, 0.0), 1.0))
        return min(slot, max(fit_limit, min(longer, each)))

    def _begun(
        self, running: set[Fold], time: TimeLeft, *, improving: bool = True, only: Container[str] | None = None
    ) -> Work | None:
        """The next fold of a candidate that has some of its folds: one that more than one fold was begun of, then by improvement
        per second. One that takes most of the time left comes last: a single model is less certain than several.

        Args:
            improving: leave out candidates that do not improve the ensemble.
            only: names of the models that may continue; None means all.
        """
        options: list[tuple[bool, bool, int, float, Candidate]] = []
        share = AFFORDABLE_SHARE if any(each.is_complete for each in self.candidates.values()) else LEADER_SHARE
        for candidate in self.candidates.values():
            record = self.models[candidate.model]
            if candidate.status != "active" or not candidate.results or self.is_out(record.name):
                continue
            if not self._may_fit(record):
                continue
            if only is not None and record.name not in only:
                continue
            folds, each = self.open_folds(candidate, running), min(self._expected.of_candidate(candidate), time.limit)
            is_new = candidate not in self._being_completed
            if not is_new:
                # At its deadline, a fit returns its best so far: rather that than two folds that count nowhere.
                each = max(SHORT_SHARE * each, min(each, 0.999 * self._slot(max(1, len(folds)), time.seconds)))
            leads = is_new and improving and self._leads(candidate)
            committed = self._committed_beside(record.name) if is_new and not leads else 0.0
            if self.next_fold(candidate, running) is None or not time.fits(len(folds), each, committed):
                continue
            if improving and not record.is_favored and not self._improves(candidate):
                continue
            cost = len(folds) * each
            gain = self._gain(candidate, self._being_completed if is_new and improving else ())
            affordable = share + (LEADER_SHARE - share) * min(max(gain / LARGE_GAIN, 0.0), 1.0)
            is_free = not improving or not is_new or record.is_favored
            if not is_free and cost > LEADER_SHARE * time.of_workers:
                continue
            comes_last = not is_free and cost > affordable * time.of_workers
            value = gain - PRICE_OF_ALL_TIME_LEFT * cost / time.of_workers if improving else gain * cost
            options.append((not record.is_favored, comes_last, -1 if leads else int(is_new), -value, candidate))
        if not options:
            return None
        candidate = min(options, key=lambda option: (*option[:4], option[4].key))[-1]
        fold = self.next_fold(candidate, running)
        return None if fold is None else Work(candidate, fold)

    def _leads(self, candidate: Candidate) -> bool:
        """Whether a candidate with one fold leaves so much less of the error than each of those that are being completed that it
        does not wait for them: beside them, its own folds might not end in time."""
        if not any(other.is_complete for other in self.candidates.values()):
            return False
        rivals = [self._gain(other) for other in self._being_completed if self._is_own(other.model)]
        return bool(rivals) and 1 - self._gain(candidate) <= (1 - LARGE_GAIN) * (1 - max(rivals))

    def _committed_beside(self, name: str) -> float:
        """Expected seconds of the missing folds of candidates of other models that are being completed on the same devices."""
        others = (c for c in self._being_completed if c.model != name and self._is_own(c.model))
        return sum(len(candidate.missing_folds) * self._expected.of_candidate(candidate) for candidate in others)

    def _targets(self) -> dict[str, float]:
        """Of models that are not far behind the ensemble."""
        near: dict[str, float] = {}
        for name, target in super()._targets().items():
            best = self.best_of(name)
            if self.models[name].is_favored or (best is not None and self._gain(best) > -FAR_BEHIND):
                near[name] = target
        return near

    def _targets_of_members(self) -> dict[str, float]:
        """The weight of a model in the ensemble, times the share of its earlier new trials that are in it. A model that the user
        favors counts as one with the largest weight."""
        weights = self._weights()
        of_model: dict[str, float] = {}
        for (name, _), weight in weights.items():
            of_model[name] = of_model.get(name, 0.0) + weight
        targets: dict[str, float] = {}
        for record in self.models.values():
            if self.is_out(record.name) or not any(candidate.results for candidate in self.of_model(record.name)):
                continue
            weight = max(of_model.values(), default=1.0) if record.is_favored else of_model.get(record.name, 0.0)
            tried = [c.key for c in self.of_model(record.name) if c.trial and c.status != "active"]
            success = (1 + sum(key in weights for key in tried)) / (1 + len(tried))
            if weight > 0:
                targets[record.name] = record.share * weight * (1.0 if record.is_favored else success)
        return targets

    def fits(self, name: str, n_folds: int, seconds_left: float) -> bool:
        time = TimeLeft(self.workers, seconds_left, math.inf, 0.0)
        return time.fits(n_folds, self._shortest(name), self._committed_beside(name))

    def _ahead(self, running: set[Fold], time: TimeLeft) -> Work | None:
        """Another fold of a new trial whose first is in progress, if there is nothing else to do."""
        for name, trial, _ in sorted(running):
            candidate = self.candidates[name, trial]
            folds, record = self.open_folds(candidate, running), self.models[name]
            fold = self.next_fold(candidate, running)
            if not trial or candidate.status != "active" or not self._may_fit(record) or record.stopped or fold is None:
                continue
            if candidate.batch is not None and not candidate.results:
                continue
            if time.fits(len(folds), self.expected_seconds(name)):
                return Work(candidate, fold)
        return None

    def is_behind(self, candidate: Candidate) -> str | None:
        """Why a new trial gets no further folds after its first, or None if it continues: it does not improve the ensemble."""
        if not self._race or not candidate.trial or len(candidate.results) != 1 or candidate.n_folds == 1:
            return None
        if self.models[candidate.model].is_favored or self._improves(candidate):
            return None
        fold, result = next(iter(candidate.results.items()))
        shown = "undefined" if result.score is None else f"{result.score:.5g}"
        return f"fold {fold + 1}: {shown}; it does not improve the ensemble"
