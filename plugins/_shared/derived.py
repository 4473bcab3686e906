"""Where boosters learn from features made from two columns, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import msgspec

from tabapp.features.arrays import MOST_DERIVED
from tabapp.models.contract import Shape, Task

from .boosting import BoostingParams

_Params = TypeVar("_Params", bound=BoostingParams)

MOST_ROWS = 100_000
"""These features are tried on tables of at most this many rows."""


def derives(task: Task, shape: Shape) -> bool:
    """Whether these features are tried: they do not help with two classes (`benchmarks/results/derived_features.json`), and a
    constraint on a column is none on what is made from it."""
    if task == "binary" or shape.n_rows > MOST_ROWS or shape.n_monotonic:
        return False
    return shape.n_numeric > 0 and shape.n_features > 1


def switched(params: _Params, task: Task, shape: Shape) -> tuple[_Params, ...]:
    """Hyperparameters with these features instead of without, or without instead of with, if they are tried."""
    other = msgspec.structs.replace(params, derived_features=not params.derived_features)
    return (other,) if derives(task, shape) else ()


def learned_from(shape: Shape, params: BoostingParams) -> Shape:
    """The largest shape of the features that a booster with these hyperparameters learns from."""
    if not params.derived_features:
        return shape
    n_pairs = shape.n_numeric * (shape.n_numeric - 1) // 2
    n_derived = min(MOST_DERIVED, 5 * n_pairs + shape.n_numeric * shape.n_categorical)
    return replace(shape, n_numeric=shape.n_numeric + n_derived)
