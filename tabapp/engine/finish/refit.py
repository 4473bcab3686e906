"""Train models on all rows of a run, for as long as the models of the folds were trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.bundle.writing.write import CandidateSource, FoldSource
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.features import ALL_ROWS, Features, recipe_id
from tabapp.engine.fit.fold_task import FoldTask
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.machine.devices import available_cores
from tabapp.features.arrays import FeatureRecipe
from tabapp.models import registry


class Refitter:
    """Trains models on all rows of a run and on all processors, and keeps the features of each recipe.

    Args:
        folder: an empty folder for models and features.
    """

    def __init__(self, models: FoldModels, folder: Path) -> None:
        self._models, self._folder = models, folder
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
        data, plan = self._models.data, self._models.plan
        features, state = self._features_of(recipe)
        task = FoldTask(
            goal=plan,
            model=model,
            params=params,
            features=features,
            device=self._models.device_of(model),
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
            stored = UsableRows(trained.places, len(data.target)).of(data.numbers).tolist()
        return CandidateSource(model, trial, params, weight, [FoldSource(0, place, state, stored, seed)])

    def _features_of(self, recipe: FeatureRecipe) -> tuple[Features, Path]:
        """The features of all rows, and the folder of their state."""
        if recipe not in self._features:
            features = self._models.prepared.fitted(recipe, ALL_ROWS, self._models.data.all)
            place = self._folder / "all" / recipe_id(recipe)
            place.mkdir(parents=True)
            features.preparer.save(place)
            self._features[recipe] = features, place
        return self._features[recipe]


def sources_of(models: FoldModels, members: Iterable[tuple[Candidate, float]], folder: Path) -> list[CandidateSource]:
    """What the bundle of an ensemble is made of: the models of the folds, or one model with all rows where nothing is trained.

    Args:
        members: candidates with their weights.
        folder: an empty folder, which must exist until the bundle is written.
    """
    refitter = Refitter(models, folder)
    return [
        refitter.refit(candidate, weight)
        if registry.trains_nothing(candidate.model)
        else models.source(candidate, weight)
        for candidate, weight in members
    ]
