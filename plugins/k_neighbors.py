"""k nearest neighbors (Fix & Hodges 1951), with scikit-learn's search. Saved models contain the training rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.features.saved import demand, read_arrays
from tabapp.models.contract import Cost, FitContext, FittedModel, Float32, Floats, Params, Plugin, Shape, Task, Trial

from ._shared.constant import ConstantModel
from ._shared.design import ARRAYS, Design
from ._shared.target import Target, target_of

PREDICTION_ROWS = 4096
MOST_ROWS = 50_000


class KNeighborsParams(Params, frozen=True, kw_only=True):
    """Attributes:
    n_neighbors: number of nearest training rows.
    by_distance: whether neighbors are weighted by inverse distance.
    """

    n_neighbors: int = 20
    by_distance: bool = True


class _SavedNeighbors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target: Target
    params: KNeighborsParams


class KNeighborsModel(FittedModel):
    """Stored training rows with their targets and weights.

    Attributes:
        rows: (n_rows, columns) float32 matrix of the design.
        known: (n_rows,) float64 standardized target or class code.
        weight: (n_rows,) float32.
    """

    # The search changes the warning filters and the threads of the libraries of the process for the time of a call.
    thread_safe = False

    def __init__(
        self,
        design: Design,
        rows: Float32,
        known: npt.NDArray[np.float64],
        weight: Float32,
        target: Target,
        params: KNeighborsParams,
    ) -> None:
        from sklearn.neighbors import NearestNeighbors
        from threadpoolctl import ThreadpoolController

        self.design, self.rows, self.known, self.weight = design, rows, known, weight
        self.target, self.params = target, params
        self._index: Any = NearestNeighbors(n_neighbors=min(params.n_neighbors, len(rows))).fit(rows)
        self._threads: Any = ThreadpoolController()

    def predict(self, table: Table) -> Floats:
        matrix = self.design.matrix(table)
        parts = [
            self._predict(matrix[start : start + PREDICTION_ROWS]) for start in range(0, len(matrix), PREDICTION_ROWS)
        ]
        return np.concatenate(parts) if parts else self._predict(matrix)

    def _predict(self, matrix: Float32) -> Floats:
        shape = (len(matrix), self._index.n_neighbors)
        # Which of several equally distant rows are found depends on the number of threads.
        with self._threads.limit(limits=1, user_api="openmp"):
            distance, nearest = (
                self._index.kneighbors(matrix) if len(matrix) else (np.zeros(shape), np.zeros(shape, int))
            )
        vote = self.weight[nearest].astype(np.float64)
        if self.params.by_distance:
            # Relative to the farthest neighbor, so that an equal row does not get all the weight.
            vote /= distance + 1e-3 * distance[:, -1:] + 1e-12
        total = vote.sum(axis=1, keepdims=True)
        # Neighbors that all have the weight 0 count equally.
        vote = np.where(total > 0, vote / np.where(total > 0, total, 1.0), 1.0 / vote.shape[1])
        if self.target.task == "regression":
            return self.target.prediction((vote * self.known[nearest]).sum(axis=1))
        votes = np.zeros((len(matrix), self.target.n_classes))
        for code in range(self.target.n_classes):
            votes[:, code] = (vote * (self.known[nearest] == code)).sum(axis=1)
        # One additional vote is spread over all classes, so that no class has probability zero.
        prior = 1 / (self.params.n_neighbors * self.target.n_classes)
        return self.target.prediction((votes + prior) / (1 + prior * self.target.n_classes))

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        arrays = {"rows": self.rows, "known": self.known, "weight": self.weight}
        save_file(self.design.arrays() | arrays, folder / "rows.safetensors")
        target = {"task": self.target.task, "n_classes": self.target.n_classes}
        target |= {"mean": self.target.mean, "std": self.target.std}
        params = {"n_neighbors": self.params.n_neighbors, "by_distance": self.params.by_distance}
        (folder / "model.json").write_text(json.dumps({"target": target, "params": params}))

    @classmethod
    def load(cls, folder: Path) -> KNeighborsModel:
        """Read what `save` wrote. Predictions are bit-identical."""
        stored = {"rows": ("float32", 2), "known": ("float64", 1), "weight": ("float32", 1)}
        arrays = read_arrays(folder / "rows.safetensors", ARRAYS | stored)
        rows, known, weight = (arrays.pop(name) for name in stored)
        saved = msgspec.json.decode((folder / "model.json").read_bytes(), type=_SavedNeighbors)
        demand(len(rows) and len(rows) == len(known) == len(weight), "its stored rows differ in length")
        demand(rows.shape[1] > 0 and saved.params.n_neighbors > 0, "it has no columns or no neighbors")
        return cls(Design(**arrays), rows, known, weight, saved.target, saved.params)

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        self.target.check(task, n_classes)
        self.design.check(features)
        demand(self.rows.shape[1] == self.design.n_columns, "its stored rows do not have the columns of the table")
        demand((self.weight >= 0).all(), "the weight of a stored row is negative")
        codes = (self.known >= 0) & (self.known < n_classes) & (self.known == np.floor(self.known))
        demand(task == "regression" or codes.all(), "the class of a stored row is out of range")

    def summary(self) -> dict[str, Any]:
        return {"rows": len(self.rows)}


class KNeighbors(Plugin):
    """Distances use quantile-normal numbers, so that all columns have the same scale, and one-hot levels."""

    name = "k_neighbors"
    title = "k nearest neighbors"
    family = "classic"
    paper = "Fix & Hodges 1951, Discriminatory Analysis: Nonparametric Discrimination"
    contains_training_rows = True
    requires = ("sklearn", "safetensors")
    predict_requires = ("sklearn.neighbors", "safetensors")
    params_type = KNeighborsParams

    def supports(self, task: Task, shape: Shape) -> str | None:
        if not shape.n_features:
            return "The table has no features."
        if shape.n_rows > MOST_ROWS:
            return f"It stores every training row and supports at most {MOST_ROWS:,}; the table has {shape.n_rows:,}."
        if shape.n_features > 300:
            return (
                f"It supports at most 300 features, because distances in more dimensions are uninformative; the table has "
                f"{shape.n_features:,}."
            )
        return None

    def features(self) -> FeatureRecipe:
        return FeatureRecipe(numeric="quantile")

    def defaults(self, task: Task, shape: Shape, device: str) -> KNeighborsParams:
        return KNeighborsParams()

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[KNeighborsParams, ...]:
        """A single neighbor: a weak model, but where rows have near duplicates, it improves ensembles of trees."""
        return (KNeighborsParams(n_neighbors=1, by_distance=False),)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> KNeighborsParams:
        n_neighbors = trial.suggest_int("n_neighbors", 1, 200, log=True)
        by_distance = trial.suggest_categorical("by_distance", [True, False])
        # A single neighbor has all of the weight, whatever its distance.
        return KNeighborsParams(n_neighbors=n_neighbors, by_distance=by_distance and n_neighbors > 1)

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        columns = shape.n_numeric + 8 * shape.n_categorical
        # Fitting takes no time; the cost is the prediction of early-stopping and scored rows, a third of the training rows.
        seconds = 0.03 + 0.35 * shape.n_rows**2 * columns * 1.4e-10
        return Cost(seconds=seconds, n_bytes=13_000_000 + 21 * shape.n_rows * columns)

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        """Store the training rows, report the score on the early-stopping rows, and then store those too."""
        assert isinstance(params, KNeighborsParams)
        if constant := ConstantModel.when_needed(train, context):
            return constant
        model = self.keep(train, params, context)
        context.report(1, metrics.score(context.metric, target_of(valid), model.predict(valid), valid.weight))
        return self.keep(train.joined(valid), params, context) if context.seconds_left() > 0 else model

    def refit(
        self, train: Table, params: Params, summaries: Sequence[Mapping[str, Any]], context: FitContext
    ) -> FittedModel:
        """Store all rows."""
        assert isinstance(params, KNeighborsParams)
        return ConstantModel.when_needed(train, context) or self.keep(train, params, context)

    def keep(self, train: Table, params: KNeighborsParams, context: FitContext) -> KNeighborsModel:
        """A model with these stored rows."""
        design, target = Design.fit(train), Target.fit(train, context)
        weight = np.ones(len(train), np.float32) if train.weight is None else np.asarray(train.weight, np.float32)
        known = target.transform(target_of(train))
        return KNeighborsModel(design, design.matrix(train), known, weight, target, params)

    def load(self, folder: Path) -> FittedModel:
        return ConstantModel.load(folder) or KNeighborsModel.load(folder)
