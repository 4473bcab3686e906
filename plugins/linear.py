"""Linear models: ridge regression (Hoerl & Kennard 1970) and logistic regression with an L2 penalty, fitted by scikit-learn."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.features.saved import demand, demand_limits, read_arrays
from tabapp.models.contract import Cost, FitContext, FittedModel, Floats, Params, Plugin, Shape, Task, Trial
from tabapp.models.formula import Formula, LinearFormula

from ._shared.constant import ConstantModel
from ._shared.design import ARRAYS, LIMIT, MOST_LEVELS, Design
from ._shared.target import SCORED_ROWS, Target, some_rows, target_of

MOST_CELLS = 50_000_000
"""Number of rows times columns up to which any number of columns is supported."""


class LinearParams(Params, frozen=True, kw_only=True):
    """Attributes:
    penalty: L2 penalty per training row: 1 / (C · rows) in classification and alpha / rows in regression, in scikit-learn's
        terms. Its effect does not depend on the number of rows.
    """

    penalty: float = 1e-4


class _SavedLinear(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target: Target
    classes: tuple[int, ...]
    limits: tuple[float, float] | None = None


class LinearModel(FittedModel):
    """Standardized columns times weights, plus an intercept.

    Attributes:
        weight: (columns, outputs) float64, with one output for regression and for two classes.
        intercept: (outputs,) float64.
        classes: class codes of the training rows.
        limits: least and largest prediction of a regression (`FitContext.limits`), or None. Without them, a row with an unusual
            number has a prediction far from every training row.
    """

    thread_safe = True

    def __init__(
        self,
        design: Design,
        weight: npt.NDArray[np.float64],
        intercept: npt.NDArray[np.float64],
        classes: tuple[int, ...],
        target: Target,
        limits: tuple[float, float] | None = None,
    ) -> None:
        self.design = design
        self.weight = weight
        self.intercept = intercept
        self.classes = classes
        self.target = target
        self.limits = limits

    def predict(self, table: Table) -> Floats:
        output = self.design.wide_matrix(table) @ self.weight + self.intercept
        if self.target.task == "regression":
            prediction = self.target.prediction(output[:, 0])
            return prediction if self.limits is None else prediction.clip(*self.limits)
        if output.shape[1] == 1:
            output = np.column_stack([np.zeros(len(output)), output])
        exponents = np.exp(output - output.max(axis=1, keepdims=True))
        probabilities = np.zeros((len(output), self.target.n_classes))
        probabilities[:, list(self.classes)] = exponents
        return self.target.prediction(probabilities)

    def use_of_features(self) -> npt.NDArray[Any]:
        """The sizes of the weights of standardized numbers and of their indicators, and the spread of the weights of levels."""
        design, n_numeric = self.design, len(self.design.mean)
        n_wide = n_numeric + len(design.indicators)
        sizes = np.abs(self.weight[:n_wide]).sum(axis=1)
        of_numbers = np.bincount(np.concatenate([np.arange(n_numeric), design.indicators]), weights=sizes)
        levels, n_categorical = self.weight[n_wide:], int(design.level_column.max(initial=-1)) + 1
        of_categories = [
            levels[design.level_column == column].std(axis=0).sum() if (design.level_column == column).any() else 0.0
            for column in range(n_categorical)
        ]
        return np.concatenate([of_numbers, of_categories])

    def formula(self, features: FeatureSpec) -> Formula:
        design = self.design
        n_numeric, n_indicators = len(design.mean), len(design.indicators)
        head = replace(self.target.head(), limits=self.limits)
        if self.classes:
            head = replace(head, link="logistic" if self.weight.shape[1] == 1 else "softmax", classes=self.classes)
        return LinearFormula(
            mean=design.mean,
            std=design.std,
            limit=LIMIT,
            weight=self.weight[:n_numeric],
            indicators=design.indicators,
            indicator_weight=self.weight[n_numeric : n_numeric + n_indicators],
            levels=np.column_stack([design.level_column, design.level_code]),
            level_weight=self.weight[n_numeric + n_indicators :],
            intercept=self.intercept,
            head=head,
        )

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        save_file(
            self.design.arrays() | {"weight": self.weight, "intercept": self.intercept}, folder / "linear.safetensors"
        )
        target = {"task": self.target.task, "n_classes": self.target.n_classes}
        target |= {"mean": self.target.mean, "std": self.target.std}
        saved = {"target": target, "classes": self.classes, "limits": self.limits}
        (folder / "model.json").write_text(json.dumps(saved))

    @classmethod
    def load(cls, folder: Path) -> LinearModel:
        """Read what `save` wrote. Predictions are bit-identical."""
        arrays = read_arrays(
            folder / "linear.safetensors", ARRAYS | {"weight": ("float64", 2), "intercept": ("float64", 1)}
        )
        weight, intercept = arrays.pop("weight"), arrays.pop("intercept")
        saved = msgspec.json.decode((folder / "model.json").read_bytes(), type=_SavedLinear)
        return cls(Design(**arrays), weight, intercept, saved.classes, saved.target, saved.limits)

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        self.target.check(task, n_classes)
        demand_limits(self.limits)
        self.design.check(features)
        n_outputs = len(self.classes) if len(self.classes) > 2 else 1
        shapes = self.weight.shape, self.intercept.shape
        expected = (self.design.n_columns, n_outputs), (n_outputs,)
        demand(shapes == expected, f"its weights have the shape {self.weight.shape} instead of {expected[0]}")
        known = sorted(set(self.classes)) == list(self.classes) and all(0 <= code < n_classes for code in self.classes)
        demand(known and (len(self.classes) > 1) == (n_classes > 1), "its classes are not those of the target")

    def summary(self) -> dict[str, Any]:
        return {"weights": int(self.weight.size)}


class Linear(Plugin):
    name = "linear"
    title = "Linear model"
    family = "classic"
    paper = "Hoerl & Kennard 1970, Ridge Regression; Cox 1958, The Regression Analysis of Binary Sequences"
    requires = ("sklearn", "safetensors")
    predict_requires = ("safetensors",)
    params_type = LinearParams

    def supports(self, task: Task, shape: Shape) -> str | None:
        if not shape.n_features:
            return "The table has no features."
        if shape.n_features > 5_000 and shape.n_rows * shape.n_features > MOST_CELLS:
            return f"It supports at most 5,000 features with so many rows; the table has {shape.n_features:,}."
        return None

    def features(self) -> FeatureRecipe:
        return FeatureRecipe(numeric="raw")

    def defaults(self, task: Task, shape: Shape, device: str) -> LinearParams:
        """scikit-learn's defaults on a table of a thousand rows: C = 1 or alpha = 1."""
        return LinearParams(penalty=1e-3)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> LinearParams:
        return LinearParams(penalty=trial.suggest_float("penalty", 1e-7, 1.0, log=True))

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        columns = shape.n_numeric + min(20 * shape.n_categorical, MOST_LEVELS)
        passes = 10 if task == "regression" else 150 * max(1, shape.n_classes - 1)
        passes *= 1 + min(1.0, SCORED_ROWS / max(1, shape.n_rows))
        cells = shape.n_rows * columns
        encoded = shape.n_numeric + min(12 * shape.n_categorical, MOST_LEVELS)
        # Upper bounds: how many passes converge differs much between tables.
        return Cost(seconds=0.03 + cells * passes * 1e-9, n_bytes=11_000_000 + 13 * shape.n_rows * encoded)

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        """Report the score of a fit on some rows, and fit all, the early-stopping rows too, or as many as the time allows."""
        assert isinstance(params, LinearParams)
        if constant := ConstantModel.when_needed(train, context):
            return constant
        started, some, rows = time.monotonic(), some_rows(train, context.seed), train.joined(valid)
        model = self.solve(some, params, context)
        per_row = (time.monotonic() - started) / len(some)
        context.report(1, metrics.score(context.metric, target_of(valid), model.predict(valid), valid.weight))
        affordable = context.seconds_left() / max(1.5 * per_row, 1e-12)
        if affordable <= len(some):
            return model
        if affordable < len(rows):
            rows = rows.take(np.random.default_rng(context.seed).permutation(len(rows))[: int(affordable)])
        return self.solve(rows, params, context)

    def solve(self, train: Table, params: LinearParams, context: FitContext) -> LinearModel:
        """The weights that minimize mean loss and penalty on training rows."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression, Ridge
        from threadpoolctl import threadpool_limits

        design, target = Design.fit(train), Target.fit(train, context)
        X, y = design.wide_matrix(train), target.transform(target_of(train))
        total = len(train) if train.weight is None else float(train.weight.sum())
        strength = params.penalty * total
        if context.task == "regression":
            estimator: Any = Ridge(alpha=strength, copy_X=False)
        else:
            estimator = LogisticRegression(C=1 / strength, max_iter=200 if context.seconds_left() > 0 else 10)
        with threadpool_limits(context.n_threads), warnings.catch_warnings():
            # Without convergence, the weights are close enough to the optimum.
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(X, y, sample_weight=train.weight)
        weight = np.ascontiguousarray(np.atleast_2d(estimator.coef_).T, dtype=np.float64)
        classes = tuple(int(code) for code in getattr(estimator, "classes_", ()))
        intercept = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
        return LinearModel(design, weight, intercept, classes, target, context.limits(target_of(train)))

    def load(self, folder: Path) -> FittedModel:
        return ConstantModel.load(folder) or LinearModel.load(folder)
