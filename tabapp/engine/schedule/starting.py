"""Which models may start in a run with a time limit, and what a candidate with a fold is worth. `timed.py` chooses among them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.devices import CPU
from tabapp.engine.schedule.expected_seconds import ExpectedSeconds
from tabapp.engine.schedule.scheduler import ModelRecord, Scheduler
from tabapp.engine.schedule.time_left import SAFETY, TimeLeft
from tabapp.engine.schedule.work import Fold

CHEAP_SHARE, QUICK_SHARE = 0.01, 0.025
"""A first fold that takes at most the first share of the time of all workers is cheap; at most the second, it is quick."""
CHEAP_SECONDS = 5.0
"""Until a candidate is complete, cheap models that take longer wait, so that long runs have an ensemble soon, too. Those that start
first on all tables do not."""
DROPPED_SHARE, DROP_RATE = 0.08, 0.5
"""First folds of dropped candidates may take the first share of the time of all workers, or as much as new trials, which improve an
ensemble little; the second share of those in progress is expected to be dropped."""
GAIN_OF_ALL_TIME, TRIAL_NOISE, DOUBT_SHARE = 0.01, 0.1, 0.03
"""The other folds of a candidate are fitted if its first lowers the error of the ensemble by at least the first share times the
share of all time that they take. A new trial resembles a member of the ensemble, so that what it adds is less than the noise of a
fold: it may be worse by the second share over the square root of the rows of the fold. So may other candidates whose other folds
take at most the third share of all time."""
AFFORDABLE_SHARE = 0.6
"""A candidate is begun, and continued before others after its first fold, only if its folds take at most this share of the time
that all workers have left; `timed.LEADER_SHARE` replaces it for the best."""
FIRST_SHARE = 0.75
"""Share of the time of all workers for the defaults of models; an expensive model does not start beyond it."""
N_DROPPED = 3
"""Where the best of the uncertain models are of no use, others are expected to be of none. If so many were dropped and none
improves the ensemble, those without merit start only in time that nothing else can use."""
LEAST_SHARE = 0.05
"""Share of its expected time with which any model may start on a single holdout, or in a run in which no candidate can be
completed, in time that nothing else can use."""
SMALL_SHARE = 0.1
"""A model that may start with this share of its expected time loses little if it gets no more: on a single holdout, it costs at
most the limit of fits. Other models that would be stopped there do not come before cheaper ones, whatever their merit: on
covertype, with 300 seconds, networks and CatBoost with half of their time took the turn of extra trees (log loss 0.116, now
0.085)."""
SHORT_SHARE = 0.5
"""Share of its expected time for which a model that plans its steps still starts, and for which a candidate with several folds is
still completed. On kin8nm, the RMSE of RealMLP is 0.0667 with half of its epochs and 0.0664 with all of them."""


class Gain(Protocol):
    """How much a candidate lowers the error of the current ensemble, with other candidates in it, on the folds that it has, as a
    share of that error."""

    def __call__(self, candidate: Candidate, beside: tuple[Candidate, ...] = (), /) -> float: ...


class StartingScheduler(Scheduler):
    """Decides which models may start.

    Args:
        models: the competing models.
        gain: how much a candidate lowers the error of the current ensemble.
        others: as in `Scheduler`.
    """

    def __init__(self, models: Iterable[ModelRecord], *, gain: Gain, **others: Any) -> None:
        super().__init__(models, **others)
        self._gain = gain
        self._expected = ExpectedSeconds(self.models, self.latest_seconds, self.measured_seconds, self.of_model)
        self._totals: dict[str, float] = {}
        """Seconds that all workers of a class of devices have in the whole run."""
        self._limit = math.inf
        """Seconds that one fit may take."""

    @property
    def _total(self) -> float:
        """Seconds that all workers of the devices that fits are chosen for have in the whole run."""
        return self._totals.get(self._device, math.inf)

    def _own_candidates(self) -> list[Candidate]:
        """The candidates on the devices that fits are chosen for."""
        return [candidate for candidate in self.candidates.values() if self._is_own(candidate.model)]

    def record_overhead(self, seconds: float, device: str = CPU) -> None:
        """Record what a fit took beside training and predicting: to start, to prepare features, and to save."""
        self._expected.record_overhead(seconds, device)

    def expected_seconds(self, name: str) -> float:
        """Expected seconds of a worker for the next fit of a model."""
        return self._expected.of_model(name)

    def _has_precedence(self, record: ModelRecord) -> bool:
        return super()._has_precedence(record) and not (self.n_folds == 1 and self._is_cut(record))

    def _price(self, record: ModelRecord) -> float:
        loses_little = self.n_folds == 1 and record.least_share <= SMALL_SHARE and self._is_cut(record)
        return self._limit / record.merit if loses_little else super()._price(record)

    def _is_cut(self, record: ModelRecord) -> bool:
        """Whether a fit of a model is expected to end before it is done."""
        return self.expected_seconds(record.name) > self._limit

    def _improves(self, candidate: Candidate) -> bool:
        """Whether a candidate with at least one fold is to be completed."""
        if len(candidate.results) > 1 or (candidate.trial and not self._race):
            return True
        cost = len(candidate.missing_folds) * self._expected.of_candidate(candidate)
        n_rows = sum(result.n_rows for result in candidate.results.values())
        total = self._totals.get(self.models[candidate.model].device, math.inf)
        doubtful = candidate.trial or cost <= DOUBT_SHARE * total
        noise = TRIAL_NOISE / math.sqrt(max(1, n_rows)) if doubtful else 0.0
        least = GAIN_OF_ALL_TIME * min(1.0, cost / total) - noise
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
        if each < record.least_share * needed or not time.fits(self.n_folds, shortest, committed):
            return False
        of_all = self.n_folds * each / record.merit
        if of_all > AFFORDABLE_SHARE * time.of_workers:
            return False
        if not self._has_score() or self.n_folds == 1:
            return True
        if record.is_uncertain and record.merit <= 1:
            useful, dropped = self._uncertain()
            if not useful and len(dropped) >= N_DROPPED:
                return False
        in_progress = [
            name
            for name, trial, _ in running
            if self._is_own(name) and not self.candidates[name, trial].results and not trial
        ]
        at_risk = DROP_RATE * (each + sum(min(self.expected_seconds(name), time.limit) for name in in_progress))
        most = max(DROPPED_SHARE * self._total, self._trial_seconds())
        if not self._has_prospects(record) and self._dropped_seconds() + at_risk > most:
            return False
        if self._is_quick(record.name):
            return True
        # A measured fold of such a model predicts the next better than a prior. A GPU would fit models of less value meanwhile.
        most = max(1, self.workers // 2) if self._device == CPU else self.workers
        if sum(not self._is_quick(name) for name in in_progress) >= most:
            return False
        used = sum(self._seconds_of(candidate) for candidate in self._own_candidates() if candidate.trial == 0)
        return used + of_all <= FIRST_SHARE * self._total

    def _has_prospects(self, record: ModelRecord) -> bool:
        """Whether a model has a high merit, and is not uncertain while an uncertain model of higher merit was dropped."""
        if record.merit <= 1 or not record.is_uncertain:
            return record.merit > 1
        return not any(self.models[name].merit > record.merit for name in self._uncertain()[1])

    def _uncertain(self) -> tuple[list[str], list[str]]:
        """Uncertain models whose defaults have a fold, and improve the ensemble or are complete, and those that were dropped."""
        useful, dropped = list[str](), list[str]()
        for record in self.models.values():
            for candidate in self.of_model(record.name)[:1] if record.is_uncertain else []:
                if candidate.results:
                    (useful if candidate.is_complete or self._improves(candidate) else dropped).append(record.name)
        return useful, dropped

    def _seconds_of(self, candidate: Candidate) -> float:
        return sum(result.seconds + result.predict_seconds for result in candidate.results.values())

    def _trial_seconds(self) -> float:
        """Seconds of new trials that have ended."""
        ended = (c for c in self._own_candidates() if c.trial and c.status != "active")
        return sum(map(self._seconds_of, ended))

    def _dropped_seconds(self) -> float:
        """Seconds of the defaults that have one fold and are not to be completed."""
        begun = (c for c in self._own_candidates() if c.trial == 0 and c.results and not c.is_complete)
        return sum(self._seconds_of(c) for c in begun if c.status != "active" or not self._improves(c))

    def _fits_leftover(self, record: ModelRecord, running: set[Fold], time: TimeLeft) -> bool:
        """Whether a model may start in time that nothing else can use. As long as there is no score it always may, unless a core
        model is running: any fold is better than a run without a score. If no candidate can be completed, the ensemble is selected
        on the first fold, as on a single holdout."""
        if not self._has_score():
            return not any(self._is_own(name) and self.models[name].is_core for name, _, _ in running)
        needed = self.expected_seconds(record.name)
        each = min(needed, time.limit, 0.999 * self._slot(self.n_folds, time.seconds))
        on_holdout = self.n_folds == 1 or not any(c.is_complete for c in self.candidates.values())
        least = LEAST_SHARE if on_holdout else record.least_share
        return each >= least * needed and time.fits(self.n_folds, each, time.committed)

    def _slot(self, n_folds: int, seconds: float) -> float:
        """Seconds for each of so many fits, so that all of them end in time."""
        return seconds / (SAFETY * -(-n_folds // self.workers))

    def _shortest(self, name: str) -> float:
        """Seconds for which a fit of a model starts: near the end, a model that plans its steps gets shorter fits."""
        return self.expected_seconds(name) * (SHORT_SHARE if self.models[name].plans_steps else 1.0)
