"""The order of the codes of categories, for trees that take codes for numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.kinds.scales import code_order
from tabapp.data.schema import Task
from tabapp.features.arrays import FIRST_LEVEL
from tabapp.features.columns import CategoricalStep, Int32
from tabapp.features.target_encoding import Target

MOST_BY_TARGET = 32
"""Levels of a column whose codes follow the target (`benchmarks.code_order`). With more, the few rows of each would overfit."""


def in_order(step: CategoricalStep, values: pl.Series, target: Target | None, task: Task) -> CategoricalStep:
    """The step with codes in the order that the names of its levels show, or else in that of the target of the training rows.

    The order contains the target of each training row, unlike the encodings of `tabapp.features.target_encoding`: a level has one
    code for all rows.

    Args:
        values: (rows,) the column in the training rows.
        target: (rows,) class codes or numbers; None keeps the codes of columns whose names show no order.
    """
    named = code_order(step.levels)
    if named:
        places = {level: place for place, level in enumerate(step.levels)}
        return step.with_codes(np.array([FIRST_LEVEL + places[level] for level in named]))
    if target is None or not 2 < len(step.levels) <= MOST_BY_TARGET:
        return step
    return step.with_codes(codes_by_target(step.codes(values), step.cardinality, target, task))


def codes_by_target(codes: Int32, cardinality: int, target: Target, task: Task) -> npt.NDArray[np.int64]:
    """The codes from `FIRST_LEVEL` on by the mean of the target, or for several classes, by the first principal component of their
    shares (Coppersmith, Hong, Hosking: "Partitioning Nominal Attributes in Decision Trees", Data Mining and Knowledge Discovery 3,
    1999). Trees that take codes for numbers then find better splits of the levels than with other codes (Wright, König: "Splitting
    on categorical predictors in random forests", PeerJ 7, 2019).

    Args:
        codes: (rows,) as `CategoricalStep.codes` returns them, of at least one row.
        cardinality: number of codes, including the two reserved ones.
        target: (rows,) class codes or numbers.

    Returns:
        (cardinality - `FIRST_LEVEL`,) codes.
    """
    counts = np.bincount(codes, minlength=cardinality).astype(np.float64)
    if task == "multiclass":
        known, classes = np.unique(target, return_inverse=True)
        cells = np.bincount(codes.astype(np.int64) * len(known) + classes, minlength=cardinality * len(known))
        sums = cells.reshape(cardinality, len(known)).astype(np.float64)
    else:
        sums = np.bincount(codes, target, minlength=cardinality)[:, None]
    apart = sums / np.maximum(counts, 1.0)[:, None] - sums.sum(axis=0) / len(codes)
    # Squares of targets such as 1e200 would overflow.
    apart /= float(np.abs(apart).max()) or 1.0
    component = np.linalg.svd(apart * np.sqrt(counts)[:, None], full_matrices=False)[2][0]
    along = apart @ component
    return FIRST_LEVEL + np.argsort(along[FIRST_LEVEL:], kind="stable")
