"""Optuna's trials of one model in the SQLite file of a run, written in few transactions."""

from __future__ import annotations

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
        study = optuna.create_study(study_name=name, storage=storage, direction=direction, load_if_exists=True)
        for trial in study.get_trials(deepcopy=False):
            if trial.state == TrialState.WAITING:
                study.tell(study.ask(), state=TrialState.FAIL)
            elif trial.state == TrialState.RUNNING and complete not in trial.user_attrs:
                study.tell(trial.number, state=TrialState.FAIL)
        self._study = study._study_id  # pyright: ignore[reportPrivateUsage]
        self._read = study.get_trials(deepcopy=False)
        self._ids = {trial.number: trial._trial_id for trial in self._read}  # pyright: ignore[reportPrivateUsage]

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
