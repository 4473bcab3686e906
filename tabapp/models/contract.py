"""What a model plugin promises, and what it may count on. A plugin is one class; tabapp's own use the same contract.

The data's way: a `FeatureRecipe` says which arrays a model wants, `features` makes them, `fit` receives them as `Table`s.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.metrics import Task

__all__ = [
    "Cost",
    "FeatureRecipe",
    "FeatureSpec",
    "FitContext",
    "FitStopped",
    "FittedModel",
    "Params",
    "Plugin",
    "RowNeighbours",
    "Shape",
    "Table",
    "Task",
    "Trial",
]

Family = Literal["gbdt", "deep", "classic"]
Float32 = npt.NDArray[np.float32]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of a model's hyper-parameters: frozen, JSON in and out, unknown keys refused by name."""


class Trial(Protocol):
    """The part of `optuna.trial.Trial` that a search space may use."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = ..., log: bool = ...
    ) -> float: ...
    def suggest_int(self, name: str, low: int, high: int, *, step: int = ..., log: bool = ...) -> int: ...
    def suggest_categorical(self, name: str, choices: list[Any]) -> Any: ...


@dataclass(frozen=True)
class Shape:
    """The size of a problem as a plugin sees it: rows to learn from and columns after feature preparation."""

    n_rows: int
    n_numeric: int
    n_categorical: int
    n_classes: int
    """1 for regression, 2 for binary."""

    @property
    def n_features(self) -> int:
        return self.n_numeric + self.n_categorical


@dataclass(frozen=True)
class Cost:
    """What one fit is expected to take on one thread (or on the device): seconds and bytes of memory."""

    seconds: float
    n_bytes: int


class FitStopped(Exception):
    """The engine wants no more of this fit and no result of it. Raised by `FitContext.report`; plugins let it pass."""


@dataclass
class FitContext:
    """Everything a fit may use beside its data.

    Attributes:
        task: what is predicted; `n_classes` is 1 for regression.
        metric: the run's metric by name, for early stopping.
        features: what the columns of the tables are.
        seed: the only source of randomness.
        device: "cpu" or "cuda:N".
        n_threads: how many threads the fit may use.
        folder: a folder of the fit's own for checkpoints: a killed fit that is done again finds what it left there. Gone
            after the fit.
        soft_deadline: `time.monotonic()` after which the fit returns the best it has, or None for no limit.
        on_report: receives (step, score on the early-stopping rows) and raises `FitStopped` to end the fit.
    """

    task: Task
    n_classes: int
    metric: str
    features: FeatureSpec
    seed: int
    device: str
    n_threads: int
    folder: Path
    soft_deadline: float | None = None
    on_report: Callable[[int, float], None] = field(default=lambda step, value: None)

    def report(self, step: int, value: float) -> None:
        """Tell the score on the early-stopping rows after a step: an epoch, or a number of trees.

        Raises:
            FitStopped: the engine has pruned or cancelled the fit.
        """
        self.on_report(step, value)

    def seconds_left(self) -> float:
        """Seconds until the soft deadline, infinite without one."""
        return float("inf") if self.soft_deadline is None else self.soft_deadline - time.monotonic()


@dataclass(frozen=True)
class RowNeighbours:
    """Which rows answered for others.

    Attributes:
        index: (rows, n) int64 of rows the model was fitted with, counted from 0: training rows first, then early-stopping
            ones. The one that counted most comes first.
        weight: (rows, n) float32 share of each in the answer; all rows that answered have 1 together.
    """

    index: npt.NDArray[np.int64]
    weight: Float32


class FittedModel(ABC):
    """A trained model: predicts, and saves itself as data only (JSON, safetensors, native booster files)."""

    @abstractmethod
    def predict(self, table: Table) -> Float32:
        """Predict rows, independently of one another.

        Returns:
            (rows, classes) probabilities that sum to 1, or (rows,) in target units for regression.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model into an existing empty folder. No pickle, ever."""

    def attention(self, table: Table) -> Float32 | None:
        """(rows, features) attention paid to each feature, rows summing to 1; None for a model without attention.

        Features are the table's numeric columns, then its categorical ones.
        """
        return None

    def row_neighbours(self, table: Table, n: int) -> RowNeighbours | None:
        """The n rows that counted most in predicting each row; None for a model that does not predict from rows."""
        return None

    def impute(self, table: Table) -> Table | None:
        """The same rows with every missing number and category filled in, in the table's units and codes; None for a model that
        cannot.
        """
        return None

    def summary(self) -> dict[str, Any]:
        """Small facts about the trained model for the details view, such as the best iteration. JSON values."""
        return {}


class Plugin(ABC):
    """A model that tabapp can train. One class per model; the module imports its heavy library inside functions."""

    name: ClassVar[str]
    title: ClassVar[str]
    family: ClassVar[Family]
    paper: ClassVar[str]
    tags: ClassVar[tuple[str, ...]] = ()
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass", "regression")
    requires: ClassVar[tuple[str, ...]] = ()
    """Import names of the packages it needs; a missing one makes the model unavailable, with that as the reason."""
    prune_steps: ClassVar[tuple[int, ...]] = ()
    """Steps at which a trial may be pruned against the median of earlier trials; empty when its steps do not compare."""
    params_type: ClassVar[type[Params]]

    def supports(self, task: Task, shape: Shape) -> str | None:
        """None when the model can run on this problem, else the reason it sits out, as a sentence."""
        return None

    @abstractmethod
    def features(self) -> FeatureRecipe:
        """Which arrays the model wants."""

    @abstractmethod
    def defaults(self, task: Task, shape: Shape, device: str) -> Params:
        """The hyper-parameters of trial 0."""

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[Params, ...]:
        """Strong configurations unlike the defaults, tried after them and before any is drawn; none unless a model has some."""
        return ()

    @abstractmethod
    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> Params:
        """Draw hyper-parameters from the paper's table."""

    @abstractmethod
    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        """A prior for seconds and bytes, refined by the engine from what it measures."""

    def merit(self, task: Task, shape: Shape) -> float:
        """How many times its cost the model is worth on such tables, compared with others: what is worth more begins earlier.

        Returns:
            a number above 0; it is asked only where `supports` has no objection.
        """
        return 1.0

    @abstractmethod
    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        """Train on `train`, stop early by `valid`. Neither holds a row that the fit is scored on."""

    @abstractmethod
    def load(self, folder: Path) -> FittedModel:
        """Read back what `FittedModel.save` wrote; predictions are bit-equal to those before saving."""
