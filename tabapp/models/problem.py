"""The size of the problem that a model is fitted to, its hyperparameters, and what a fit takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy.typing as npt

from tabapp.features.arrays import FeatureSpec, OtherTarget, Table
from tabapp.task import Task


@dataclass(frozen=True)
class Shape:
    """Size of a problem after feature preparation.

    Attributes:
        n_rows: training rows.
        n_numeric, n_categorical: columns of each type.
        n_classes: number of classes; 2 for binary, 1 for regression.
        n_unlabeled: rows without a target.
        n_other_targets: other targets of the run that models may learn, too.
        n_monotonic: columns that `--monotonic` constrains.
        target_ratio: the largest target over its median, in a regression by squared errors without negative targets; otherwise 0.
    """

    n_rows: int
    n_numeric: int
    n_categorical: int
    n_classes: int
    n_unlabeled: int = 0
    n_other_targets: int = 0
    n_monotonic: int = 0
    target_ratio: float = 0.0

    @property
    def n_features(self) -> int:
        """Number of columns of both types."""
        return self.n_numeric + self.n_categorical


@dataclass(frozen=True)
class Cost:
    """Expected cost of one fit on one thread, or on the GPU.

    Attributes:
        seconds: wall-clock time.
        n_bytes: peak memory beyond what Python and the libraries use before the fit.
    """

    seconds: float
    n_bytes: int


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base class of a model's hyperparameters: frozen, convertible to and from JSON; unknown keys are rejected by name."""


class Trial(Protocol):
    """The methods of `optuna.trial.Trial` that a search space may call."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = ..., log: bool = ...
    ) -> float: ...
    def suggest_int(self, name: str, low: int, high: int, *, step: int = ..., log: bool = ...) -> int: ...
    def suggest_categorical(self, name: str, choices: list[Any]) -> Any: ...


class FitStopped(Exception):
    """The engine has pruned or canceled this fit and discards its result. `FitContext.report` raises it; do not catch it."""


@dataclass
class FitContext:
    """Everything a fit may use besides its data.

    Attributes:
        task: the task.
        n_classes: number of classes; 1 for regression.
        metric: name of the run's metric, for early stopping.
        features: names, types and cardinalities of the tables' columns.
        seed: the only source of randomness.
        device: "cpu" or "cuda:N"; in a run, what `Plugin.device_for` returned.
        n_threads: maximum number of threads.
        folder: private folder for checkpoints. A fit that was killed and is repeated finds its checkpoints there; the engine
            deletes the folder after the fit.
        soft_deadline: `time.monotonic()` value after which the fit returns its best model so far; None for no limit.
        on_report: receives (step, validation score) and raises `FitStopped` to end the fit.
        unlabeled: rows without a target, for plugins with `uses_unlabeled`; their `Table.others` are set for plugins with
            `uses_other_targets`, which otherwise get only the rows that have another target. None if there are none.
        pretrained: folder that `Plugin.pretrain` has filled, for plugins with `pretrains`; None in fits outside a run.
        other_targets: the columns of `Table.others`, for plugins with `uses_other_targets`.
        most_step_rows: rows whose gradients fit in memory together, if the first fold of the candidate ran out of it: the value of
            `STEP_ROWS` in its summary.
        is_ordered: the rows are ordered by time, so that targets beyond those of the training rows are expected.
        n_scored: rows that are predicted as soon as the fit ends, to score it; 0 if there are none.
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
    unlabeled: Table | None = None
    pretrained: Path | None = None
    other_targets: tuple[OtherTarget, ...] = ()
    most_step_rows: int | None = None
    is_ordered: bool = False
    n_scored: int = 0

    def limits(self, y: npt.NDArray[Any]) -> tuple[float, float] | None:
        """Bounds for the predictions of a regression model that could extrapolate: the least and the largest of its training
        targets `y`. None for other tasks and for ordered rows."""
        return (float(y.min()), float(y.max())) if self.task == "regression" and not self.is_ordered else None

    def report(self, step: int, value: float) -> None:
        """Report the run's metric on the early-stopping rows.

        Args:
            step: number of epochs, trees or training steps so far.
            value: the score, in the units and direction of the metric.

        Raises:
            FitStopped: the engine has pruned or canceled the fit.
        """
        self.on_report(step, value)

    def seconds_left(self) -> float:
        """Seconds until the soft deadline, infinite without one."""
        return float("inf") if self.soft_deadline is None else self.soft_deadline - time.monotonic()
