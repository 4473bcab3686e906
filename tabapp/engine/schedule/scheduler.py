"""What to fit next in a run without a time limit. `timed.py` extends it for runs with one.

The order changes no result, since a trial gets all of its folds unless its first is worse than that of its own model's best trial:
the defaults of every model on fold 0, core models and those with a high merit first, cheap before expensive, so that the
leaderboard fills quickly; then the other folds of the defaults; then new trials, where better models get more of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.devices import CPU
from tabapp.engine.schedule.work import Fold, Work
from tabapp.models.contract import Plugin
from tabapp.models.stated import libraries_of

RACING_SPREADS = 0.25
FAILURES_TO_GIVE_UP = 2
CAP_SHARE, HOLDOUT_CAP_SHARE, ALL_OF_IT = 0.15, 0.3, 0.9
"""Largest share of the budget for one fit, so that one slow model cannot starve the others. With one holdout the share is larger,
since a trial is a single fit. With few models, each gets an equal part of almost the whole budget."""


@dataclass
class ModelRecord:
    """The state of a model in the scheduler.

    Attributes:
        prior_seconds: estimated seconds of one fit, before any is measured.
        is_core: starts before the others.
        merit: divides its cost in the queue of first folds.
        plans_steps: its fits plan their steps for the time they get.
        least_share: share of its expected time that a fit must get to start.
        libraries: models with the same libraries are expected to differ from their priors by the same factor.
        is_uncertain, uses_device: as in `Plugin`.
        device: class of the devices that its fits run on.
        spent: seconds of its fits so far.
        failures: trials that failed.
        stopped, paused: by the user; it gets no further fits.
        waits: for its device; it gets no fit now.
        share: factor on its share of the time, set by the user.
    """

    name: str
    prior_seconds: float
    is_core: bool = True
    merit: float = 1.0
    libraries: str = ""
    is_uncertain: bool = False
    uses_device: bool = False
    plans_steps: bool = False
    least_share: float = 0.5
    device: str = CPU
    spent: float = 0.0
    failures: int = 0
    stopped: bool = False
    paused: bool = False
    waits: bool = False
    share: float = 1.0

    @classmethod
    def of(cls, plugin: Plugin, prior_seconds: float, merit: float, device: str) -> ModelRecord:
        """A model that has no fit yet."""
        kind = libraries_of(plugin.requires), plugin.is_uncertain, plugin.uses_device
        steps = plugin.plans_steps, plugin.least_share
        return cls(plugin.name, prior_seconds, plugin.starts_first, merit, *kind, *steps, device)

    @property
    def is_favored(self) -> bool:
        """Whether the user gives it more than its usual share of the time."""
        return self.share > 1

    @property
    def is_held(self) -> bool:
        """Whether no fit of it may start now."""
        return self.paused or self.waits

    @property
    def price(self) -> float:
        """The cost that orders models without a score."""
        return self.prior_seconds / self.merit


class Scheduler:
    """Chooses the next fit.

    Args:
        models: the competing models.
        workers: number of parallel fits on a class of devices.
        n_folds: folds of a complete candidate.
        trials: maximum trials per model, or None.
        tune: whether to continue after the defaults.
        race: whether trials that are worse on fold 0 are pruned.
        new_trial: creates a new candidate of a model.
        siblings: creates candidates whose first folds train together with that of a new one, as many as are taken.
        loss: a candidate's out-of-fold loss, lower is better.
        clearly_behind: whether the first of two candidates is significantly worse than the second, on the folds of both.
    """

    def __init__(
        self,
        models: Iterable[ModelRecord],
        *,
        metric: str,
        workers: Callable[[str], int],
        n_folds: int,
        trials: int | None,
        tune: bool,
        race: bool,
        new_trial: Callable[[str], Candidate],
        loss: Callable[[Candidate], float],
        clearly_behind: Callable[[Candidate, Candidate], bool],
        siblings: Callable[[Candidate], Iterator[Candidate]] = lambda first: iter(()),
    ) -> None:
        self.models = {model.name: model for model in models}
        self._metric = metric
        self._workers, self.n_folds = workers, n_folds
        self._device = CPU
        """The class of devices that fits are chosen for: each has its own models, workers and time."""
        self._trials = trials
        self._tune = tune
        self._race = race
        self._new_trial, self._siblings = new_trial, siblings
        self._loss = loss
        self._clearly_behind = clearly_behind
        self.candidates: dict[tuple[str, int], Candidate] = {}
        self._of_model: dict[str, dict[int, Candidate]] = {}
        self.n_expected = len(self.models)
        """Models that compete, those included that are added later."""

    @property
    def workers(self) -> int:
        """Number of parallel fits on the devices that fits are chosen for."""
        return self._workers(self._device)

    def _is_own(self, name: str) -> bool:
        """Whether the fits of a model run on the devices that fits are chosen for."""
        return self.models[name].device == self._device

    def _may_fit(self, record: ModelRecord) -> bool:
        """Whether a fit of a model may start now on the devices that fits are chosen for."""
        return record.device == self._device and not record.is_held

    def add_model(self, record: ModelRecord) -> None:
        """Let another model compete."""
        self.models[record.name] = record
        self.n_expected = max(self.n_expected, len(self.models))

    def of_model(self, name: str) -> list[Candidate]:
        """The candidates of a model, oldest first."""
        return list(self._of_model.get(name, {}).values())

    @property
    def has_score(self) -> bool:
        """Whether any candidate has a complete fit."""
        return any(candidate.results for name in self.models for candidate in self.of_model(name))

    def best_of(self, name: str) -> Candidate | None:
        """The best candidate of a model: by number of folds, then by score; None without a score."""
        scored = [candidate for candidate in self.of_model(name) if candidate.results]
        return min(scored, key=lambda c: (-len(c.results), self._loss(c)), default=None)

    def loss_of(self, candidate: Candidate) -> float:
        """The out-of-fold loss of a candidate, lower is better."""
        return self._loss(candidate)

    def add(self, candidate: Candidate) -> Candidate:
        """Add a candidate."""
        self.candidates[candidate.key] = candidate
        self._of_model.setdefault(candidate.model, {})[candidate.trial] = candidate
        return candidate

    def _begin(self, name: str) -> Candidate:
        """Add the next trial of a model, with its siblings."""
        first = self.add(self._new_trial(name))
        siblings = self._siblings(first)
        while self._has_trials_left(name) and (sibling := next(siblings, None)) is not None:
            self.add(sibling)
        return first

    def is_out(self, name: str) -> bool:
        """Whether a model gets no more fits: stopped by the user, or it failed repeatedly and never succeeded."""
        record = self.models[name]
        never_succeeded = not any(candidate.results for candidate in self.of_model(name))
        return record.stopped or (never_succeeded and record.failures >= FAILURES_TO_GIVE_UP)

    def cap_share(self, device: str = CPU) -> float:
        """The largest share of the budget that one fit on a class of devices may take."""
        n_others = sum(record.device != device for record in self.models.values())
        rounds = -(-max(1, self.n_expected - n_others) * self.n_folds // self._workers(device))
        return max(CAP_SHARE if self.n_folds > 1 else HOLDOUT_CAP_SHARE, ALL_OF_IT / rounds)

    def seconds_for(
        self, candidate: Candidate, running: set[Fold], seconds_left: float, fit_limit: float = math.inf
    ) -> float:
        """Seconds that a fit of a candidate may take.

        Args:
            running, seconds_left, fit_limit: as in `next_work`.
        """
        return min(seconds_left, fit_limit)

    def record_overhead(self, seconds: float, device: str = CPU) -> None:
        """Record what a fit took beside training and predicting: to start, to prepare features, and to save."""

    def waits_for_user(self, seconds_left: float) -> bool:
        """Whether a model paused by the user has something left to fit."""
        return any(self._could_resume(record, seconds_left) for record in self.models.values() if record.paused)

    def _could_resume(self, record: ModelRecord, seconds_left: float) -> bool:
        if self.is_out(record.name) or seconds_left <= 0:
            return False
        self._device = record.device
        candidates = self.of_model(record.name)
        if any(candidate.results for candidate in candidates):
            return self._option_of(record.name, set(), seconds_left) is not None
        return any(candidate.status == "active" for candidate in candidates) or self._has_trials_left(record.name)

    def expected_seconds(self, name: str) -> float:
        """Expected seconds of the next fit of a model: the mean of its last ten fits, or its prior."""
        measured = self.latest_seconds(name)
        return float(np.mean(measured)) if measured else self.models[name].prior_seconds

    def latest_seconds(self, name: str) -> list[float]:
        """Seconds of the last ten fits of a model, the latest first."""
        candidates = reversed(self._of_model.get(name, {}).values())
        latest = (result for candidate in candidates for result in reversed(candidate.results.values()))
        return [result.seconds + result.predict_seconds for result in islice(latest, 10)]

    def measured_seconds(self, name: str) -> list[float]:
        """Seconds of the fits of a model, oldest first."""
        return [r.seconds + r.predict_seconds for candidate in self.of_model(name) for r in candidate.results.values()]

    def next_work(
        self, running: set[Fold], seconds_left: float, fit_limit: float = math.inf, device: str = CPU
    ) -> Work | None:
        """The next fit to start, or None if there is none.

        Args:
            running: (model, trial, fold) of the fits in progress on all devices.
            seconds_left: seconds until fitting ends.
            fit_limit: seconds that one fit may take.
            device: class of the devices that it starts on.
        """
        self._device = device
        if seconds_left <= 0:
            return None
        return (
            self._first_fold(running)
            or self._defaults(running)
            or self._next_share(running, seconds_left)
            or self._beside(running, seconds_left)
        )

    def _first_fold(
        self, running: set[Fold], may_start: Callable[[ModelRecord], bool] = lambda record: True
    ) -> Work | None:
        """The first fold of a model without a score. `may_start` decides on models that the user does not favor."""
        waiting = [
            record
            for record in self.models.values()
            if self._may_fit(record) and not any(candidate.results for candidate in self.of_model(record.name))
        ]
        waiting.sort(key=lambda r: (not r.is_favored, not self._has_precedence(r), self._price(r), r.name))
        for record in waiting:
            if self.is_out(record.name):
                continue
            candidates = self.of_model(record.name)
            active = [candidate for candidate in candidates if candidate.status == "active"]
            if active and (*active[0].key, 0) in running:
                continue
            if not active and not self._has_trials_left(record.name):
                continue
            if record.is_favored or may_start(record):
                return Work(active[0] if active else self._begin(record.name), 0)
        return None

    def _has_precedence(self, record: ModelRecord) -> bool:
        """Whether the first fold of a model comes before those of others, whatever its cost."""
        return record.is_core or record.merit > 1

    def _price(self, record: ModelRecord) -> float:
        """The cost that orders first folds."""
        return record.price

    def _defaults(self, running: set[Fold]) -> Work | None:
        """The next fold of a model's first successful trial: trials already begun first, then cheap and good models."""
        ranked = self._ranked()
        leader = self.best_of(ranked[0]) if ranked else None
        options: list[tuple[bool, float, Candidate]] = []
        for rank, name in enumerate(ranked, start=1):
            candidate, record = next(c for c in self.of_model(name) if c.results), self.models[name]
            if not self._may_fit(record) or candidate.status != "active" or leader is None:
                continue
            cost = len(candidate.missing_folds) * self.expected_seconds(name)
            begun = len(candidate.results) > 1
            if begun or record.is_favored or not self._clearly_behind(candidate, leader):
                options.append((not begun, cost * rank / record.share, candidate))
        for _, _, candidate in sorted(options, key=lambda option: option[:2]):
            fold = self.next_fold(candidate, running)
            if fold is not None:
                return Work(candidate, fold)
        return None

    def _next_share(
        self,
        running: set[Fold],
        seconds_left: float,
        targets: Mapping[str, float] | None = None,
        *,
        beside: bool = False,
    ) -> Work | None:
        """The fit of the model that is furthest below its share of the time, which is proportional to its target.

        The expected time of the fit counts as spent, so that cheap fits come before expensive ones.

        Args:
            beside: a model may have several open trials.
        """
        options: list[tuple[float, str, Candidate | None, int]] = []
        for name, target in (self._targets() if targets is None else targets).items():
            record = self.models[name]
            option = self._option_of(name, running, seconds_left, beside=beside) if self._may_fit(record) else None
            if option is not None:
                in_progress = sum(key[0] == name for key in running)
                expected = self.expected_seconds(name)
                share = (record.spent + (1 + in_progress) * expected) / target
                options.append((share, name, *option))
        if not options:
            return None
        _, name, candidate, fold = min(options, key=lambda option: option[:2])
        return Work(candidate or self._begin(name), fold)

    def _beside(
        self, running: set[Fold], seconds_left: float, targets: Mapping[str, float] | None = None
    ) -> Work | None:
        """Another trial of a model whose open trials occupy no further worker. There is none if trials are bounded: a trial then
        depends on all earlier ones of its model, whatever the number of workers."""
        return self._next_share(running, seconds_left, targets, beside=True) if self._trials is None else None

    def _targets(self) -> dict[str, float]:
        """Share of the time of each model that may get new trials, not normalized: the model of rank k gets 1/k of the time of the
        first. A model that the user favors counts as first, times its share."""
        records = [self.models[name] for name in self._ranked()]
        return {
            record.name: record.share if record.is_favored else record.share / rank
            for rank, record in enumerate(records, start=1)
        }

    def open_folds(self, candidate: Candidate, running: set[Fold]) -> list[int]:
        """Folds of a candidate that have no fit and none in progress."""
        return [fold for fold in candidate.missing_folds if (*candidate.key, fold) not in running]

    def waiting_siblings(self, candidate: Candidate, running: set[Fold]) -> list[Candidate]:
        """Candidates whose first folds train together with that of a candidate, if none of them has one yet."""
        alike = [] if candidate.batch is None else self.of_model(candidate.model)
        waiting = [
            other
            for other in alike
            if other.batch == candidate.batch
            and other.status == "active"
            and not other.results
            and not other.fits_alone
            if (*other.key, 0) not in running
        ]
        return [other for other in waiting if other is not candidate] if candidate in waiting else []

    def next_fold(self, candidate: Candidate, running: set[Fold]) -> int | None:
        """The next fold of a candidate that can start now."""
        return next((fold for fold in self.open_folds(candidate, running) if candidate.can_start(fold)), None)

    def _option_of(
        self, name: str, running: set[Fold], seconds_left: float, *, beside: bool = False
    ) -> tuple[Candidate | None, int] | None:
        """The next fit of a model: a missing fold of an open trial, or fold 0 of a new trial (with None as candidate). None if all
        folds are in progress and no new trial may start beside them, or if the time left is too short to complete the trial."""
        active = [candidate for candidate in self.of_model(name) if candidate.status == "active"]
        for candidate in active:
            open_folds = self.open_folds(candidate, running)
            # A first fold that waits for its device, or whose process was killed, is open and not in progress.
            begins = not candidate.results and len(open_folds) < candidate.n_folds
            fold = self.next_fold(candidate, running)
            if fold is not None and not begins and self.fits(name, len(open_folds), seconds_left):
                return candidate, fold
        if active and not beside:
            return None
        n_begun = sum(len(self.open_folds(candidate, running)) for candidate in active)
        tunes = self._tune or self.models[name].is_favored
        if not tunes or not self._has_trials_left(name) or not self.fits(name, n_begun + self.n_folds, seconds_left):
            return None
        return None, 0

    def fits(self, name: str, n_folds: int, seconds_left: float) -> bool:
        """Whether that many fits of a model end in time if all workers of its devices work on them."""
        return -(-n_folds // self.workers) * self.expected_seconds(name) <= seconds_left

    def _ranked(self) -> list[str]:
        """Models that may get time, best first, compared on the folds that the best trials of all of them have."""
        best = {name: self.best_of(name) for name in self.models if not self.is_out(name)}
        scored = {name: candidate for name, candidate in best.items() if candidate is not None}
        if not scored:
            return []
        known = {name: candidate.fold_scores for name, candidate in scored.items()}
        common = set[int].intersection(*map(set, known.values()))
        metric = metrics.get(self._metric)

        def loss(name: str) -> float:
            scores = [score for fold, score in known[name].items() if fold in common or not common]
            return metric.as_loss(float(np.mean(scores)) if scores else math.nan)

        return sorted(scored, key=lambda name: (loss(name), name))

    def _has_trials_left(self, name: str) -> bool:
        """Whether a model is below the maximum of trials, which grows with the share that the user gives it."""
        bound = self._trials
        return bound is None or len(self.of_model(name)) < round(bound * max(1.0, self.models[name].share))

    def is_behind(self, candidate: Candidate) -> str | None:
        """Why a tuning trial gets no further folds after its first, or None if it continues.

        It is behind if its first fold is worse than the same fold of its model's best complete candidate by more than a quarter
        of the standard deviation between the folds of that candidate.
        """
        if not self._race or candidate.trial == 0 or len(candidate.results) != 1 or candidate.n_folds == 1:
            return None
        rivals = [c for c in self.of_model(candidate.model) if c.is_complete and c is not candidate]
        if not rivals:
            return None
        best = min(rivals, key=self._loss)
        own, known = candidate.fold_scores, best.fold_scores
        # Where the metric is undefined on the fold, the trial continues.
        for fold in own.keys() & known.keys():
            behind = known[fold] - own[fold] if metrics.get(self._metric).greater_is_better else own[fold] - known[fold]
            if behind > RACING_SPREADS * float(np.std(list(known.values()))):
                return f"fold {fold + 1}: {own[fold]:.5g}, worse than {known[fold]:.5g} of trial {best.trial}"
        return None
