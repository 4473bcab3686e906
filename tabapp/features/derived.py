"""Features made from two columns: arithmetic of pairs of numbers, and differences between numbers and the means of categories.

After the feature generators of AutoGluon's TabPrep (Erickson et al. 2025, TabArena; release notes of AutoGluon 1.5), which make
thousands of features and select by Spearman correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.features.arrays import MOST_DERIVED
from tabapp.features.columns import CategoricalStep, Int32, Step, TextStep, source_of
from tabapp.features.shift import LARGEST
from tabapp.features.target_encoding import Target, classes_to_encode
from tabapp.task import Task

Float64 = npt.NDArray[np.float64]

PAIRED_NUMBERS = 12
"""The numbers of the highest correlation with the target, which are combined with each other and with categories."""
MOST_ARITHMETIC = 30
MOST_DEVIATIONS = MOST_DERIVED - MOST_ARITHMETIC
SELECTION_ROWS = 3_000
"""Correlations are computed on a sample of this many training rows."""
LIKE_NUMBER, LIKE_OTHER = 0.99, 0.95
"""Features with a higher rank correlation with a number, or with a selected feature, are left out."""
LEAST_LEVELS, PRIOR_ROWS = 3, 1.0
"""Levels of a category whose means are used, and rows of the overall mean that are added to those of a level."""
_MISSING = -1e300


class Arithmetic(msgspec.Struct, frozen=True, tag="arithmetic", forbid_unknown_fields=True):
    """A number computed from two numbers, given by their indices."""

    operation: Literal["sum", "difference", "product", "ratio"]
    first: int
    second: int


class Deviation(msgspec.Struct, frozen=True, tag="deviation", forbid_unknown_fields=True):
    """The difference between a number and its mean over the training rows with the same level of a category.

    Attributes:
        number: index of the number.
        step: index of the `CategoricalStep`.
    """

    number: int
    step: int


Derived = Arithmetic | Deviation

_FUNCTIONS: Mapping[str, Callable[[Float64, Float64], Float64]] = {
    "sum": np.add,
    "difference": np.subtract,
    "product": np.multiply,
    "ratio": np.divide,
}
SIGNS = {"sum": "+", "difference": "-", "product": "×", "ratio": "/"}


@dataclass(frozen=True)
class Numbers:
    """The numbers and codes of a table, before scaling.

    Attributes:
        values: (rows, numbers) float64, NaN where missing.
        codes: function from the index of a `CategoricalStep` to its (rows,) codes.
    """

    values: Float64
    codes: Callable[[int], Int32]

    def derived(self, feature: Derived, means: Float64 | None) -> Float64:
        """(rows,) values of a feature, NaN where they are not defined.

        Args:
            means: (cardinality,) means by code of a `Deviation`.
        """
        if isinstance(feature, Deviation):
            assert means is not None
            return self.values[:, feature.number] - means[self.codes(feature.step)]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = _FUNCTIONS[feature.operation](self.values[:, feature.first], self.values[:, feature.second])
        return np.where(np.isfinite(found), found, np.nan).clip(-LARGEST, LARGEST)


def name_and_columns(feature: Derived, made: Sequence[tuple[str, str]], steps: Sequence[Step]) -> tuple[str, str, str]:
    """Name of a feature, and the two data columns that it is computed from.

    Args:
        made: name and data column of each number.
    """
    if isinstance(feature, Deviation):
        name, column = made[feature.number]
        step = steps[feature.step]
        return f"{name} - mean by {step.column}", column, source_of(step)
    (first, column), (second, other) = made[feature.first], made[feature.second]
    return f"{first} {SIGNS[feature.operation]} {second}", column, other


def select(
    numbers: Numbers, steps: Sequence[Step], target: Target, task: Task, seed: int
) -> list[tuple[Derived, Float64 | None]]:
    """Choose features on training rows, with the means of deviations.

    Arithmetic of two numbers is chosen if its absolute rank correlation with the target exceeds that of both by most, and
    deviations by that correlation; for several classes it is the highest with any class.
    """
    n_rows = len(target)
    generator = np.random.default_rng(seed)
    rows = np.sort(generator.permutation(n_rows)[:SELECTION_ROWS])
    goals = _standard_ranks(_outputs(target[rows], task, target))
    origin = [i for i, step in enumerate(steps) for _ in step.names()]
    usable = [j for j, i in enumerate(origin) if not isinstance(steps[i], TextStep)]
    if not usable:
        return []
    ranks = _standard_ranks(numbers.values[rows][:, usable])
    alone = np.abs(ranks.T @ goals).max(axis=1) / len(rows)
    best = np.sort(np.argsort(-alone, kind="stable")[:PAIRED_NUMBERS]).tolist()
    sample = Numbers(numbers.values[rows], lambda step: numbers.codes(step)[rows])
    correlation = dict(zip(usable, alone.tolist(), strict=True))
    paired = [usable[j] for j in best]
    found: list[tuple[Derived, Float64 | None]] = []
    found += [(each, None) for each in _arithmetic(sample, paired, correlation, ranks, goals)]
    return found + _deviations(numbers, rows, steps, paired, origin, goals)


def _arithmetic(
    sample: Numbers, paired: Sequence[int], alone: Mapping[int, float], ranks: Float64, goals: Float64
) -> list[Arithmetic]:
    """The arithmetic features with the largest increase of the correlation over their numbers."""
    candidates = [
        made
        for a, b in combinations(paired, 2)
        for made in (
            Arithmetic("sum", a, b),
            Arithmetic("difference", a, b),
            Arithmetic("product", a, b),
            Arithmetic("ratio", a, b),
            Arithmetic("ratio", b, a),
        )
    ]
    if not candidates:
        return []
    n_rows = len(goals)
    ranked = _standard_ranks(np.column_stack([sample.derived(each, None) for each in candidates]))
    gains = np.abs(ranked.T @ goals).max(axis=1) / n_rows
    gains -= [max(alone[each.first], alone[each.second]) for each in candidates]
    is_new = np.abs(ranked.T @ ranks).max(axis=1) / n_rows <= LIKE_NUMBER
    chosen: list[int] = []
    for place in np.argsort(-gains, kind="stable").tolist():
        if is_new[place] and (
            not chosen or np.abs(ranked[:, chosen].T @ ranked[:, place]).max() / n_rows <= LIKE_OTHER
        ):
            chosen.append(place)
        if len(chosen) == MOST_ARITHMETIC:
            break
    return [candidates[place] for place in chosen]


def _deviations(
    numbers: Numbers,
    rows: npt.NDArray[np.intp],
    steps: Sequence[Step],
    paired: Sequence[int],
    origin: Sequence[int],
    goals: Float64,
) -> list[tuple[Derived, Float64 | None]]:
    """The deviations of the highest correlation with the target."""
    candidates: list[tuple[float, Deviation, Float64]] = []
    for index, step in enumerate(steps):
        if not isinstance(step, CategoricalStep) or len(step.levels) < LEAST_LEVELS:
            continue
        codes = numbers.codes(index)
        for number in paired:
            if origin[number] == index:
                continue
            means = _means(numbers.values[:, number], codes, step.cardinality)
            deviation = numbers.values[rows, number] - means[codes[rows]]
            ranked = _standard_ranks(deviation[:, None])
            candidates.append((float(np.abs(ranked.T @ goals).max()), Deviation(number, index), means))
    candidates.sort(key=lambda each: -each[0])
    return [(deviation, means) for _, deviation, means in candidates[:MOST_DEVIATIONS]]


def _means(values: Float64, codes: Int32, cardinality: int) -> Float64:
    """(cardinality,) means of known values by code, shrunk toward the overall mean."""
    known = np.isfinite(values)
    overall = float(values[known].mean()) if known.any() else 0.0
    total = np.bincount(codes[known], values[known] - overall, minlength=cardinality)
    return overall + total / (np.bincount(codes[known], minlength=cardinality) + PRIOR_ROWS)


def _outputs(target: Target, task: Task, whole: Target) -> Float64:
    """(rows, outputs) the target, or an indicator of each of the classes that are also target-encoded."""
    if task == "regression":
        return target[:, None].astype(np.float64)
    return (target[:, None] == np.array(classes_to_encode(whole, task))).astype(np.float64)


def _standard_ranks(values: npt.NDArray[Any]) -> Float64:
    """(rows, columns) ranks with mean 0 and variance 1; missing values are lower than all others, constant columns are 0."""
    filled = np.where(np.isnan(values), _MISSING, values)
    frame = pl.DataFrame({str(j): filled[:, j] for j in range(filled.shape[1])})
    ranks = frame.select(pl.all().rank()).to_numpy().astype(np.float64)
    ranks -= ranks.mean(axis=0)
    spread = ranks.std(axis=0)
    return ranks / np.where(spread > 0, spread, 1.0)
