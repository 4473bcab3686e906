"""The one reader of the fitted models of a run, with the features that they take."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from tabapp.bundle.writing.write import CandidateSource, FoldSource
from tabapp.engine.fit.candidates import Candidate, mean_of_seeds
from tabapp.engine.fit.features import Features, RunFeatures
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.run_fit import ROWS
from tabapp.engine.plan.make_plan import Plan, fit_device, shape_of
from tabapp.explain.effects import HeldOut
from tabapp.explain.evaluation import sample_rows
from tabapp.explain.fold_model import FoldModel
from tabapp.models import registry
from tabapp.models.contract import FittedModel, Floats
from tabapp.run.record.folder import RunFolder


@dataclass(frozen=True)
class FoldModels:
    """Reads the models of the folds of candidates.

    Attributes:
        plan: as it is on this machine, which may lack the device of the run.
    """

    folder: RunFolder
    data: RunData
    plan: Plan
    prepared: RunFeatures

    @classmethod
    def of_run(cls, folder: RunFolder, data: RunData, plan: Plan) -> FoldModels:
        """The models of a run that continues in this process."""
        return cls(folder, data, plan.on_this_machine(), RunFeatures(data, plan.seed, folder))

    def model(self, candidate: Candidate, fold: int, device: str | None = None, seed: int = 0) -> FittedModel:
        """The model of a fold and a seed, on a device; None means that of the fits of its plugin."""
        model = registry.get(candidate.model).load(candidate.place(self.folder, fold, seed) / "model")
        model.to(device or self.device_of(candidate.model))
        return model

    def device_of(self, model: str) -> str:
        """The device of the fits of a model on this machine."""
        return fit_device(registry.get(model), self.plan, shape_of(self.plan, self.data.schema))

    def features(self, candidate: Candidate, fold: int) -> Features:
        """The features of all rows for the model of a fold."""
        return self.prepared.saved(candidate.results[fold].recipe, fold)

    def predict(self, candidate: Candidate, fold: int, rows: UsableRows) -> Floats:
        """The predictions of some rows by the model of a fold, averaged over the seeds."""
        table = replace(rows.of(self.features(candidate, fold).table), target=None)
        models = (self.model(candidate, fold, seed=seed) for seed in range(candidate.seeds))
        return mean_of_seeds([model.predict(table) for model in models])

    def with_held_out(self, candidate: Candidate, deadline: float | None = None, passes: float = 2) -> list[FoldModel]:
        """The models, each with its held-out rows.

        Args:
            deadline, passes: see `folds_within`.
        """
        models: list[FoldModel] = []
        for fold in folds_within(candidate, deadline, passes):
            features, held_out = self.features(candidate, fold), self.data.held_out(fold)
            model = self.model(candidate, fold)
            models.append(FoldModel(model, held_out.of(features.table), features.spec, held_out.places))
        return models

    def with_typed_rows(self, candidate: Candidate, most_rows: int, deadline: float | None = None) -> list[HeldOut]:
        """The models, each with a sample of its held-out rows as typed columns, `most_rows` in total.

        Args:
            deadline: see `folds_within`.
        """
        each = max(1, most_rows // len(candidate.results))
        folds: list[HeldOut] = []
        for fold in folds_within(candidate, deadline):
            held_out = self.data.held_out(fold)
            rows = held_out.at(sample_rows(len(held_out), each, self.plan.seed + fold))
            preparer = self.features(candidate, fold).preparer
            folds.append(HeldOut(self.model(candidate, fold), preparer, rows.of(self.data.frame)))
        return folds

    def out_of_fold(self, candidate: Candidate, rows: UsableRows) -> Floats:
        """The saved predictions of some rows, each by the model of the fold that holds it out, averaged over the seeds."""
        whole: Floats | None = None
        for fold in candidate.results:
            part = candidate.out_of_fold(self.folder, fold)
            if whole is None:
                whole = np.full((len(self.data.target), *part.shape[1:]), np.nan, dtype=part.dtype)
            self.data.held_out(fold).put(whole, part)
        assert whole is not None
        return rows.of(whole)

    def rows_of_fit(self, candidate: Candidate, fold: int, seed: int = 0) -> UsableRows | None:
        """The rows that a fit received, training rows before early-stopping rows; None for models that store none."""
        saved = candidate.place(self.folder, fold, seed) / ROWS
        return UsableRows(np.load(saved, allow_pickle=False), len(self.data.target)) if saved.is_file() else None

    def source(self, candidate: Candidate, weight: float) -> CandidateSource:
        """The files that a bundle is made of.

        Args:
            weight: of the candidate in the ensemble.
        """
        folds: list[FoldSource] = []
        seeds = [(fold, seed) for fold in sorted(candidate.results) for seed in range(candidate.seeds)]
        for fold, seed in seeds:
            place, rows = candidate.place(self.folder, fold, seed), self.rows_of_fit(candidate, fold, seed)
            folds.append(
                FoldSource(
                    fold=fold,
                    model=place / "model",
                    features=self.prepared.place(candidate.results[fold].recipe, fold) / "state",
                    rows=None if rows is None else rows.of(self.data.numbers).tolist(),
                    seed=seed,
                )
            )
        return CandidateSource(candidate.model, candidate.trial, candidate.params, weight, folds)


def folds_within(candidate: Candidate, deadline: float | None, passes: float = 2) -> list[int]:
    """The folds whose models explain a candidate.

    A model that trains nothing reads its rows again after it is loaded. Of its folds, these are the first ones that can do so and
    predict several times until a deadline, by the time that this took before; at least one.

    Args:
        deadline: `time.monotonic()`; None means all folds.
        passes: number of predictions.
    """
    folds = sorted(candidate.results)
    if deadline is None or not registry.trains_nothing(candidate.model):
        return folds
    seconds = [r.seconds + passes * r.predict_seconds for r in (candidate.results[fold] for fold in folds)]
    n_folds = int(np.searchsorted(np.cumsum(seconds), deadline - time.monotonic(), side="right"))
    return folds[: max(1, n_folds)]
