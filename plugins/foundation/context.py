"""What the models have in common that keep training rows as the context of a pre-trained network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.errors import UsageError
from tabapp.features.arrays import FeatureRecipe, Table
from tabapp.features.saved import demand, is_within, read_arrays
from tabapp.models.contract import Cost, FitContext, FittedModel, Params, Plugin, Shape, Task, Trial
from tabapp.weights import store
from tabapp.weights.pretrained import Pretrained, UsedWeights

from .._shared.constant import ConstantModel
from .._shared.target import target_of
from .model import MODEL, ROWS, ContextModel, ContextParams, Reader, Saved
from .networks import network


class ContextPlugin(Plugin):
    """A pre-trained network whose fit keeps rows: no training, no early stopping, and a forward pass for each prediction.

    Attributes:
        most_classes, most_features: what the network was trained for; None for no limit.
        seconds_to_load: time to read the network from its file.
        seconds_per_cell, seconds_per_row: time of one estimator to read a row of the context, for each cell and once, on one
            thread.
        bytes_per_row: memory of the keys and values of a row in all layers of one estimator.
    """

    family = "deep"
    uses_device = True
    contains_training_rows = True
    trains_nothing = True
    predicts_from_rows = True
    params_type = ContextParams
    most_classes: ClassVar[int | None] = 10
    most_features: ClassVar[int] = 500
    seconds_to_load: ClassVar[float] = 1.0
    seconds_per_cell: ClassVar[float] = 5e-4
    seconds_per_row: ClassVar[float] = 1e-3
    bytes_per_row: ClassVar[int] = 50_000

    @abstractmethod
    def weights_for(self, task: Task, params: Params) -> Pretrained:
        """The weights that predict a task with these hyperparameters."""

    @abstractmethod
    def built(self, weights: str, path: Path, device: str) -> Any:
        """The network with the installed weights of this name, read from their file."""

    @abstractmethod
    def reader(self, network: Any, saved: Saved, rows: Table, device: str) -> Reader:
        """A network after it has read the context."""

    def network_of(self, used: UsedWeights, device: str) -> Any:
        """The network with some weights.

        Raises:
            UsageError: they are not installed, or were changed.
        """
        wanted = next(each for each in self.weights if each.name == used.name)
        return network(used, device, wanted.command, lambda path, device: self.built(used.name, path, device))

    def read(self, saved: Saved, rows: Table, device: str) -> Reader:
        """The network after it has read the context.

        Raises:
            UsageError: its weights are not installed, or were changed.
        """
        return self.reader(self.network_of(saved.weights, device), saved, rows, device)

    def supports(self, task: Task, shape: Shape) -> str | None:
        if not shape.n_features:
            return "The table has no features."
        if self.most_classes and shape.n_classes > self.most_classes:
            return f"It knows at most {self.most_classes} classes; the target has {shape.n_classes:,}."
        if shape.n_features > self.most_features:
            return f"It supports at most {self.most_features:,} features; the table has {shape.n_features:,}."
        wanted = self.weights_for(task, self.defaults(task, shape, "cpu"))
        if store.find(wanted.name) is None:
            return f"Its weights for this task are not installed: `{wanted.command}`."
        return None

    def features(self) -> FeatureRecipe:
        return FeatureRecipe()

    def defaults(self, task: Task, shape: Shape, device: str) -> ContextParams:
        """Eight estimators on a GPU, as in the example of structured-data-models; four on a CPU, as LightPFN's default.

        NOTE[DIFF]: neither was chosen by a measurement, because no weights were at hand.
        """
        assert issubclass(self.params_type, ContextParams)
        return self.params_type(n_estimators=4 if device == "cpu" else 8)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> ContextParams:
        """The number of estimators and of context rows. The ranges come from no paper and no measurement."""
        assert issubclass(self.params_type, ContextParams)
        return self.params_type(
            n_estimators=trial.suggest_int("n_estimators", 2, 16, log=True),
            max_context=trial.suggest_int("max_context", 1_024, 16_384, log=True),
        )

    def merit(self, task: Task, shape: Shape) -> float:
        """Small tables are where pre-trained networks lead on public leaderboards; the numbers are no measurement."""
        return 4.0 if shape.n_rows <= 10_000 else 1.0

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, ContextParams)
        n_rows = min(shape.n_rows, params.max_context)
        # A first guess, from fits of networks with random weights; the run corrects it. The context is read once, and a fifth of
        # the rows is predicted for the score.
        rows = n_rows + 0.25 * shape.n_rows
        per_estimator = rows * (self.seconds_per_row + self.seconds_per_cell * shape.n_features)
        faster = 1.0 if device == "cpu" else 50.0
        n_bytes = self.weights_for(task, params).n_bytes + params.n_estimators * n_rows * self.bytes_per_row
        return Cost(
            seconds=self.seconds_to_load + params.n_estimators * per_estimator / faster, n_bytes=200_000_000 + n_bytes
        )

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        """Keep all rows, those for early stopping included, and read them: predictions follow."""
        model = self.keep(train.joined(valid), params, context)
        if isinstance(model, ContextModel) and context.seconds_left() > 0:
            model.read()
        return model

    def refit(
        self, train: Table, params: Params, summaries: Sequence[Mapping[str, Any]], context: FitContext
    ) -> FittedModel:
        """Keep all rows, which are read for the first prediction."""
        return self.keep(train, params, context)

    def keep(self, rows: Table, params: Params, context: FitContext) -> FittedModel:
        """A model with at most `max_context` of these rows."""
        assert isinstance(params, ContextParams)
        if constant := ConstantModel.when_needed(rows, context):
            return constant
        wanted = self.weights_for(context.task, params)
        record = store.find(wanted.name)
        if record is None:
            raise UsageError(f"The weights {wanted.name} are not installed. Install them with `{wanted.command}`.")
        weights = UsedWeights(name=record.name, sha256=record.sha256, n_bytes=record.n_bytes, license=record.license)
        chosen = chosen_rows(rows, params.max_context, context)
        saved = Saved(
            task=context.task,
            n_classes=context.n_classes,
            n_numeric=len(context.features.numeric),
            cardinalities=context.features.cardinalities,
            params=params,
            n_rows=len(chosen),
            seed=context.seed,
            weights=weights,
        )
        return ContextModel(self, saved, rows.take(chosen), chosen.astype(np.int64), context.device)

    def load(self, folder: Path) -> FittedModel:
        if (constant := ConstantModel.load(folder)) is not None:
            return constant
        types = {
            "numeric": ("float32", 2),
            "categorical": ("int32", 2),
            "target": ("float64", 1),
            "source": ("int64", 1),
        }
        arrays = read_arrays(folder / ROWS, types, unchecked=["numeric"])
        saved = msgspec.json.decode((folder / MODEL).read_bytes(), type=self.saved_type())
        demand(saved.weights.name in {each.name for each in self.weights}, "it refers to unknown weights")
        demand(
            len({len(array) for array in arrays.values()}) == 1 and len(arrays["target"]), "its rows differ in length"
        )
        demand(len(arrays["target"]) == saved.n_rows, "its number of rows is wrong")
        demand(arrays["numeric"].shape[1] == saved.n_numeric, "its rows have other numeric columns")
        demand(arrays["categorical"].shape[1] == len(saved.cardinalities), "its rows have other categorical columns")
        for codes, cardinality in zip(arrays["categorical"].T, saved.cardinalities, strict=True):
            demand(is_within(codes, 0, cardinality), "a category of its rows is out of range")
        demand(not np.isinf(arrays["numeric"]).any(), "a number of its rows is infinite")
        demand((arrays["source"] >= 0).all(), "the place of a row is negative")
        target: npt.NDArray[Any] = arrays["target"]
        if saved.task != "regression":
            demand(
                (target == np.floor(target)).all() and is_within(target, 0, saved.n_classes), "a class is out of range"
            )
            target = target.astype(np.int64)
        demand(1 <= saved.params.n_estimators <= 64, "its number of estimators is out of range")
        rows = Table(numeric=arrays["numeric"], categorical=arrays["categorical"], target=target)
        # Missing weights are reported now, and not by the first prediction.
        self.network_of(saved.weights, "cpu")
        return ContextModel(self, saved, rows, arrays["source"], "cpu")

    def saved_type(self) -> type[Saved]:
        """The record of this plugin's hyperparameters."""
        return msgspec.defstruct(  # pyright: ignore[reportReturnType]
            "Saved",
            [("params", self.params_type)],
            bases=(Saved,),
            kw_only=True,
            frozen=True,
            forbid_unknown_fields=True,
        )


def chosen_rows(rows: Table, most: int, context: FitContext) -> npt.NDArray[np.intp]:
    """Positions in order of at most `most` rows: a sample that keeps the shares of the classes, and at least one row of each.

    The networks know no weights, so rows with different weights are drawn with replacement, in proportion to their weights.
    """
    n_rows = len(rows)
    random = np.random.default_rng(context.seed)
    if rows.weight is not None and np.ptp(rows.weight) > 0:
        share = rows.weight.astype(np.float64)
        return np.sort(random.choice(n_rows, size=min(n_rows, most), p=share / share.sum()))
    if n_rows <= most:
        return np.arange(n_rows)
    order = random.permutation(n_rows)
    if context.task == "regression":
        return np.sort(order[:most])
    target = np.asarray(target_of(rows))[order]
    _, codes, counts = np.unique(target, return_inverse=True, return_counts=True)
    # The rank of a row in its class over the size of the class: the smallest shares are a stratified sample.
    by_class = np.argsort(codes, kind="stable")
    starts = np.cumsum(counts) - counts
    rank = np.empty(n_rows)
    rank[by_class] = np.arange(n_rows) - np.repeat(starts, counts)
    share = np.where(rank == 0, -1.0, (rank + 0.5) / counts[codes])
    return np.sort(order[np.argsort(share, kind="stable")[:most]])
