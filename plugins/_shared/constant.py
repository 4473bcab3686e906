"""The model of a constant target, or of constant columns, where a library would fail."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.features.saved import demand
from tabapp.models.contract import FitContext, FittedModel, Floats, Task
from tabapp.models.formula import ConstantFormula, Formula

from .target import target_of


class _SavedConstant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    values: list[float]
    task: Task


class ConstantModel(FittedModel):
    """Predicts the same value for every row, for a constant target or constant columns."""

    thread_safe = True

    def __init__(self, values: list[float], task: Task) -> None:
        self.values = values
        self.task = task

    @classmethod
    def when_needed(cls, train: Table, context: FitContext) -> ConstantModel | None:
        """The constant model if the training target, or every training column, has a single value, else None."""
        y = target_of(train)
        numbers, codes = train.numeric, train.categorical
        same = (numbers == numbers[:1]) | (np.isnan(numbers) & np.isnan(numbers[:1]))
        if y.min() < y.max() and not (same.all() and (codes == codes[:1]).all()):
            return None
        if context.task == "regression":
            return cls([float(np.average(y, weights=train.weight))], "regression")
        counts = np.bincount(y, weights=train.weight, minlength=context.n_classes)
        return cls([float(count / counts.sum()) for count in counts], context.task)

    def predict(self, table: Table) -> Floats:
        if self.task == "regression":
            return np.full(len(table), self.values[0], dtype=np.float64)
        return np.tile(np.asarray(self.values, dtype=np.float32), (len(table), 1))

    def save(self, folder: Path) -> None:
        (folder / "constant.json").write_text(json.dumps({"values": self.values, "task": self.task}))

    @classmethod
    def load(cls, folder: Path) -> ConstantModel | None:
        """Read what `save` wrote; None if the folder contains another type of model."""
        path = folder / "constant.json"
        if not path.exists():
            return None
        saved = msgspec.json.decode(path.read_bytes(), type=_SavedConstant)
        return cls(saved.values, saved.task)

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        demand(self.task == task, f"it was trained for {self.task}, not for {task}")
        demand(len(self.values) == n_classes, f"it has {len(self.values)} values for {n_classes} classes")
        demand(all(map(math.isfinite, self.values)), "a value is not finite")
        if task != "regression":
            demand(min(self.values) >= 0 and math.isclose(sum(self.values), 1, abs_tol=1e-3), "it has no probabilities")

    def formula(self, features: FeatureSpec) -> Formula:
        return ConstantFormula(tuple(self.values), 1 if self.task == "regression" else len(self.values))

    def summary(self) -> dict[str, Any]:
        return {"constant": True}
