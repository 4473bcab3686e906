"""Train models on all rows of a finished run, for as long as the models of the folds were trained."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.bundle.writing.write import CandidateSource, FoldSource
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.fit.other_targets import with_other_targets
from tabapp.engine.fit.run_fit import recipe_id
from tabapp.engine.fit.seeds import seed_of
from tabapp.engine.fit.unlabeled import PRETRAINED, add_unlabeled, fitted_features, pretrained_folder
from tabapp.engine.machine.devices import available_cores
from tabapp.engine.plan.make_plan import fit_device, usable_device
from tabapp.features.arrays import FeatureRecipe, Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tabapp.models.contract import FitContext, FittedModel, Params, Plugin

ALL_ROWS = -1
"""The number of the fold without held-out rows, in seeds."""


class Refitter:
    """Trains models on all rows of a run, and keeps the features of each recipe.

    Args:
        folder: an empty folder for models and features.
    """

    def __init__(self, run: FinishedRun, folder: Path) -> None:
        self._run, self._folder = run, folder
        self._tables: dict[FeatureRecipe, tuple[Table, FeaturePreparer, Path]] = {}

    def refit(self, candidate: Candidate, weight: float) -> CandidateSource:
        """Train a candidate on all rows."""
        results = list(candidate.results.values())
        return self.train(
            candidate.model,
            candidate.trial,
            candidate.params,
            results[0].recipe,
            [result.summary for result in results],
            weight=weight,
        )

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
    ) -> CandidateSource:
        """Train a model on all rows.

        Args:
            summaries: of the models of the folds.
            soft: (rows, classes) shares or (rows,) numbers to train on instead of the target; see `soft_table`.
        """
        run = self._run
        table, preparer, state = self._table(recipe)
        plugin = registry.get(model)
        seed = seed_of(run.plan.seed, model, ALL_ROWS)
        context = context_for(run, plugin, preparer, seed, self._folder / "scratch")
        typed_params = msgspec.convert(params, plugin.params_type)
        if plugin.pretrains:
            parent = self._folder / PRETRAINED
            context.pretrained, _ = pretrained_folder(
                parent, plugin, typed_params, context, recipe_id(recipe), run.plan.seed
            )
        rows = run.data.all
        table = with_other_targets(table, context, plugin, run.data)
        learned = table if soft is None else soft_table(table, soft)
        fitted = plugin.refit(learned, typed_params, summaries, context)
        if fitted is None:
            fitted, rows = fit_with_stopping(run, plugin, typed_params, table, rows, seed, context, soft)
        place = self._folder / "models" / f"{model}-{trial}"
        place.mkdir(parents=True)
        fitted.save(place)
        shutil.rmtree(self._folder / "scratch", ignore_errors=True)
        stored = rows.of(run.numbers).tolist() if plugin.contains_training_rows and soft is None else None
        return CandidateSource(model, trial, params, weight, [FoldSource(0, place, state, stored)])

    def _table(self, recipe: FeatureRecipe) -> tuple[Table, FeaturePreparer, Path]:
        if recipe not in self._tables:
            data = self._run.data
            seed = seed_of(self._run.plan.seed, recipe_id(recipe), ALL_ROWS)
            preparer, table = fitted_features(
                data.frame, data.schema, recipe, seed, data.target, data.groups, data.unlabeled
            )
            place = self._folder / "features" / recipe_id(recipe)
            place.mkdir(parents=True)
            preparer.save(place)
            self._tables[recipe] = replace(table, target=data.target, weight=data.weight), preparer, place
        return self._tables[recipe]


def context_for(run: FinishedRun, plugin: Plugin, preparer: FeaturePreparer, seed: int, scratch: Path) -> FitContext:
    """The context of a fit on all processors, without a deadline; on the GPU of the run if it is there."""
    scratch.mkdir(parents=True, exist_ok=True)
    context = FitContext(
        task=run.plan.task,
        n_classes=run.plan.n_classes,
        metric=run.plan.metric,
        features=preparer.spec,
        seed=seed,
        device=usable_device(fit_device(plugin, run.plan, run.data.schema)),
        n_threads=available_cores(),
        folder=scratch,
        is_ordered=run.data.time is not None,
    )
    add_unlabeled(context, plugin, run.data.unlabeled, preparer)
    return context


def fit_with_stopping(
    run: FinishedRun,
    plugin: Plugin,
    params: Params,
    table: Table,
    rows: UsableRows,
    seed: int,
    context: FitContext,
    soft: npt.NDArray[np.floating] | None = None,
) -> tuple[FittedModel, UsableRows]:
    """Train on some rows with early stopping; returns the model, and the rows in the order in which they were passed to it."""
    stopping = run.data.stopping(rows, run.plan.task, seed)
    train, valid = rows.at(~stopping), rows.at(stopping)
    learned, stopped = train.of(table), valid.of(table)
    if soft is not None:
        learned = soft_table(learned, train.of(soft))
        if learned.weight is not None and stopped.weight is None:
            # A plugin that trains on both in the end needs the weights of both.
            stopped = replace(stopped, weight=np.ones(len(stopped), dtype=np.float32))
    return plugin.fit(learned, stopped, params, context), UsableRows.joined([train, valid])


LEAST_SHARE = 0.01
"""Share of a class below which a row is not repeated for it."""


def soft_table(table: Table, soft: npt.NDArray[np.floating]) -> Table:
    """A table to learn soft targets from: a row is repeated for each class with the share of the class as its weight.

    Args:
        soft: (rows, classes) shares that sum to 1, or (rows,) numbers, which replace the target.
    """
    if soft.ndim == 1:
        return replace(table, target=soft.astype(np.float64))
    rows, classes = np.nonzero(soft >= LEAST_SHARE)
    weight = soft[rows, classes].astype(np.float32)
    if table.weight is not None:
        weight = weight * table.weight[rows]
    return replace(table.take(rows), target=classes.astype(np.int64), weight=weight)
