"""The models that compete in a run and their candidates: what has been fitted, and what can be fitted next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.machine.devices import CPU, device_class
from tabapp.engine.schedule.work import Fold
from tabapp.models.contract import Plugin, Shape, Task
from tabapp.models.presets import with_fixed
from tabapp.models.stated import libraries_of

FAILURES_TO_GIVE_UP = 2


@dataclass
class ModelRecord:
    """A model in a run.

    Attributes:
        prior_seconds: estimated seconds of one fit, before any is measured.
        later_share: as in `Plugin`.
        is_core: starts before the others.
        is_named: the user asked for it by its name.
        merit: how much better than others it is expected to be: its cost is divided by it where models queue for their first fold.
        libraries: models with the same libraries are expected to differ from their priors by the same factor.
        is_uncertain, uses_device, most_trials: as in `Plugin`.
        plans_steps: its fits plan their steps for the time they get.
        least_share: share of its expected time that a fit must get to start.
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
    most_trials: int | None = None
    device: str = CPU
    spent: float = 0.0
    failures: int = 0
    stopped: bool = False
    paused: bool = False
    waits: bool = False
    share: float = 1.0
    later_share: float = 1.0
    title: str = ""
    is_named: bool = False

    @classmethod
    def of(cls, plugin: Plugin, prior_seconds: float, merit: float, device: str = CPU) -> ModelRecord:
        """A model that has no fit yet."""
        kind = libraries_of(plugin.requires), plugin.is_uncertain, plugin.uses_device
        steps = plugin.plans_steps, plugin.least_share, plugin.most_trials
        return cls(
            plugin.name, prior_seconds, plugin.starts_first, merit, *kind, *steps, device=device, title=plugin.title
        )

    @property
    def is_favored(self) -> bool:
        """Whether the user gives it more than its usual share of the time."""
        return self.share > 1

    @property
    def is_held(self) -> bool:
        """Whether no fit of it may start now."""
        return self.paused or self.waits

    @property
    def cost(self) -> float:
        """Seconds by which models queue for their first fold."""
        return self.prior_seconds / self.merit


def record_of(
    plugin: Plugin, task: Task, shape: Shape, device: str, fixed: Mapping[str, Any], *, is_named: bool = False
) -> ModelRecord:
    """The record of a model that begins to compete in a run.

    Args:
        device: of its fits.
        fixed: hyperparameters of all trials.
        is_named: the user asked for it by its name.
    """
    seconds = plugin.cost(task, shape, with_fixed(plugin.defaults(task, shape, device), fixed), device).seconds
    record = ModelRecord.of(plugin, seconds, plugin.merit(task, shape), device_class(device))
    return replace(record, later_share=plugin.later_share(shape), is_named=is_named)


class Competition:
    """Models, their candidates, and what the rules of the scheduler ask of them.

    Args:
        metric: that of the run.
        n_folds: folds of a complete candidate.
        trials: maximum trials per model, or None.
        new_trial: creates a new candidate of a model.
        loss: a candidate's out-of-fold loss, lower is better.
        siblings: creates candidates whose first folds train together with that of a new one, as many as are taken.
    """

    def __init__(
        self,
        metric: str,
        n_folds: int,
        *,
        trials: int | None,
        new_trial: Callable[[str], Candidate],
        loss: Callable[[Candidate], float],
        siblings: Callable[[Candidate], Iterator[Candidate]] = lambda first: iter(()),
    ) -> None:
        self.metric, self.n_folds, self.trials = metric, n_folds, trials
        self._new_trial, self.loss_of, self._siblings = new_trial, loss, siblings
        self.models: dict[str, ModelRecord] = {}
        self.candidates: dict[tuple[str, int], Candidate] = {}
        self._of_model: dict[str, dict[int, Candidate]] = {}
        self.n_expected = 0
        """Models that compete, those included that are added later."""

    def add_model(self, record: ModelRecord) -> None:
        """Let another model compete."""
        self.models[record.name] = record
        self.n_expected = max(self.n_expected, len(self.models))

    def add(self, candidate: Candidate) -> Candidate:
        """Add a candidate."""
        self.candidates[candidate.key] = candidate
        self._of_model.setdefault(candidate.model, {})[candidate.trial] = candidate
        return candidate

    def begin(self, name: str) -> Candidate:
        """Add the next trial of a model, with its siblings."""
        first = self.add(self._new_trial(name))
        siblings = self._siblings(first)
        while self.has_trials_left(name) and (sibling := next(siblings, None)) is not None:
            self.add(sibling)
        return first

    def of_model(self, name: str) -> list[Candidate]:
        """The candidates of a model, oldest first."""
        return list(self._of_model.get(name, {}).values())

    def has_fold(self, name: str) -> bool:
        """Whether any candidate of a model has a complete fit."""
        return any(candidate.results for candidate in self._of_model.get(name, {}).values())

    @property
    def has_score(self) -> bool:
        """Whether any candidate has a complete fit."""
        return any(candidate.results for candidate in self.candidates.values())

    @property
    def has_complete(self) -> bool:
        """Whether any candidate has all of its folds."""
        return any(candidate.is_complete for candidate in self.candidates.values())

    def best_of(self, name: str) -> Candidate | None:
        """The best candidate of a model: by number of folds, then by score; None without a score."""
        scored = [candidate for candidate in self.of_model(name) if candidate.results]
        return min(scored, key=lambda c: (-len(c.results), self.loss_of(c)), default=None)

    def is_out(self, name: str) -> bool:
        """Whether a model gets no more fits: stopped by the user, or it failed repeatedly and never succeeded."""
        record = self.models[name]
        return record.stopped or (record.failures >= FAILURES_TO_GIVE_UP and not self.has_fold(name))

    def has_trials_left(self, name: str) -> bool:
        """Whether a model is below the maximum of trials, of the run or its own, which grows with its share set by the user."""
        record = self.models[name]
        limits = [most for most in (self.trials, record.most_trials) if most is not None]
        return not limits or len(self.of_model(name)) < round(min(limits) * max(1.0, record.share))

    def latest_seconds(self, name: str) -> list[float]:
        """Quiet seconds of the last ten fits of a model, the latest first."""
        candidates = reversed(self._of_model.get(name, {}).values())
        latest = (result for candidate in candidates for result in reversed(candidate.results.values()))
        return [result.quiet_seconds for result in islice(latest, 10)]

    def measured_seconds(self, name: str) -> list[float]:
        """Quiet seconds of the fits of a model, oldest first."""
        return [result.quiet_seconds for candidate in self.of_model(name) for result in candidate.results.values()]

    def open_folds(self, candidate: Candidate, running: set[Fold]) -> list[int]:
        """Folds of a candidate that have no fit and none in progress."""
        return [fold for fold in candidate.missing_folds if (*candidate.key, fold) not in running]

    def next_fold(self, candidate: Candidate, running: set[Fold]) -> int | None:
        """The next fold of a candidate that can start now."""
        return next((fold for fold in self.open_folds(candidate, running) if candidate.can_start(fold)), None)

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

    def ranked(self) -> list[str]:
        """Models that may get time, best first, compared on the folds that the best trials of all of them have."""
        best = {name: self.best_of(name) for name in self.models if not self.is_out(name)}
        known = {name: candidate.fold_scores for name, candidate in best.items() if candidate is not None}
        common = set[int].intersection(*map(set, known.values())) if known else set[int]()
        metric = metrics.get(self.metric)

        def loss(name: str) -> float:
            scores = [score for fold, score in known[name].items() if fold in common or not common]
            return metric.as_loss(float(np.mean(scores)) if scores else math.nan)

        return sorted(known, key=lambda name: (loss(name), name))
