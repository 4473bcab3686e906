"""Hyper-parameter search: one Optuna study a model, in SQLite in the run folder. Only the engine asks and tells."""

from __future__ import annotations

import warnings
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import optuna
from optuna.importance import PedAnovaImportanceEvaluator
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy import event

from tabapp import metrics
from tabapp.metrics import Task
from tabapp.models.contract import Params, Plugin, Shape

N_STARTUP_TRIALS = 5
PARAMS = "params"
CAUSE = "cause"
LEAST_RANKED_TRIALS = 10
RANKED_QUANTILE = 0.25
"""A trial is among the best when it is in this share of the complete ones: three of twelve, as the estimator asks for a few."""
RANKED_GROWTH = 1.15
LAST_STEP = 1_000_000
"""Where a pruned trial's score on its folds is reported: after every step of a learning curve."""


def open_storage(path: Path) -> RDBStorage:
    """Optuna's SQLite, made to keep what it has acknowledged through a crash: write-ahead log, synchronous FULL."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 30}})

    def harden(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    event.listen(storage.engine, "connect", harden)
    # RDBStorage has connected already: without this the listener would never see that connection.
    storage.engine.dispose()
    return storage


class Tuner:
    """Asks for hyper-parameters of one model and is told how they did.

    Trial 0 is the defaults, and the next ones are the plugin's portfolio. At most one trial of a model is in flight, so the
    sequence does not depend on timing. A crash or a timeout is told as pruned, because the sampler learns nothing from a failed
    trial and would come back to the same corner.

    Args:
        seed: the run's seed; each trial draws from (seed, model, number), so a resumed run goes on as an unbroken one would.
    """

    def __init__(
        self, storage: RDBStorage, plugin: Plugin, *, task: Task, shape: Shape, device: str, metric: str, seed: int
    ) -> None:
        self._plugin = plugin
        self._task: Task = task
        self._shape = shape
        self._device = device
        self._seed = seed
        self._study = optuna.create_study(
            study_name=plugin.name,
            storage=storage,
            direction="maximize" if metrics.get(metric).greater_is_better else "minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
            load_if_exists=True,
        )
        self._asked: dict[int, optuna.Trial] = {}
        self._ranked_at = 0

    def known(self) -> list[tuple[int, dict[str, Any], TrialState, str]]:
        """Trials of an earlier session: (number, params, state, cause), oldest first. Those without params are told as pruned."""
        trials: list[tuple[int, dict[str, Any], TrialState, str]] = []
        for trial in self._study.get_trials(deepcopy=False):
            params = trial.user_attrs.get(PARAMS)
            if params is not None:
                trials.append((trial.number, params, trial.state, trial.user_attrs.get(CAUSE, "")))
            elif trial.state == TrialState.RUNNING:
                self._study.tell(trial.number, state=TrialState.PRUNED)
        return trials

    def ask(self) -> tuple[int, dict[str, Any]]:
        """The next trial's number and hyper-parameters as JSON values."""
        number = len(self._study.get_trials(deepcopy=False))
        self._study.sampler = optuna.samplers.TPESampler(
            seed=seed_of(self._seed, self._plugin.name, number), n_startup_trials=N_STARTUP_TRIALS
        )
        problem = self._task, self._shape, self._device
        given = (self._plugin.defaults(*problem), *self._plugin.portfolio(*problem))
        if number < len(given):
            self._study.enqueue_trial(as_drawn(given[number]), skip_if_exists=True)
        trial = self._study.ask()
        if number < len(given):
            # Drawn only so that the sampler learns from what is given, as far as it lies inside the space.
            with suppress(ValueError), warnings.catch_warnings(action="ignore"):
                self._plugin.search_space(trial, *problem)
            params = msgspec.to_builtins(given[number])
        else:
            params = msgspec.to_builtins(self._plugin.search_space(trial, *problem))
        trial.set_user_attr(PARAMS, params)
        self._asked[number] = trial
        return number, params

    def should_prune(self, number: int, step: int, value: float) -> bool:
        """Report a learning curve's value at one of the plugin's `prune_steps`; True when it is behind the median of
        earlier trials."""
        trial = self._asked.get(number)
        if trial is None or number == 0 or step not in self._plugin.prune_steps:
            return False
        trial.report(value, step)
        return trial.should_prune()

    def tell(self, number: int, score: float) -> None:
        """A complete trial's out-of-fold score."""
        if not self._is_finished(number):
            self._study.tell(number, score)

    def tell_pruned(self, number: int, cause: str, score: float | None = None) -> None:
        """A trial that was given up, crashed or ran out of time; `score` on the folds it had, if any."""
        if self._is_finished(number):
            return
        trial = self._asked.get(number)
        if trial is not None:
            trial.set_user_attr(CAUSE, cause)
            if score is not None:
                trial.report(score, LAST_STEP)
        self._study.tell(number, state=TrialState.PRUNED)

    def rank_parameters(self) -> tuple[int, dict[str, float]] | None:
        """How many trials are complete, and each hyper-parameter's share of what decides whether a trial is among the best.

        PED-ANOVA (Watanabe, Bansal, Hutter, IJCAI 2023) in its form for conditional spaces, as Optuna has it: it compares the
        density of a hyper-parameter among the best trials with that among all, and takes milliseconds.

        Returns:
            None with fewer than ten complete trials, or when there are hardly more than at the last ranking.
        """
        complete = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(complete) < max(LEAST_RANKED_TRIALS, RANKED_GROWTH * self._ranked_at):
            return None
        self._ranked_at = len(complete)
        evaluator = PedAnovaImportanceEvaluator(target_quantile=RANKED_QUANTILE)
        with warnings.catch_warnings(action="ignore"):
            found = evaluator.evaluate(self._study)
        shares: dict[str, float] = {}
        for name, value in found.items():
            # Whether it is 0 and its value are two parameters of the search and one of the model.
            name = name.removeprefix("use_")
            shares[name] = shares.get(name, 0.0) + max(0.0, value)
        total = sum(shares.values())
        if total <= 0:
            return None
        ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        return len(complete), {name: value / total for name, value in ordered}

    def _is_finished(self, number: int) -> bool:
        return self._study.get_trials(deepcopy=False)[number].state.is_finished()


def as_drawn(params: Params) -> dict[str, Any]:
    """Hyper-parameters as a search space would have drawn them: those of the papers' {0, distribution} kind are drawn in two
    steps, first `use_NAME`, then NAME."""
    drawn: dict[str, Any] = {}
    for name, value in msgspec.to_builtins(params).items():
        if not isinstance(value, bool | int | float | str):
            continue
        drawn[f"use_{name}"] = bool(value)
        if value != 0 or isinstance(value, bool):
            drawn[name] = value
    return drawn


def seed_of(seed: int, name: str, number: int) -> int:
    """A 32-bit seed for one trial of one model, the same in every process."""
    return zlib.crc32(f"{seed}/{name}/{number}".encode())
