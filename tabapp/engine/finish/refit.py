"""Train models on all rows of a finished run, for as long as the models of the folds were trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.bundle.writing.write import CandidateSource, FoldSource
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.features import ALL_ROWS, Features, recipe_id
from tabapp.engine.fit.fold_task import FoldTask
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.machine.devices import available_cores
from tabapp.features.arrays import FeatureRecipe
from tabapp.models import registry


class Refitter:
    """Trains models on all rows of a run and on all processors, and keeps the features of each recipe.

    Args:
        folder: an empty folder for models and features.
    """

    def __init__(self, run: FinishedRun, folder: Path) -> None:
        self._run, self._folder = run, folder
        self._features: dict[FeatureRecipe, tuple[Features, Path]] = {}

    def refit(self, candidate: Candidate, weight: float) -> CandidateSource:
        """Train a candidate on all rows, with each of its seeds."""
        results = list(candidate.results.values())
        sources = [
            self.train(
                candidate.model,
                candidate.trial,
                candidate.params,
                results[0].recipe,
                [result.summary for result in results],
                weight=weight,
                seed=seed,
            )
            for seed in range(candidate.seeds)
        ]
        return replace(sources[0], folds=[fold for source in sources for fold in source.folds])

    def train(
        self,
        model: str,
        trial: int,
        params: dict[str, Any],
        recipe: FeatureRecipe,
        summaries: Sequence[Mapping[str, Any]],
        *,
        weight: float,
        soft: npt.NDArray[np.floating] | None = None,
        seed: int = 0,
    ) -> CandidateSource:
        """Train a model on all rows.

        Args:
            summaries: of the models of the folds.
            soft: see `Split`.
            seed: see `FoldTask`.
        """
        run = self._run
        features, state = self._features_of(recipe)
        task = FoldTask(
            goal=run.plan,
            model=model,
            params=params,
            features=features,
            device=run.models.device_of(model),
            n_threads=available_cores(),
            pilots=summaries,
            soft=soft,
            seed=seed,
        )
        trained = task.train()
        place = self._folder / "models" / f"{model}-{trial}-{seed}"
        place.mkdir(parents=True)
        trained.model.save(place)
        stored = None
        if registry.get(model).contains_training_rows and soft is None:
            stored = UsableRows(trained.places, len(run.data.target)).of(run.numbers).tolist()
        return CandidateSource(model, trial, params, weight, [FoldSource(0, place, state, stored, seed)])

    def _features_of(self, recipe: FeatureRecipe) -> tuple[Features, Path]:
        """The features of all rows, and the folder of their state."""
        if recipe not in self._features:
            features = self._run.features.fitted(recipe, ALL_ROWS, self._run.data.all)
            place = self._folder / "all" / recipe_id(recipe)
            place.mkdir(parents=True)
            features.preparer.save(place)
            self._features[recipe] = features, place
        return self._features[recipe]
