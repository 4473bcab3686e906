"""Optuna's trials of one model in the SQLite file of a run, written in few transactions."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

import optuna
from optuna.storages import InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState


class StoredTrials:
    """Keeps the trials of a study on disk, beside the study in memory that draws them.

    Optuna writes every hyperparameter in a transaction of its own, and reads the trials again for each, which took most of the
    time of a new trial. Here it is written at once, so that a killed engine leaves no partial trial either.

    Args:
        complete: name of a user attribute that every trial has. Earlier versions could leave trials without it, which are failed,
            so that they are drawn again: the sampler ignores failed trials.
    """

    def __init__(
        self, storage: RDBStorage, name: str, direction: Literal["minimize", "maximize"], complete: str
    ) -> None:
        self._storage = storage
        self._direction: Literal["minimize", "maximize"] = direction
        self._name = name
        self._study: int | None = None
        self._read: list[FrozenTrial] = []
        with suppress(KeyError):
            self._study = storage.get_study_id_from_name(name)
            self._read = self._repaired(optuna.load_study(study_name=name, storage=storage), complete)
        self._ids = {trial.number: trial._trial_id for trial in self._read}  # pyright: ignore[reportPrivateUsage]

    @staticmethod
    def _repaired(study: optuna.Study, complete: str) -> list[FrozenTrial]:
        """The trials of a study on disk; partial ones are failed."""
        for trial in study.get_trials(deepcopy=False):
            if trial.state == TrialState.WAITING:
                study.tell(study.ask(), state=TrialState.FAIL)
            elif trial.state == TrialState.RUNNING and complete not in trial.user_attrs:
                study.tell(trial.number, state=TrialState.FAIL)
        return study.get_trials(deepcopy=False)

    def in_memory(self, pruner: optuna.pruners.BasePruner) -> optuna.Study:
        """A study in memory with the trials that the file had when it was opened."""
        storage = InMemoryStorage()
        study = optuna.create_study(storage=storage, direction=self._direction, pruner=pruner)
        for trial in self._read:
            # Not by `add_trial`, which rejects values outside of the search space, such as some defaults.
            storage.create_new_trial(study._study_id, template_trial=trial)  # pyright: ignore[reportPrivateUsage]
        return study

    def add(self, trial: FrozenTrial) -> None:
        """Write a new trial with all of its hyperparameters and attributes."""
        if self._study is None:
            # Not before: many models of a run never start.
            study = optuna.create_study(study_name=self._name, storage=self._storage, direction=self._direction)
            self._study = study._study_id  # pyright: ignore[reportPrivateUsage]
        self._ids[trial.number] = self._storage.create_new_trial(self._study, template_trial=trial)

    def report(self, number: int, step: int, value: float) -> None:
        """Write a point of a learning curve."""
        self._storage.set_trial_intermediate_value(self._ids[number], step, value)

    def end(self, trial: FrozenTrial, attributes: tuple[str, ...] = ()) -> None:
        """Write the state and the value of a trial that has ended.

        Args:
            attributes: names of user attributes that the trial has got since it was added.
        """
        for name in attributes:
            self._storage.set_trial_user_attr(self._ids[trial.number], name, trial.user_attrs[name])
        self._storage.set_trial_state_values(self._ids[trial.number], trial.state, trial.values)
