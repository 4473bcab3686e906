"""What to fit next in a run with a time limit: only fits that can be useful in the end.

A candidate counts once it has all of its folds, so it is either completed or dropped after its first fold. In this order:

1. Until a candidate is complete: the first folds of a few models, then the other folds of the best of them. If some models take
   hardly any time, and not more than some seconds, only those.
2. The first folds of models that take hardly any time.
3. The first folds of quick models that start first on all tables, and of those with a high merit: on some tables they are far ahead
   of all others, and later there would be no time for their other folds. Where a network is dropped, those of lower merit count as
   models without merit.
4. The other folds of candidates whose first fold improves the ensemble, together with those that are being completed: by
   improvement, less the price of their time. Those that improve it far more than candidates that are being completed go first.
5. The first folds of other models, those that take little time first, without networks where several were of no use. Here and in
   2 and 3, all of their folds must end in time; here and in 2, dropped first folds may take little of it, or as much as new trials.
6. The first fold of the second trial of quick models that start first on all tables: its hyperparameters differ much from the
   defaults, and on some tables only they improve the ensemble.
7. New trials of models in the ensemble, in proportion to their weight and to the success of their earlier trials. A trial is pruned
   if its first fold does not improve the ensemble.
8. In time that nothing else can use: candidates that do not improve the ensemble yet, models that have not run, and new trials of
   models outside the ensemble that are not far behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Protocol

from tabapp.engine.candidates import Candidate
from tabapp.engine.expected import ExpectedSeconds
from tabapp.engine.scheduler import Fold, ModelRecord, Scheduler, Work
from tabapp.engine.time_left import SAFETY, TimeLeft

N_RIVALS = 3
"""Models with a first fold of which the best is completed before others start."""
GAIN_OF_ALL_TIME, TRIAL_NOISE, DOUBT_SHARE = 0.01, 0.1, 0.03
"""The other folds of a candidate are fitted if its first lowers the error of the ensemble by at least the first share times the
share of all time that they take. A new trial resembles a member of the ensemble, so that what it adds is less than the noise of a
fold: it may be worse by the second share over the square root of the rows of the fold. So may other candidates whose other folds
take at most the third share of all time."""
CHEAP_SHARE, QUICK_SHARE = 0.01, 0.025
"""A first fold that takes at most the first share of the time of all workers is cheap; at most the second, it is quick."""
CHEAP_SECONDS = 5.0
"""Until a candidate is complete, cheap models that take longer wait, so that long runs have an ensemble soon, too. Those that start
first on all tables do not."""
DROPPED_SHARE, DROP_RATE = 0.08, 0.5
"""First folds of dropped candidates may take the first share of the time of all workers, or as much as new trials, which improve an
ensemble little; the second share of those in progress is expected to be dropped."""
AFFORDABLE_SHARE, LEADER_SHARE, LARGE_GAIN = 0.6, 0.9, 0.05
"""A candidate is begun, and continued before others after its first fold, only if its folds take at most this share of the time
that all workers have left. The second value is for the first candidate that is completed, for those whose first fold lowers the
error of the ensemble by at least the third, and for the last one; between no gain and that, the share grows with the gain."""
FIRST_SHARE = 0.75
"""Share of the time of all workers for the defaults of models; an expensive model does not start beyond it."""
PRICE_OF_ALL_TIME_LEFT = 0.05
"""Improvement of the ensemble, as a share of its error, that would be worth all of the time left: a candidate with a smaller
improvement comes before a better one if it takes so much less time."""
FAR_BEHIND = 0.005
"""A model whose best trial raises the error of the ensemble by this share gets no new trials."""
NETWORKS, N_DROPPED = "deep", 3
"""The family of networks: where the best of them are of no use, others are expected to be of none. If so many were dropped and none
improves the ensemble, those without merit start only in time that nothing else can use."""
SHORTENED_SHARE, PLANNED_SHARE, LEAST_SHARE = 0.5, 0.3, 0.05
"""Share of its expected time that a model must get to start: at its deadline, it returns its best so far. The second value is for
models that plan their steps for the time they get, and the third for a single holdout, or a run in which no candidate can be
completed, in time that nothing else can use."""
OVERRUN = 2.0
"""Most that the first fold of a model without prospects or of a network's new trial takes, as a multiple of its expected time."""
LONGEST = 2.0
"""Most that the other folds of a candidate take that improves the ensemble by `LARGE_GAIN`, as a multiple of the limit of fits."""
SHORT_SHARE = 0.5
"""Share of its expected time for which a model that plans its steps still starts, and for which a candidate with several folds is
still completed. On kin8nm, the RMSE of RealMLP is 0.0667 with half of its epochs and 0.0664 with all of them."""


class Gain(Protocol):
    """How much a candidate lowers the error of the current ensemble, with other candidates in it, on the folds that it has, as a
    share of that error."""

    def __call__(self, candidate: Candidate, beside: tuple[Candidate, ...] = (), /) -> float: ...


class TimedScheduler(Scheduler):
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
        super().__init__(models, **others)
        self._gain, self._weights = gain, weights
        self._expected = ExpectedSeconds(self.models, self.latest_seconds, self.measured_seconds, self.of_model)
        self._total = math.inf
        """Seconds that all workers have in the whole run."""
        self._being_completed: tuple[Candidate, ...] = ()
        """Candidates with some of their folds of which more than one was begun."""

    def record_overhead(self, seconds: float) -> None:
        """Record what a fit took beside training and predicting: to start, to prepare features, and to save."""
        self._expected.record_overhead(seconds)

    def expected_seconds(self, name: str) -> float:
        """Expected seconds of a worker for the next fit of a model."""
        return self._expected.of_model(name)

    def next_work(self, running: set[Fold], seconds_left: float, fit_limit: float = math.inf) -> Work | None:
        """The next fit to start, or None if there is none that the time allows.

        Args:
            running: (model, trial, fold) of the fits in progress.
            seconds_left: seconds until fitting ends.
            fit_limit: seconds that one fit may take.
        """
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
            or first_fold(lambda record: record.merit > 1 or (record.is_core and self._is_quick(record.name)))
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

    def _second_trial(self, running: set[Fold], time: TimeLeft) -> Work | None:
        """The first fold of the second trial of a quick core model, the cheapest first, if all of its folds would end in time."""
        for record in sorted(self.models.values(), key=lambda record: (record.price, record.name)):
            candidates, each = self.of_model(record.name), self.expected_seconds(record.name)
            if not (self._tune and record.is_core) or record.is_held or self.is_out(record.name):
                continue
            if len(candidates) != 1 or not candidates[0].results or not self._has_trials_left(record.name):
                continue
            if self._is_quick(record.name) and time.fits(self.n_folds, each, time.committed):
                return Work(self.add(self._new_trial(record.name)), 0)
        return None

    def _first_complete(self, running: set[Fold], time: TimeLeft) -> Work | None:
        """The next fit of a run without a complete candidate: a few first folds, then the other folds of the best of them, so that
        there is an ensemble to compare other models with. It may be a weak one: an expensive model is then completed only if it is
        better than the others that have a first fold."""
        cheap = {
            name
            for name, record in self.models.items()
            if self._is_cheap(name) and (record.is_core or self.expected_seconds(name) <= CHEAP_SECONDS)
        }
        if cheap:
            return self._first_fold(
                running, lambda record: record.name in cheap and self._may_start(record, running, time)
            ) or self._begun(running, time, only=cheap)
        started = {c.model for c in self.candidates.values() if c.results} | {name for name, _, _ in running}
        if len(started) < N_RIVALS:
            return self._first_fold(running, lambda record: self._may_start(record, running, time))
        return self._begun(running, time)

    def _time_left(self, running: set[Fold], seconds_left: float, fit_limit: float) -> TimeLeft:
        used = sum(record.spent for record in self.models.values())
        used += sum(self.expected_seconds(name) for name, _, _ in running)
        self._total = used + self.workers * seconds_left
        committed = begun = 0.0
        for candidate in self.candidates.values():
            if candidate.status != "active":
                continue
            seconds = len(candidate.missing_folds) * min(self._expected.of_candidate(candidate), fit_limit)
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
        return not n_open or TimeLeft(self.workers, seconds_left, fit_limit, 0.0).fits(n_open, each)

    def _improves(self, candidate: Candidate) -> bool:
        """Whether a candidate with at least one fold is to be completed."""
        if len(candidate.results) > 1 or (candidate.trial and not self._race):
            return True
        cost = len(candidate.missing_folds) * self._expected.of_candidate(candidate)
        n_rows = sum(result.n_rows for result in candidate.results.values())
        doubtful = candidate.trial or cost <= DOUBT_SHARE * self._total
        noise = TRIAL_NOISE / math.sqrt(max(1, n_rows)) if doubtful else 0.0
        least = GAIN_OF_ALL_TIME * min(1.0, cost / self._total) - noise
        return self._gain(candidate) > least

    def _is_cheap(self, name: str) -> bool:
        return self.expected_seconds(name) <= CHEAP_SHARE * self._total

    def _is_quick(self, name: str) -> bool:
        return self.expected_seconds(name) <= QUICK_SHARE * self._total

    def _has_score(self) -> bool:
        return any(candidate.results for candidate in self.candidates.values())

    def _may_start(self, record: ModelRecord, running: set[Fold], time: TimeLeft) -> bool:
        """Whether all folds of a model's defaults can be completed, and its first may be lost."""
        needed = self.expected_seconds(record.name)
        each = min(needed, time.limit)
        shortest = min(each, self._shortest(record.name))
        # A model with a high merit may take the place of candidates that have one fold.
        committed = time.begun if self._has_prospects(record) else time.committed
        if each < self._least_share(record) * needed or not time.fits(self.n_folds, shortest, committed):
            return False
        of_all = self.n_folds * each / record.merit
        if of_all > AFFORDABLE_SHARE * time.of_workers:
            return False
        if not self._has_score() or self.n_folds == 1:
            return True
        if record.family == NETWORKS and record.merit <= 1:
            useful, dropped = self._networks()
            if not useful and len(dropped) >= N_DROPPED:
                return False
        in_progress = [name for name, trial, _ in running if not self.candidates[name, trial].results and not trial]
        at_risk = DROP_RATE * (each + sum(min(self.expected_seconds(name), time.limit) for name in in_progress))
        most = max(DROPPED_SHARE * self._total, self._trial_seconds())
        if not self._has_prospects(record) and self._dropped_seconds() + at_risk > most:
            return False
        if self._is_quick(record.name):
            return True
        # A measured fold of such a model predicts the next better than a prior.
        if sum(not self._is_quick(name) for name in in_progress) >= max(1, self.workers // 2):
            return False
        used = sum(self._seconds_of(candidate) for candidate in self.candidates.values() if candidate.trial == 0)
        return used + of_all <= FIRST_SHARE * self._total

    def _has_prospects(self, record: ModelRecord) -> bool:
        """Whether a model has a high merit, and is not a network while a network of higher merit was dropped."""
        if record.merit <= 1 or record.family != NETWORKS:
            return record.merit > 1
        return not any(self.models[name].merit > record.merit for name in self._networks()[1])

    def _networks(self) -> tuple[list[str], list[str]]:
        """Networks whose defaults have a fold, and improve the ensemble or are complete, and those that were dropped."""
        useful, dropped = list[str](), list[str]()
        for record in self.models.values():
            for candidate in self.of_model(record.name)[:1] if record.family == NETWORKS else []:
                if candidate.results:
                    (useful if candidate.is_complete or self._improves(candidate) else dropped).append(record.name)
        return useful, dropped

    def _least_share(self, record: ModelRecord) -> float:
        return PLANNED_SHARE if record.plans_steps else SHORTENED_SHARE

    def _seconds_of(self, candidate: Candidate) -> float:
        return sum(result.seconds + result.predict_seconds for result in candidate.results.values())

    def _trial_seconds(self) -> float:
        """Seconds of new trials that have ended."""
        ended = (c for c in self.candidates.values() if c.trial and c.status != "active")
        return sum(map(self._seconds_of, ended))

    def _dropped_seconds(self) -> float:
        """Seconds of the defaults that have one fold and are not to be completed."""
        begun = (c for c in self.candidates.values() if c.trial == 0 and c.results and not c.is_complete)
        return sum(self._seconds_of(c) for c in begun if c.status != "active" or not self._improves(c))

    def _fits_leftover(self, record: ModelRecord, running: set[Fold], time: TimeLeft) -> bool:
        """Whether a model may start in time that nothing else can use. As long as there is no score it always may, unless a core
        model is running: any fold is better than a run without a score. If no candidate can be completed, the ensemble is selected
        on the first fold, as on a single holdout."""
        if not self._has_score():
            return not any(self.models[name].is_core for name, _, _ in running)
        needed = self.expected_seconds(record.name)
        each = min(needed, time.limit, self._slot(self.n_folds, time.seconds))
        on_holdout = self.n_folds == 1 or not any(c.is_complete for c in self.candidates.values())
        least = LEAST_SHARE if on_holdout else self._least_share(record)
        return each >= least * needed and time.fits(self.n_folds, each, time.committed)

    def _slot(self, n_folds: int, seconds: float) -> float:
        """Seconds for each of so many fits, so that all of them end in time."""
        return seconds / (SAFETY * -(-n_folds // self.workers))

    def seconds_for(
        self, candidate: Candidate, running: set[Fold], seconds_left: float, fit_limit: float = math.inf
    ) -> float:
        """Seconds that a fit of a candidate may take, so that its other folds can still be completed. The first of a network's new
        trial, or of a model that starts because it is expected to take little time, takes not much more. Other folds of a
        candidate whose first lowers the error of the ensemble by much may exceed the limit of fits, as far as candidates that are
        being completed need no time."""
        record = self.models[candidate.model]
        slot = self._slot(max(1, len(self.open_folds(candidate, running))), seconds_left)
        if not candidate.results:
            may_be_long = record.is_core or self._has_prospects(record)
            is_limited = record.family == NETWORKS if candidate.trial else not may_be_long
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
            if candidate.status != "active" or not candidate.results or record.is_held or self.is_out(record.name):
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
        """Whether a candidate with one fold lowers the error by so much more than each of those that are being completed that it
        does not wait for them: beside them, its own folds might not end in time."""
        if not any(other.is_complete for other in self.candidates.values()):
            return False
        rivals = [self._gain(other) for other in self._being_completed]
        return bool(rivals) and self._gain(candidate) >= LARGE_GAIN + max(rivals)

    def _committed_beside(self, name: str) -> float:
        """Expected seconds of the missing folds of candidates of other models that are being completed."""
        others = (candidate for candidate in self._being_completed if candidate.model != name)
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

    def _shortest(self, name: str) -> float:
        """Seconds for which a fit of a model starts: near the end, a model that plans its steps gets shorter fits."""
        return self.expected_seconds(name) * (SHORT_SHARE if self.models[name].plans_steps else 1.0)

    def _ahead(self, running: set[Fold], time: TimeLeft) -> Work | None:
        """Another fold of a new trial whose first is in progress, if there is nothing else to do."""
        for name, trial, _ in sorted(running):
            candidate = self.candidates[name, trial]
            folds, record = self.open_folds(candidate, running), self.models[name]
            fold = self.next_fold(candidate, running)
            if not trial or candidate.status != "active" or record.is_held or record.stopped or fold is None:
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
        return f"fold {fold + 1}: {result.score:.5g}; it does not improve the ensemble"
