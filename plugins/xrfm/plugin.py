"""The plugin of recursive feature machines."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from tabapp import metrics
from tabapp.features.arrays import FeatureRecipe, Table
from tabapp.models.contract import Cost, FitContext, FittedModel, Float32, Params, Plugin, Shape, Task, Trial

from .._shared.constant import ConstantModel
from .._shared.design import MOST_LEVELS, Design
from .._shared.target import Target, target_of
from .kernel import Float64, Norm
from .model import XRFMModel, calibrated, stored_rows
from .tuning import PENALTIES, WIDTHS, Place, Tuned, transformed, tune

MOST_ROWS, MOST_FEATURES, MOST_CLASSES = 100_000, 300, 50
FEW_ROWS = 2_000
"""With fewer training rows, the average gradient is too noisy for the defaults to use it."""
FEW_LEAVES = 2
"""Rows for more leaves than this make the model an expensive one of average value."""
TUNING_ROWS = 1_500
"""Rows that metric, width and penalty are chosen on."""
LEAST_LEAF_ROWS = TUNING_ROWS // 2
"""If time is short, leaves are halved down to so many rows."""
SECONDS_OF_OPERATION = 2e-11
"""Of a factorization on one core, divided by the third power of the rows."""


class XRFMParams(Params, frozen=True, kw_only=True):
    """Attributes:
    norm: of the distances: 1 or 2.
    exponent: of the distances in the kernel; at most the norm.
    n_iterations: how often the metric is learned again from the average gradient; 0 for distances in standardized columns.
    leaf_rows: training rows of a kernel machine at most.
    """

    norm: Norm = 1
    exponent: float = 1.0
    n_iterations: int = 0
    leaf_rows: int = 6_000


@dataclass(frozen=True)
class Encoded:
    """Rows of a table as a matrix, and their target as outputs of a regression.

    Attributes:
        rows: (rows, columns) standardized columns.
        outputs: (rows, outputs) standardized target, or one column for each class, less `mean`.
        weight: (rows,) with mean 1. Rows with the weight 0 are left out.
    """

    design: Design
    target: Target
    rows: Float32
    outputs: Float64
    mean: Float64
    weight: Float64

    @classmethod
    def of(cls, table: Table, context: FitContext) -> Encoded:
        """The rows of a table."""
        design, target = Design.fit(table), Target.fit(table, context)
        known = target.transform(target_of(table))
        weight = np.ones(len(table)) if table.weight is None else table.weight.astype(np.float64)
        outputs = known[:, None] if context.task == "regression" else np.eye(context.n_classes)[known.astype(np.int64)]
        mean = np.average(outputs, axis=0, weights=weight)
        return cls(design, target, design.matrix(table), outputs - mean, mean, weight).taken(np.flatnonzero(weight))

    def taken(self, rows: npt.NDArray[np.int64]) -> Encoded:
        """Some of the rows."""
        weight = self.weight[rows]
        return replace(self, rows=self.rows[rows], outputs=self.outputs[rows], weight=weight / weight.mean())

    def sample(self, n: int, most: int, seed: int) -> Encoded:
        """At most so many of the first n rows."""
        return self.taken(np.random.default_rng(seed).permutation(min(n, len(self.rows)))[:most])

    @property
    def n_binary(self) -> int:
        """Number of columns of indicators and levels."""
        return self.design.n_columns - len(self.design.mean)


def places_of(summaries: Sequence[Mapping[str, Any]]) -> list[Place]:
    """The mean places of width and penalty in each iteration of the models of other folds; empty without any."""
    found = [
        [
            (WIDTHS.index(width), PENALTIES.index(penalty))
            for width, penalty in zip(summary["widths"], summary["penalties"], strict=True)
        ]
        for summary in summaries
        if "widths" in summary
    ]
    if not found:
        return []
    n_iterations = round(sum(map(len, found)) / len(found))
    each = [[places[min(k, len(places) - 1)] for places in found] for k in range(n_iterations)]
    return [(round(fmean(width for width, _ in at)), round(fmean(penalty for _, penalty in at))) for at in each]


def tuned(some: Encoded, params: XRFMParams, context: FitContext, summaries: Sequence[Mapping[str, Any]] = ()) -> Tuned:
    """Metric, width and penalty for these rows, as far as time allows. Width, penalty and number of iterations are those of other
    folds if there are any: a search takes most of the time of a fit."""
    known = places_of(summaries)
    return tune(
        some.rows,
        some.outputs,
        some.weight,
        norm=params.norm,
        exponent=params.exponent,
        n_iterations=len(known) - 1 if known else params.n_iterations,
        n_binary=some.n_binary,
        may_continue=lambda: context.seconds_left() > 0,
        known=known,
    )


def model_of(data: Encoded, found: Tuned, params: XRFMParams) -> XRFMModel:
    """A model that stores these rows."""
    z = transformed(data.rows, found.transform)
    tree, stored, coefficients = stored_rows(
        z, data.outputs, data.weight, found.kernel, found.penalty, params.leaf_rows, data.n_binary
    )
    slope, bias = 1.0, np.zeros(len(data.mean))
    if data.target.task != "regression":
        slope, bias = calibrated(found.left_out + data.mean, found.codes, found.weight)
    return XRFMModel(
        data.design, data.target, found.transform, found.kernel, found.penalty, tree, stored, coefficients, data.mean,
        slope, bias, [WIDTHS[at] for at, _ in found.places], [PENALTIES[at] for _, at in found.places],
    )  # fmt: skip


def affordable_leaf_rows(params: XRFMParams, n_rows: int, first: tuple[int, float], seconds_left: float) -> int | None:
    """The most rows of a leaf with which a model of all rows is expected to be ready in time: those of the parameters, halved until
    they suffice; None if that would be less than `LEAST_LEAF_ROWS`.

    Args:
        n_rows: of the model.
        first: rows of a model with one leaf, and the seconds that it took.
        seconds_left: for the model.
    """
    (n_first, seconds), leaf_rows = first, params.leaf_rows
    while True:
        in_leaf = n_rows / 2 ** max(0, math.ceil(math.log2(n_rows / leaf_rows)))
        # The time grows with the third power of the rows of a leaf.
        if seconds * n_rows / n_first * max(1.0, in_leaf / n_first) ** 2 < seconds_left:
            return leaf_rows
        leaf_rows //= 2
        if leaf_rows < LEAST_LEAF_ROWS:
            return None


def leaf_rows_of(params: XRFMParams, n_rows: int, summaries: Sequence[Mapping[str, Any]]) -> int:
    """The most rows of a leaf in models of other folds, which may have had too little time for those of the parameters.

    Args:
        n_rows: of the model to fit.
        summaries: of the models of other folds.
    """
    found = params.leaf_rows
    for summary in summaries:
        rows, leaves = summary.get("rows", n_rows), summary.get("leaves", 1)
        has_less = leaves > 1 or rows < n_rows / 2
        while has_less and found // 2 >= max(LEAST_LEAF_ROWS, rows / leaves):
            found //= 2
    return found


class XRFM(Plugin):
    """Kernel ridge regression on quantile-normal numbers and one-hot levels, in a metric that is learned from its gradients.

    The defaults are the product kernel with the exponent 1, whose metric is learned with at least `FEW_ROWS` rows. The next trials
    differ much from it, and are far better on some tables, so that the model starts first.

    NOTE[DIFF]: with fewer than 2,000 training rows, the defaults learn no metric, because the average gradient is too noisy. The
    metric is learned from at most 1,500 rows. Width and penalty are searched for in the first folds only, and if time is short,
    leaves have fewer rows.
    """

    name = "xrfm"
    title = "xRFM"
    starts_first = True
    reuses_steps = True
    family = "classic"
    paper = (
        "Beaglehole et al. 2025, xRFM: Accurate, scalable, and interpretable feature learning models for tabular data"
    )
    contains_training_rows = True
    requires = ("scipy", "safetensors", "threadpoolctl")
    predict_requires = ("safetensors",)
    params_type = XRFMParams

    def supports(self, task: Task, shape: Shape) -> str | None:
        if not shape.n_features:
            return "The table has no features."
        if shape.n_rows > MOST_ROWS:
            return f"It stores every training row and supports at most {MOST_ROWS:,}; the table has {shape.n_rows:,}."
        if shape.n_features > MOST_FEATURES:
            return f"It supports at most {MOST_FEATURES} features; the table has {shape.n_features:,}."
        if shape.n_classes > MOST_CLASSES:
            return f"It supports at most {MOST_CLASSES} classes; the target has {shape.n_classes:,}."
        return None

    def features(self) -> FeatureRecipe:
        return FeatureRecipe(numeric="quantile")

    def merit(self, task: Task, shape: Shape) -> float:
        """With many rows it takes long, and is expected to be behind boosters, which use all of them at once."""
        return 2.0 if shape.n_rows <= FEW_LEAVES * self.defaults(task, shape, "cpu").leaf_rows else 1.0

    def later_share(self, shape: Shape) -> float:
        """Without the search for width and penalty: 0.54 of the seconds (`benchmarks/results/later_folds.json`)."""
        return 0.6

    def defaults(self, task: Task, shape: Shape, device: str) -> XRFMParams:
        return XRFMParams(n_iterations=0 if shape.n_rows < FEW_ROWS else 2)

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[XRFMParams, ...]:
        """A learned metric on small tables too; and the paper's kernel of the Euclidean distance, for functions of rotated
        columns."""
        learned = (XRFMParams(n_iterations=3),) if shape.n_rows < FEW_ROWS else ()
        return (*learned, XRFMParams(norm=2, n_iterations=3))

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> XRFMParams:
        norm: Norm = trial.suggest_categorical("norm", [1, 2])
        return XRFMParams(
            norm=norm,
            exponent=min(float(norm), trial.suggest_float("exponent", 0.7, 1.4)),
            n_iterations=trial.suggest_int("n_iterations", 0, 5),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, XRFMParams)
        columns = shape.n_numeric + min(12 * shape.n_categorical, MOST_LEVELS)
        tuning, leaf = min(TUNING_ROWS, shape.n_rows), min(params.leaf_rows, shape.n_rows)
        n_models, per_cell = 12 + 4 * params.n_iterations, 4e-9 + 4e-10 * columns
        tuned = n_models * (1.5 * SECONDS_OF_OPERATION * tuning**3 + per_cell * tuning**2)
        solved = shape.n_rows / leaf * (SECONDS_OF_OPERATION / 3 * leaf**3 + per_cell * leaf**2)
        predicted = 0.3 * shape.n_rows * leaf * per_cell
        return Cost(
            seconds=0.1 + tuned + solved + predicted,
            n_bytes=12_000_000 + 20 * max(leaf, tuning) ** 2 + 16 * shape.n_rows * columns,
        )

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        """Report the score of a model of the rows that the metric was chosen on, and then store all rows."""
        assert isinstance(params, XRFMParams)
        if constant := ConstantModel.when_needed(train, context):
            return constant
        rows = Encoded.of(train.joined(valid), context)
        n_train = len(train) if train.weight is None else int(np.count_nonzero(train.weight))
        some = rows.sample(n_train, TUNING_ROWS, context.seed)
        with threadpool_limits(context.n_threads):
            found = tuned(some, params, context)
            began = time.monotonic()
            first = model_of(some, found, params)
            seconds = time.monotonic() - began
            context.report(1, metrics.score(context.metric, target_of(valid), first.predict(valid), valid.weight))
            known = len(some.rows), seconds
            leaf_rows = affordable_leaf_rows(params, len(rows.rows), known, context.seconds_left())
            if leaf_rows is None:
                return first
            return model_of(rows, found, msgspec.structs.replace(params, leaf_rows=leaf_rows))

    def refit(
        self, train: Table, params: Params, summaries: Sequence[Mapping[str, Any]], context: FitContext
    ) -> FittedModel:
        """Store all rows, with the width, the penalty and leaves as large as those of the other folds."""
        assert isinstance(params, XRFMParams)
        if constant := ConstantModel.when_needed(train, context):
            return constant
        rows = Encoded.of(train, context)
        leaf_rows = leaf_rows_of(params, len(rows.rows), summaries)
        with threadpool_limits(context.n_threads):
            found = tuned(rows.sample(len(train), TUNING_ROWS, context.seed), params, context, summaries)
            return model_of(rows, found, msgspec.structs.replace(params, leaf_rows=leaf_rows))

    def load(self, folder: Path) -> FittedModel:
        return ConstantModel.load(folder) or XRFMModel.load(folder)
