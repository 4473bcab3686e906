"""Hyperparameter search: one Optuna study per model, in SQLite in the run folder. Only the engine uses it."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import optuna
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy import event

from tabapp import metrics
from tabapp.engine.fit.seeds import seed_of
from tabapp.engine.machine.devices import device_class
from tabapp.engine.schedule.stored_trials import StoredTrials
from tabapp.models.contract import Params, Plugin, Shape
from tabapp.run.record.undefined import OptionalScore
from tabapp.task import Task

N_STARTUP_TRIALS = 5
SAMPLER_DRAWS, MOST_DRAWS = 5, 20
"""Draws of a trial until its hyperparameters differ from those of all earlier trials, by the sampler and in total; the others are
uniform. In small search spaces, such as that of k nearest neighbors, the sampler often draws the same again."""
PARAMS = "params"
DEVICE = "device"
BATCH = "batch"
OTHER_DEVICE = "its hyperparameters were chosen for another device"
CAUSE = "cause"
LEAST_RANKED_TRIALS = 10
RANKED_QUANTILE = 0.25
"""Share of the complete trials that count as the best: three of twelve, since the estimator needs a few."""
RANKED_GROWTH = 1.15
USED = "use_"
"""Prefix of the first of the two steps in which a search space draws a hyperparameter that may be zero."""
LAST_STEP = 1_000_000
"""Step at which a pruned trial reports its score on the folds it has: after every step of a learning curve."""


def open_storage(path: Path) -> RDBStorage:
    """Open Optuna's SQLite storage so that committed trials survive a crash: write-ahead log, synchronous FULL."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # A URL would end at the first "?" of a path, so it only names the kind of database.
    connect = partial(sqlite3.connect, path, timeout=30, check_same_thread=False)
    storage = RDBStorage("sqlite:///study.db", engine_kwargs={"creator": connect})

    def harden(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    event.listen(storage.engine, "connect", harden)
    # RDBStorage has already connected: dispose of that connection, which the listener has not seen.
    storage.engine.dispose()
    return storage


@dataclass(frozen=True)
class KnownTrial:
    """A trial as the events and fits of a run record it."""

    params: dict[str, Any]
    status: Literal["open", "complete", "pruned"] = "open"
    score: float | None = None
    cause: str = ""


class Tuner:
    """Suggests hyperparameters of one model and records the results.

    Trial 0 is the defaults, and the next trials are the plugin's portfolio. In a run with a bound on trials, at most one trial of a
    model is open, or several that train together, so that the sequence does not depend on timing; in others, the sampler avoids the
    surroundings of open trials.
    Hyperparameters that an earlier trial had are drawn again.
    A crash or a timeout is recorded as pruned: the sampler ignores failed trials and would return to the same region.

    Args:
        device: the device of the model's fits.
        seed: the run's seed; each trial draws from (seed, model, number), so a resumed run continues the same sequence.
        fixed: hyperparameters of all trials, as JSON values; a model ignores those that it does not have.
    """

    def __init__(
        self,
        storage: RDBStorage,
        plugin: Plugin,
        *,
        task: Task,
        shape: Shape,
        device: str,
        metric: str,
        seed: int,
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        self._plugin = plugin
        self._task: Task = task
        self._shape = shape
        self.device = device
        self._seed = seed
        self._fixed = {
            name: value for name, value in (fixed or {}).items() if name in plugin.params_type.__struct_fields__
        }
        direction = "maximize" if metrics.get(metric).greater_is_better else "minimize"
        self._stored = StoredTrials(storage, plugin.name, direction, PARAMS)
        # The sampler and the pruner read the trials in memory.
        self._study = self._stored.in_memory(optuna.pruners.MedianPruner(n_startup_trials=4))
        self._asked: dict[int, optuna.Trial] = {}
        self._ranked_at = 0
        self._numbers = [t.number for t in self._study.get_trials(deepcopy=False) if t.state != TrialState.FAIL]
        """Optuna's number of each trial."""
        self._drawn: set[int] = set()
        """Trials of this session whose hyperparameters are neither given nor known."""

    def _trials(self) -> list[optuna.trial.FrozenTrial]:
        """The trials by their number."""
        trials = self._study.get_trials(deepcopy=False)
        return [trials[number] for number in self._numbers]

    def earlier_trials(self) -> list[tuple[int, dict[str, Any], TrialState, str]]:
        """Trials of earlier sessions as (number, params, state, cause), oldest first.

        Open ones whose params were chosen for another class of devices become pruned.
        """
        trials: list[tuple[int, dict[str, Any], TrialState, str]] = []
        for number, trial in enumerate(self._trials()):
            params = trial.user_attrs.get(PARAMS)
            if params is not None and not trial.state.is_finished() and not self._is_of_this_class(trial):
                self._end(number, state=TrialState.PRUNED)
                trials.append((number, params, TrialState.PRUNED, OTHER_DEVICE))
            elif params is not None:
                trials.append((number, params, trial.state, trial.user_attrs.get(CAUSE, "")))
        return trials

    def _is_of_this_class(self, trial: optuna.trial.FrozenTrial) -> bool:
        """Whether a trial's hyperparameters were chosen for such a device; runs of earlier versions do not record it."""
        recorded = trial.user_attrs.get(DEVICE)
        return recorded is None or recorded == device_class(self.device)

    def restore(self, known: Mapping[int, KnownTrial]) -> int:
        """Record trials that the study has lost, in order, up to the first that is not known; returns their number.

        The sampler draws each of them again, so that it continues almost like an uninterrupted one.
        """
        first = number = len(self._numbers)
        while (trial := known.get(number)) is not None:
            try:
                params = msgspec.convert(trial.params, self._plugin.params_type)
            except msgspec.ValidationError:
                break
            self.ask(params)
            if trial.status == "complete":
                self.record(number, trial.score)
            elif trial.status == "pruned":
                self.record_pruned(number, trial.cause, trial.score)
            number += 1
        return number - first

    def ask(self, known: Params | None = None) -> tuple[int, dict[str, Any]]:
        """Start the next trial; returns its number and its hyperparameters as JSON values.

        Args:
            known: hyperparameters to use; None draws them.
        """
        number = len(self._numbers)
        problem = self._task, self._shape, self.device
        given = (self._plugin.defaults(*problem), *self._plugin.portfolio(*problem))
        # A run that was resumed without its GPU tries the defaults of a CPU first.
        earlier = [trial.user_attrs.get(PARAMS) for trial in self._trials() if self._is_of_this_class(trial)]
        chosen = known if known is not None else self._next_given(given, earlier)
        trial, params = self._draw(number, chosen)
        for attempt in range(1, MOST_DRAWS):
            if chosen is not None or params not in earlier:
                break
            self._reject(trial)
            trial, params = self._draw(number, chosen, attempt)
        if chosen is None:
            self._drawn.add(number)
        self._start(trial, params, {})
        return number, params

    def _next_given(self, given: Sequence[Params], earlier: Sequence[Any]) -> Params | None:
        """The first of the given configurations after those of earlier trials; without one that fixed values make equal to them."""
        rest = given[len(earlier) :] if not self._fixed else given
        return next((each for each in rest if {**msgspec.to_builtins(each), **self._fixed} not in earlier), None)

    def ask_sibling(self, first: int) -> tuple[int, dict[str, Any]] | None:
        """Start a trial whose fit can be stacked with that of an open one: it differs only in the plugin's `free_params`. The
        sampler avoids the surroundings of open trials.

        Returns:
            Its number and hyperparameters as `ask`; None if the other was not drawn, or if no draw differs from earlier trials.
        """
        if first not in self._drawn:
            return None
        number, free = len(self._numbers), self._plugin.free_params
        trials = self._trials()
        earlier = [trial.user_attrs.get(PARAMS) for trial in trials]
        alike = {name: value for name, value in trials[first].params.items() if name.removeprefix(USED) not in free}
        shape = without(trials[first].user_attrs[PARAMS], free)
        for attempt in range(SAMPLER_DRAWS):
            trial, params = self._draw(number, None, attempt, alike)
            if params not in earlier and without(params, free) == shape:
                self._start(trial, params, {BATCH: first})
                return number, params
            self._reject(trial)
        return None

    def batch_of(self, number: int) -> int | None:
        """The trial that a trial is a sibling of, also for that trial itself; None without siblings."""
        trials = self._trials()
        batches = [trial.user_attrs.get(BATCH) for trial in trials]
        return number if number in batches else batches[number]

    def _reject(self, trial: optuna.Trial) -> None:
        """Forget a draw."""
        # Only in memory, where the sampler ignores failed trials.
        self._study.tell(trial, state=TrialState.FAIL)

    def _start(self, trial: optuna.Trial, params: dict[str, Any], attributes: dict[str, int]) -> None:
        """Record a drawn trial as the next one."""
        for name, value in {PARAMS: params, DEVICE: device_class(self.device), **attributes}.items():
            trial.set_user_attr(name, value)
        self._stored.add(self._study.get_trials(deepcopy=False)[trial.number])
        self._asked[len(self._numbers)] = trial
        self._numbers.append(trial.number)

    def _draw(
        self, number: int, chosen: Params | None, attempt: int = 0, alike: Mapping[str, Any] | None = None
    ) -> tuple[optuna.Trial, dict[str, Any]]:
        """A trial in memory with its hyperparameters as JSON values: those that are chosen, or drawn ones.

        Args:
            attempt: how many draws for this trial were rejected.
            alike: values of the search space that are not drawn.
        """
        others_are_open = any(not trial.state.is_finished() for trial in self._trials())
        name = f"{self._plugin.name}/{attempt}" if attempt else self._plugin.name
        seed = seed_of(self._seed, name, number)
        self._study.sampler = (
            optuna.samplers.TPESampler(seed=seed, n_startup_trials=N_STARTUP_TRIALS, constant_liar=others_are_open)
            if attempt < SAMPLER_DRAWS
            else optuna.samplers.RandomSampler(seed)
        )
        problem = self._task, self._shape, self.device
        if chosen is not None:
            self._study.enqueue_trial(as_suggested(chosen))
        elif alike:
            self._study.enqueue_trial(dict(alike))
        trial = self._study.ask()
        if chosen is not None:
            # Draw the given values too, so that the sampler learns from those inside the search space.
            with suppress(ValueError), warnings.catch_warnings(action="ignore"):
                self._plugin.search_space(trial, *problem)
            params = msgspec.to_builtins(chosen)
        else:
            params = msgspec.to_builtins(self._plugin.search_space(trial, *problem))
        return trial, {**params, **self._fixed}

    def should_prune(self, number: int, step: int, value: float) -> bool:
        """Report a point of a learning curve; True if it is at one of the plugin's `prune_steps` and worse than the median of
        earlier trials."""
        trial = self._asked.get(number)
        if trial is None or number == 0 or step not in self._plugin.prune_steps:
            return False
        trial.report(value, step)
        self._stored.report(trial.number, step, value)
        return trial.should_prune()

    def record(self, number: int, score: OptionalScore) -> None:
        """Record the out-of-fold score of a complete trial. One whose score is undefined is recorded as pruned: the sampler cannot
        learn from it."""
        if not self._is_finished(number):
            self._end(number, score, state=TrialState.PRUNED if score is None else None)

    def record_pruned(self, number: int, cause: str, score: float | None = None) -> None:
        """Record a trial that was pruned, crashed or ran out of time; `score` is on the folds it has, if any."""
        if self._is_finished(number):
            return
        trial = self._asked.get(number)
        if trial is None:
            self._end(number, state=TrialState.PRUNED)
            return
        trial.set_user_attr(CAUSE, cause)
        if score is not None:
            trial.report(score, LAST_STEP)
            self._stored.report(trial.number, LAST_STEP, score)
        self._end(number, state=TrialState.PRUNED, attributes=(CAUSE,))

    def _end(
        self,
        number: int,
        score: float | None = None,
        *,
        state: TrialState | None = None,
        attributes: tuple[str, ...] = (),
    ) -> None:
        """End a trial, in memory and on disk."""
        self._study.tell(self._numbers[number], score, state=state)
        self._stored.end(self._trials()[number], attributes)

    def rank_parameters(self) -> tuple[int, dict[str, float]] | None:
        """The number of complete trials and the importance of each hyperparameter; the importances sum to 1.

        PED-ANOVA (Watanabe, Bansal, Hutter, IJCAI 2023) as implemented in Optuna for conditional spaces: it compares the density
        of a hyperparameter among the best trials with its density among all trials, in milliseconds.

        Returns:
            None with fewer than ten complete trials, or with less than 15 % more than at the last ranking.
        """
        complete = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(complete) < max(LEAST_RANKED_TRIALS, RANKED_GROWTH * self._ranked_at):
            return None
        # Imported here: it imports scikit-learn, which takes a second of the time before the first fit.
        from optuna.importance import PedAnovaImportanceEvaluator

        self._ranked_at = len(complete)
        evaluator = PedAnovaImportanceEvaluator(target_quantile=RANKED_QUANTILE)
        with warnings.catch_warnings(action="ignore"):
            found = evaluator.evaluate(self._study)
        shares: dict[str, float] = {}
        for name, value in found.items():
            # One parameter of the model is two in the search space: whether it is 0, and its value.
            name = name.removeprefix(USED)
            shares[name] = shares.get(name, 0.0) + max(0.0, value)
        total = sum(shares.values())
        if total <= 0:
            return None
        ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        return len(complete), {name: value / total for name, value in ordered}

    def _is_finished(self, number: int) -> bool:
        return self._trials()[number].state.is_finished()


def without(params: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Hyperparameters other than some."""
    return {name: value for name, value in params.items() if name not in names}


def as_suggested(params: Params) -> dict[str, Any]:
    """Hyperparameters in the form that a search space draws: those of the papers' {0, distribution} kind are drawn in two steps,
    first `use_NAME`, then NAME."""
    drawn: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(params).items():
        if not isinstance(value, bool | int | float | str):
            continue
        drawn[f"{USED}{name}"] = bool(value)
        if value != 0 or isinstance(value, bool):
            drawn[name] = value
    return drawn
