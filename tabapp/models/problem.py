"""The size of the problem that a model is fitted to, its hyperparameters, and what a fit takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import msgspec


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
