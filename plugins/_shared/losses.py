"""Where boosters are tried with the Poisson deviance."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tabapp.models.contract import Shape, Task, Trial

from .boosting import GradientBoostingParams
from .target import Loss

_Params = TypeVar("_Params", bound=GradientBoostingParams)

SKEWED, ROWS_TO_START_WITH = 4.0, 1_000
"""The Poisson deviance is tried where the largest target is at least the first number of times its median; from the second number
of training rows on, the defaults have it (`benchmarks/results/losses.json`)."""


def may_be_poisson(task: Task, shape: Shape) -> bool:
    """Whether the Poisson deviance is tried."""
    return task == "regression" and shape.target_ratio >= SKEWED


def default_loss(task: Task, shape: Shape) -> Loss:
    """The loss of the defaults."""
    return "poisson" if may_be_poisson(task, shape) and shape.n_rows >= ROWS_TO_START_WITH else "squared_error"


def with_other_loss(params: _Params, task: Task, shape: Shape) -> tuple[_Params, ...]:
    """Hyperparameters with the other loss, if both are tried."""
    other: Loss = "squared_error" if params.loss == "poisson" else "poisson"
    return (msgspec.structs.replace(params, loss=other),) if may_be_poisson(task, shape) else ()


def suggested_loss(trial: Trial, task: Task, shape: Shape) -> Loss:
    """The loss of a new trial."""
    if not may_be_poisson(task, shape):
        return "squared_error"
    return trial.suggest_categorical("loss", ["squared_error", "poisson"])
