"""Base classes of gradient-boosting plugins: early stopping, refitting, degenerate folds and saving.

Early-stopping rows are excluded from training, which costs quality. If time allows, a booster of the first folds is therefore
trained twice: once to select the number of trees, and again with that number on all rows (`BoostingPlugin.fit`). The other folds
are trained once, with the number that the first found (`BoostingPlugin.refit`).

On large tables, libraries with CUDA grow the trees on a GPU (`BoostingPlugin.device_for`). A fit that fails there runs on the CPU.
Trees from a GPU predict on the CPU, so that a prediction has the same bits wherever the bundle is loaded.
"""

from __future__ import annotations

import json
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.features.arrays import UNSEEN, FeatureRecipe, FeatureSpec, Table
from tabapp.models.contract import (
    FeatureContributions,
    FitContext,
    FitStopped,
    FittedModel,
    Float32,
    Floats,
    Params,
    Plugin,
    Shape,
    Task,
)

from .constant import ConstantModel
from .target import Loss, Target, target_of

CPU = "cpu"
N_TREES = 2000
MOST_PATIENCE, LEAST_PATIENCE, PATIENT_ROWS = 200, 50, 10_000
"""Patience up to the third number of rows, and the least, towards which it falls in proportion to them. A few early-stopping rows
give a noisy curve, on which fifty trees without improvement are soon found: see `benchmarks/results/early_stopping.json`."""
REPORT_EVERY = 25
CLASSES_POWER = 0.7
"""Trees are expected in proportion to this power of the number of classes: on letter with 26, LightGBM grows 137 instead of 400 for
each."""
MANY_COLUMNS, BINS, BINS_OF_MANY_COLUMNS = 1_000, 255, 63
"""From the first number of columns on, numeric columns have fewer bins. On 1,300 generated rows of 3,000 columns (two draws), trees
of LightGBM grow in 0.34 and those of XGBoost in 0.24 of the time, with test AUCs of 0.894 instead of 0.893 and 0.872 instead of
0.876."""


def slowest_rate(shape: Shape) -> float:
    """The lowest learning rate of the search spaces: with lower ones, `N_TREES` trees do not converge."""
    return 0.01 if shape.n_rows < 10_000 else 0.03


class BoostingParams(Params, frozen=True, kw_only=True):
    """Hyperparameters of all boosters.

    Attributes:
        derived_features: learn from features made from two columns, too.
        n_trees: maximum number of trees; early stopping selects fewer.
        patience: number of trees without improvement on the early-stopping rows after which training stops; None chooses it by the
            number of rows.
        refit: train again on training and early-stopping rows, with the selected number of trees.
        monotonic: 1 for each data column with which predictions may only rise, and -1 where they may only fall; `--monotonic` sets
            it.
    """

    derived_features: bool = False
    n_trees: int = N_TREES
    patience: int | None = None
    refit: bool = True
    monotonic: dict[str, int] | None = None

    def patience_on(self, n_rows: int) -> int:
        """The patience on a table with so many rows."""
        if self.patience is not None:
            return self.patience
        return round(min(MOST_PATIENCE, max(LEAST_PATIENCE, MOST_PATIENCE * PATIENT_ROWS / max(1, n_rows))))


class GradientBoostingParams(BoostingParams, frozen=True, kw_only=True):
    """Hyperparameters of gradient boosting, which forests do not have.

    Attributes:
        loss: of a regression by the RMSE or R². "poisson" is the Poisson deviance with a logarithmic link, which takes the variance
            of the target as proportional to its mean (Nelder & Wedderburn 1972); with negative targets, the squared error replaces
            it. Other metrics have their own loss.
    """

    loss: Loss = "squared_error"


def matrix(table: Table) -> Float32:
    """(rows, features): numeric columns, then codes, with NaN for levels unseen in training as the libraries expect."""
    codes = table.categorical.astype(np.float32)
    codes[table.categorical == UNSEEN] = np.nan
    return np.hstack([table.numeric, codes])


def max_bins(n_columns: int) -> int:
    """Number of bins of a numeric column on a table with so many columns."""
    return BINS_OF_MANY_COLUMNS if n_columns >= MANY_COLUMNS else BINS


def split_seconds(shape: Shape, n_splits: float) -> float:
    """Seconds in which the bins of all columns but the first hundred are searched for the splits of a tree: most of the time on
    tables with few rows and many columns."""
    return n_splits * max(0, shape.n_features - 100) * (5e-7 + 7e-9 * max_bins(shape.n_features))


def histogram_bytes(n_columns: int, n_nodes: float, n_bins: float = 256, bin_bytes: int = 16) -> int:
    """Estimate the memory of the histograms of a tree, of which the libraries keep one for each node and column.

    Args:
        n_nodes: nodes whose histograms are kept at the same time.
        bin_bytes: of a bin: sums of gradients and Hessians in double precision.
    """
    return int(n_nodes * n_columns * min(n_bins, max_bins(n_columns) + 1) * bin_bytes)


def loss_of(params: Params) -> Loss:
    """The loss of a regression with these hyperparameters; forests have no other than the squared error."""
    return params.loss if isinstance(params, GradientBoostingParams) else "squared_error"


class Watch:
    """Early stopping, the soft deadline and reports for one booster, called from its library's callback.

    Attributes:
        best_n_trees: number of trees with the best value so far.
    """

    def __init__(self, context: FitContext, patience: int) -> None:
        self.best_n_trees = 1
        self._best = np.inf
        self._patience = patience
        self._context = context

    def should_stop(self, n_trees: int, value: float) -> bool:
        """Record the criterion (lower is better) after `n_trees` trees. Return True if training should stop."""
        if value < self._best:
            self._best, self.best_n_trees = value, n_trees
        return n_trees - self.best_n_trees >= self._patience or self._context.seconds_left() <= 0

    def report(self, n_trees: int, score: Callable[[], float]) -> None:
        """Report the run's metric every `REPORT_EVERY` trees.

        Raises:
            FitStopped: the engine has pruned or canceled the fit.
        """
        if n_trees % REPORT_EVERY == 0:
            self._context.report(n_trees, score())


class SavedBooster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`model.json` of a booster."""

    target: Target
    facts: dict[str, Any]


class BoostedModel(FittedModel):
    """A booster of one library and the conversion of its output. Subclasses implement how the library predicts, saves and
    loads; files are in the library's native data format.
    """

    file_name: ClassVar[str]
    thread_safe = True
    predicts_in_threads = True

    def __init__(self, booster: Any, target: Target, facts: dict[str, Any], n_threads: int) -> None:
        self.booster = booster
        self.target = target
        self.facts = facts
        self.n_threads = n_threads

    @abstractmethod
    def output(self, table: Table) -> npt.NDArray[Any]:
        """Raw predictions of the library: probabilities, or the standardized target."""

    def shap_values(self, table: Table) -> npt.NDArray[Any] | None:
        """TreeSHAP values of the raw output: (rows, outputs, features + 1) with the base last. Binary models have one output, the
        log-odds of the positive class. None if the library does not compute them.

        Lundberg et al.: "From local explanations to global understanding with explainable AI for trees", Nature Machine
        Intelligence 2, 2020 (path-dependent).
        """
        return None

    def contributions(self, table: Table, code: int, reference: Table | None = None) -> FeatureContributions | None:
        shap_values = self.shap_values(table)
        if shap_values is None:
            return None
        found = np.asarray(shap_values, dtype=np.float64).reshape(
            len(table), self.target.n_classes if self.target.task == "multiclass" else 1, -1
        )
        values = found[:, code if self.target.task == "multiclass" else 0]
        base = float(values[0, -1]) if len(values) else 0.0
        values = values[:, :-1]
        if self.target.loss == "poisson":
            return FeatureContributions(base + math.log(self.target.std), values, "log-target")
        if self.target.task == "regression":
            return FeatureContributions(base * self.target.std + self.target.mean, values * self.target.std, "target")
        sign = -1.0 if self.target.task == "binary" and code == 0 else 1.0
        return FeatureContributions(sign * base, sign * values, "log-odds")

    @abstractmethod
    def save_booster(self, path: Path) -> None:
        """Write the library's native file."""

    @staticmethod
    @abstractmethod
    def load_booster(path: Path) -> Any:
        """Read the library's native file."""

    def predict(self, table: Table) -> Floats:
        return self.target.prediction(self.output(table))

    def save(self, folder: Path) -> None:
        self.save_booster(folder / self.file_name)
        target = {"task": self.target.task, "n_classes": self.target.n_classes}
        target |= {"mean": self.target.mean, "std": self.target.std}
        if self.target.loss != "squared_error":
            target["loss"] = self.target.loss
        (folder / "model.json").write_text(json.dumps({"target": target, "facts": self.facts}))

    @classmethod
    def load(cls, folder: Path) -> FittedModel:
        """Read what `save` wrote, including a constant model. Predictions are bit-identical."""
        if constant := ConstantModel.load(folder):
            return constant
        saved = msgspec.json.decode((folder / "model.json").read_bytes(), type=SavedBooster)
        # One thread, because the engine's number of threads is unknown here.
        return cls(cls.load_booster(folder / cls.file_name), saved.target, saved.facts, n_threads=1)

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        self.target.check(task, n_classes)

    def summary(self) -> dict[str, Any]:
        return self.facts


class BoostingPlugin(Plugin):
    """Base class of boosting plugins."""

    family = "gbdt"
    reuses_steps = True
    model_type: ClassVar[type[BoostedModel]]
    refit_rows: ClassVar[int] = 60_000
    """Above this number of rows, the early-stopping rows are worth less than the time of a second training."""
    gpu_cells: ClassVar[float] = math.inf
    """Rows times columns from which fits run on a GPU: never by default, for libraries without CUDA."""

    def later_share(self, shape: Shape) -> float:
        """Later folds are trained once, and grow no trees without improvement: 0.39 (CatBoost), 0.40 (XGBoost) and 0.44 (LightGBM)
        of the seconds (`benchmarks/results/later_folds.json`). Where the first folds are trained once, too, little is saved."""
        return 0.45 if shape.n_rows <= self.refit_rows else 0.9

    @abstractmethod
    def grow(
        self, train: Table, valid: Table | None, n_trees: int, target: Target, params: Any, context: FitContext
    ) -> tuple[Any, int]:
        """Train trees with the library, with early stopping on `valid` if given.

        Returns:
            The booster, cut to its best number of trees, and that number.

        Raises:
            FitStopped: the engine has pruned or canceled the fit.
        """

    def only_on_cpu(self, params: Any, context: FitContext) -> str | None:
        """None, or what the library lacks on a GPU for such a fit, which then runs on the CPU."""
        return None

    def device_for(self, task: Task, shape: Shape, device: str) -> str:
        return device if shape.n_rows * shape.n_features >= self.gpu_cells else CPU

    def _grown(
        self, train: Table, valid: Table | None, n_trees: int, target: Target, params: Any, context: FitContext
    ) -> tuple[Any, int, dict[str, Any]]:
        """Call `grow` on the device of the context, or on the CPU if the fit is not possible on the GPU.

        Returns:
            What `grow` returns, and facts about the device of a fit for a GPU.
        """
        facts: dict[str, Any] = {}
        if context.device != CPU:
            reason = self.only_on_cpu(params, context)
            if reason is None:
                try:
                    return *self.grow(train, valid, n_trees, target, params, context), {"device": context.device}
                except FitStopped:
                    raise
                except Exception as error:
                    # Such as too little memory beside other fits. The CPU has the time that is left.
                    reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            facts = {"device": CPU, "not on the GPU": reason}
            context = replace(context, device=CPU)
        return *self.grow(train, valid, n_trees, target, params, context), facts

    def supports(self, task: Task, shape: Shape) -> str | None:
        return None if shape.n_features else "The table has no features."

    def features(self) -> FeatureRecipe:
        return FeatureRecipe(numeric="raw")

    def features_for(self, params: Params) -> FeatureRecipe:
        assert isinstance(params, BoostingParams)
        return msgspec.structs.replace(self.features(), derived=params.derived_features)

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        assert isinstance(params, BoostingParams)
        if constant := ConstantModel.when_needed(train, context):
            return constant
        target = Target.fit(train, context, loss_of(params))
        started = time.monotonic()
        booster, n_trees, device = self._grown(train, valid, params.n_trees, target, params, context)
        seconds = time.monotonic() - started
        facts: dict[str, Any] = {"trees": n_trees, "refit": False, **device}
        model = self.model_type(booster, target, facts, context.n_threads)
        context.report(n_trees, metrics.score(context.metric, target_of(valid), model.predict(valid), valid.weight))
        # The first training also grew up to `patience` trees after the best, so the second takes about as long.
        enough_time = context.seconds_left() > 1.5 * seconds
        if not params.refit or not enough_time or len(train) + len(valid) > self.refit_rows:
            return model
        rows = train.joined(valid)
        booster, grown, device = self._grown(rows, None, n_trees, target, params, context)
        # CatBoost on a GPU plans fewer trees if time is short.
        if grown < n_trees and (context.seconds_left() <= 0 or context.device != CPU):
            return model
        return self.model_type(booster, target, facts | {"refit": True, **device}, context.n_threads)

    def refit(
        self, train: Table, params: Params, summaries: Sequence[Mapping[str, Any]], context: FitContext
    ) -> FittedModel | None:
        """Grow as many trees as the models of the folds have on average.

        With it, five folds take 0.63 of the time in which each finds its own number of trees, at 0.998 ± 0.003 times the test error
        (three boosters on concrete, german_credit, house_prices, pima_diabetes and titanic, two to three draws each).
        """
        if constant := ConstantModel.when_needed(train, context):
            return constant
        counts = [summary["trees"] for summary in summaries if "trees" in summary]
        if not counts:
            return None
        target = Target.fit(train, context, loss_of(params))
        wanted = max(1, round(sum(counts) / len(counts)))
        booster, n_trees, device = self._grown(train, None, wanted, target, params, context)
        return self.model_type(booster, target, {"trees": n_trees, "refit": True, **device}, context.n_threads)

    def load(self, folder: Path) -> FittedModel:
        return self.model_type.load(folder)
