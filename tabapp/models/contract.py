"""The contract between tabapp and a model plugin. A plugin is one class; the built-in models use the same contract.

Data flow: the plugin returns a `FeatureRecipe`, the `features` package prepares those arrays, and `fit` receives them as `Table`s.
`tabapp models --check NAME` verifies the promises stated here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy.typing as npt

from tabapp.features.arrays import FeatureRecipe, FeatureSpec, OtherTarget, Table
from tabapp.models.explanations import (
    AttentionMap,
    FeatureCombination,
    FeatureContributions,
    Float32,
    Floats,
    RowNeighbors,
    RowWeights,
    StoredRows,
    Uncertainty,
)
from tabapp.models.formula import Formula
from tabapp.models.problem import Cost, FitContext, FitStopped, Params, Shape, Trial
from tabapp.models.turns import take_turns
from tabapp.task import TASKS, Task
from tabapp.weights.pretrained import Pretrained, UsedWeights

__all__ = [
    "MONOTONIC",
    "STEP_ROWS",
    "AttentionMap",
    "Cost",
    "FeatureCombination",
    "FeatureContributions",
    "FeatureRecipe",
    "FeatureSpec",
    "FitContext",
    "FitStopped",
    "FittedModel",
    "Float32",
    "Floats",
    "GroupFit",
    "OtherTarget",
    "Params",
    "Plugin",
    "Pretrained",
    "RowNeighbors",
    "RowWeights",
    "Shape",
    "StoredRows",
    "Table",
    "Task",
    "Trial",
    "Uncertainty",
]

Family = Literal["gbdt", "deep", "classic"]
STEP_ROWS = "step_rows"
"""In `FittedModel.summary`: rows whose gradients fit in memory together, if the fit ran out of memory with more."""
MONOTONIC = "monotonic"
"""The hyperparameter that `--monotonic` sets, of the models that have it."""

CALLED_IN_THREADS = (
    "predict",
    "attention",
    "attention_streams",
    "combinations",
    "attention_maps",
    "row_neighbors",
    "contributions",
    "impute",
    "imputation_uncertainty",
)
"""Methods of `FittedModel` that may be called in several threads at the same time."""


@dataclass(frozen=True)
class GroupFit:
    """A fit of a group: the arguments of `Plugin.fit`, or of `Plugin.refit` if there are `summaries`.

    Attributes:
        valid: early-stopping rows; empty for a refit.
        summaries: `FittedModel.summary` of the folds whose numbers of steps it reuses.
    """

    train: Table
    valid: Table
    params: Params
    context: FitContext
    summaries: Sequence[Mapping[str, Any]] = ()


class FittedModel(ABC):
    """A trained model. It saves itself as data only: JSON, safetensors, or the native file of a boosting library.

    Override `attention`, `attention_maps`, `row_neighbors`, `stored_rows` and `impute` only where the model supports them, and
    declare all but `row_neighbors` in the plugin (`Plugin.has_attention`, `Plugin.has_attention_maps`,
    `Plugin.predicts_from_rows`, `Plugin.can_impute`).

    Attributes:
        thread_safe: one model may predict in several threads at the same time, and so may several models of this class. Without
            this declaration, calls of the methods in `CALLED_IN_THREADS` take turns, from all threads.
        predicts_in_threads: several thread-safe models predict faster at the same time, each in one thread, than one after the
            other. Not for models that use several cores for one prediction.
    """

    thread_safe: ClassVar[bool] = False
    predicts_in_threads: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        take_turns(cls, FittedModel, CALLED_IN_THREADS)

    @abstractmethod
    def predict(self, table: Table) -> Floats:
        """Predict each row independently of the others.

        Returns:
            Finite (rows, n_classes) float32 probabilities that sum to 1, or (rows,) float64 in target units (see `Floats`).
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model to an existing empty folder. Pickle and other executable formats are not allowed."""

    def to(self, device: str) -> None:  # noqa: B027
        """Move a loaded model, which is on the CPU, to the device that predicts from now on: "cpu" or "cuda:N". Models that only
        compute on a CPU ignore it.
        """

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:  # noqa: B027
        """Check a loaded model against the bundle that contains it, whose content may be wrong or hostile; does nothing by
        default.

        Args:
            features: columns of the tables that the model will receive.
            n_classes: number of classes; 1 for regression.

        Raises:
            ValueError: the model was made for other columns or another target.
        """

    def attention(self, table: Table) -> Float32 | None:
        """Attention weights per feature, for plugins with `has_attention`.

        Returns:
            (rows, n_features) float32, each row summing to 1, with numeric columns before categorical ones; NaN in all rows for
            features that the attention does not see. None if this fitted model has no attention per feature.
        """
        return None

    def attention_streams(self, table: Table) -> dict[str, Float32]:
        """Attention by its name, like `attention`, of a model with several kinds of it, such as sums and products; `attention` is
        the first. Empty for models with one.
        """
        return {}

    def combinations(self, table: Table) -> list[FeatureCombination]:
        """The features that the model combines, for each combination that it makes of every row, most frequent ones first; empty if
        it chooses none.
        """
        return []

    def attention_maps(self, table: Table) -> list[AttentionMap]:
        """Attention by layer and head, averaged over the rows, for plugins with `has_attention_maps`; empty if this fitted model
        has none between features.
        """
        return []

    def row_neighbors(self, table: Table, n: int) -> RowNeighbors | None:
        """The n stored rows with the largest weights in each prediction; None if the model does not predict from rows."""
        return None

    def stored_rows(self) -> StoredRows | None:
        """The rows that the model predicts from, for plugins with `predicts_from_rows`; None if this fitted model uses no
        other rows."""
        return None

    def contributions(self, table: Table, code: int, reference: Table | None = None) -> FeatureContributions | None:
        """Contributions of the features to each output: exact ones of trees, or integrated gradients from reference rows.

        Args:
            code: the explained class; 0 for regression.
            reference: rows whose mean output is the base of integrated gradients; None asks for exact contributions only.

        Returns:
            None if the model has no such contributions.
        """
        return None

    def use_of_features(self) -> npt.NDArray[Any] | None:
        """How much the model uses each feature, known without data, such as the gain of its splits or the size of its weights.
        Columns of much use are examined first when time is short.

        Returns:
            (n_features,) numbers of any unit, none negative; features after the last one that is used may be left out. None if the
            model does not know its use of the features.
        """
        return None

    def formula(self, features: FeatureSpec) -> Formula | None:
        """The model as trees or a linear function, from which `tabapp export --onnx` and `--sql` write it; None if it is neither.

        Args:
            features: columns of the tables that the model receives.
        """
        return None

    def onnx(self, opset: int) -> bytes | None:
        """A network in ONNX: from (rows, n_numeric) float32 and (rows, n_categorical) int64 codes to (rows, n_classes)
        probabilities, or (rows, 1) float64 in target units. An input without columns is left out. None if the model is no network.

        Args:
            opset: version of the standard operators.
        """
        return None

    def impute(self, table: Table) -> Table | None:
        """Fill missing cells, for plugins with `can_impute`.

        Returns:
            The same rows in the same units and codes, where every NaN and every `MISSING` code is replaced by a prediction and all
            other cells are unchanged; None if the model cannot impute.
        """
        return None

    def imputation_uncertainty(self, table: Table) -> Uncertainty | None:
        """The uncertainty of the cells that `impute` fills; None if the model does not know it."""
        return None

    def pretrained(self) -> UsedWeights | None:
        """The pre-trained weights that the model refers to and does not contain; None for models that were trained."""
        return None

    def summary(self) -> dict[str, Any]:
        """Facts about the trained model for the details view, such as the best iteration. Values are JSON types."""
        return {}


class Plugin(ABC):
    """A model that tabapp can train: one class per model, created without arguments.

    Import heavy libraries inside methods where possible: listing the models imports every plugin module.

    Attributes:
        name: identifier used in options, files and the entry point.
        title: name shown to users.
        family: "gbdt", "deep" or "classic": a label for people, on which nothing depends.
        paper: author, year and title of the source.
        tasks: supported tasks.
        requires: import names of required packages. If one is missing, the model is unavailable with that reason. Stated on one
            line of the class itself, they are read without an import: a model without torch among them is then ready early.
        predict_requires: those of them, or modules of them, that loading and predicting import; None means all. Predictions start
            sooner with fewer.
        params_type: class of the hyperparameters.
        prune_steps: steps at which a trial may be pruned against the median of earlier trials; empty if scores at equal steps are
            not comparable between trials.
        starts_first: start this model before others, whatever its cost: it gives a strong first score on most tables.
        plans_steps: a fit plans its training steps for the time until its soft deadline, so that a shorter fit ends a little worse
            rather than unfinished.
        is_uncertain: the model adds much to the ensembles of some tables and nothing to those of many. After some such models added
            nothing, no more of them start, and fits of new trials get little more time than expected.
        uses_device: fits use the device of the run by default, and fitted models predict on the device that they are moved to.
            Models without it predict on a CPU, where a fit is repeated whose process has died on a GPU.
        warms_up: a small fit makes a GPU load the kernels of other networks, too; it needs a hyperparameter `max_epochs`.
        least_share: share of its expected time that a fit must get to start: at its deadline, it returns its best so far.
        most_trials: maximum of its trials, the defaults included, where tuning hardly changes its predictions; None for no limit.
        reuses_steps: the first folds search, for example for the number of steps by early stopping. The others are trained with
            `refit` on all of their training rows, and get the summaries of the first.
        has_attention: fitted models return attention weights per feature from `FittedModel.attention`.
        attention_kind: what it is called: "attention", or "selection" where the model selects features without comparing them.
        has_attention_maps: fitted models return attention by layer and head from `FittedModel.attention_maps`.
        trains_nothing: a fit only keeps rows: it reports no steps, and a bundle has one model with all rows instead of those of the
            folds.
        predicts_from_rows: fitted models return the rows that they predict from in `FittedModel.stored_rows`.
        tolerates_half: saved arrays may be stored in half precision where predictions then change little.
        can_impute: `fit` accepts tables without a target, and fitted models fill missing cells in `FittedModel.impute`.
        uses_unlabeled: `fit` learns from `FitContext.unlabeled`, the rows without a target.
        stacks: the plugin has `fit_group`.
        free_params: hyperparameters in which the models of a group may differ; for `stacks`.
        uses_other_targets: `fit` learns from `Table.others`, the other targets of a run with several. Predictions never get them.
        pretrains: the plugin has `pretrain`. The engine plans such a model only if the run has rows without a target.
        contains_training_rows: saved models contain training rows, unchanged or transformed. Bundles with such a model carry a
            privacy notice.
        weights: files of pre-trained weights, of which the model needs one for a fit; empty for models that are trained. Without
            any of them installed, the model is unavailable.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    family: ClassVar[Family]
    paper: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]] = TASKS
    requires: ClassVar[tuple[str, ...]] = ()
    predict_requires: ClassVar[tuple[str, ...] | None] = None
    params_type: ClassVar[type[Params]]
    prune_steps: ClassVar[tuple[int, ...]] = ()
    starts_first: ClassVar[bool] = False
    plans_steps: ClassVar[bool] = False
    is_uncertain: ClassVar[bool] = False
    uses_device: ClassVar[bool] = False
    warms_up: ClassVar[bool] = False
    least_share: ClassVar[float] = 0.5
    most_trials: ClassVar[int | None] = None
    reuses_steps: ClassVar[bool] = False
    has_attention: ClassVar[bool] = False
    attention_kind: ClassVar[Literal["attention", "selection"]] = "attention"
    has_attention_maps: ClassVar[bool] = False
    trains_nothing: ClassVar[bool] = False
    predicts_from_rows: ClassVar[bool] = False
    tolerates_half: ClassVar[bool] = False
    can_impute: ClassVar[bool] = False
    contains_training_rows: ClassVar[bool] = False
    weights: ClassVar[tuple[Pretrained, ...]] = ()
    uses_unlabeled: ClassVar[bool] = False
    uses_other_targets: ClassVar[bool] = False
    pretrains: ClassVar[bool] = False
    stacks: ClassVar[bool] = False
    free_params: ClassVar[frozenset[str]] = frozenset()

    def supports(self, task: Task, shape: Shape) -> str | None:
        """None if the model can run on this problem, else a sentence that says why the model is skipped."""
        return None

    def skipped_by_default(self, task: Task, shape: Shape) -> str | None:
        """None, or a sentence that says why only `--models` starts the model, such as measurements without a gain.

        Called only if `supports` returns None.
        """
        return None

    def device_for(self, task: Task, shape: Shape, device: str) -> str:
        """The device of the fits on such a table: that of the run, or "cpu" where it is faster or the GPU lacks something. By
        default, models with `uses_device` use the device of the run and others the CPU.

        A plan lets models without `uses_device` have a GPU only if no model with it uses the GPU.

        Args:
            device: the device of the run, "cpu" or "cuda:N".
        """
        return device if self.uses_device else "cpu"

    @abstractmethod
    def features(self) -> FeatureRecipe:
        """The arrays that the model takes."""

    def features_for(self, params: Params) -> FeatureRecipe:
        """The arrays that a model with these hyperparameters takes: by default those of `features`."""
        return self.features()

    @abstractmethod
    def defaults(self, task: Task, shape: Shape, device: str) -> Params:
        """Hyperparameters of trial 0."""

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[Params, ...]:
        """Strong configurations that differ from the defaults. Trials 1, 2, ... use them before the sampler starts."""
        return ()

    @abstractmethod
    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> Params:
        """Draw hyperparameters from the search space, which is the paper's where it states one."""

    @abstractmethod
    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        """Estimated time and memory of one fit. The engine corrects the time by what it measures."""

    def later_share(self, shape: Shape) -> float:
        """Expected seconds of a fold that reuses what the first folds have found, as a share of theirs; for `reuses_steps`."""
        return 1.0

    def merit(self, task: Task, shape: Shape) -> float:
        """Expected value of the model on such a table, relative to other models of equal cost: above 0, and 1 on average. A higher
        merit starts it earlier. Called only if `supports` returns None.
        """
        return 1.0

    def pretrain(self, rows: Table, params: Params, context: FitContext, folder: Path) -> None:
        """Learn from rows without a target, before any fit, and write the result to an existing empty folder.

        A run does this once for all fits with the same features and the same `pretraining_key`. The folder may contain data only,
        as for `FittedModel.save`. The soft deadline of the context is that of the pre-training.
        """
        raise NotImplementedError

    def pretraining_key(self, params: Params) -> str:
        """Identifies the hyperparameters that `pretrain` depends on: a name of letters, digits, - and _."""
        return ""

    @abstractmethod
    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        """Train on `train` and use `valid` for early stopping. Neither table contains rows that the fit is scored on.

        Raises:
            FitStopped: `context.report` ended the fit.
        """

    def refit(
        self, train: Table, params: Params, summaries: Sequence[Mapping[str, Any]], context: FitContext
    ) -> FittedModel | None:
        """Train on all rows without early stopping, for as long as the models of some folds were trained on average.

        Args:
            summaries: `FittedModel.summary` of the models of those folds.

        Returns:
            None if the model cannot be trained without early-stopping rows; `fit` then gets some of the rows for that.
        """
        return None

    def fit_group(self, fits: Sequence[GroupFit]) -> list[FittedModel | None]:
        """Train several models at once, for plugins with `stacks`. Each is like that of its own `fit` or `refit`, up to rounding
        and the random numbers of dropout. The engine trains the folds of a candidate so on a GPU, which small models leave mostly
        idle, as far as its memory allows.

        Returns:
            The models in order; None for those whose `context.report` raised `FitStopped`.
        """
        raise NotImplementedError

    def converted(self, weights: str, tensors: Mapping[str, Any], config: Any) -> dict[str, Any]:
        """The arrays of a published file of weights by the names that the network has, for plugins with `weights`.

        It runs in a confined process, and the file may be malicious: the arrays are only compared and renamed.

        Args:
            weights: name of the file, as in `Pretrained`.
            tensors: the torch tensors of the file.
            config: the content of its configuration file; None without one.

        Raises:
            ValueError: the file has the weights of another network; the message continues "The file cannot be used: ".
        """
        raise NotImplementedError

    def reduced(self, params: Params) -> tuple[Params, ...]:
        """Hyperparameters of smaller models that predict in less time than those of the best ones of a run, the smallest first.
        `tabapp export --limit-ms` trains them."""
        return ()

    @abstractmethod
    def load(self, folder: Path) -> FittedModel:
        """Read what `FittedModel.save` wrote. Predictions are bit-identical to those before saving."""
