"""Base classes of neural-network plugins: training, saving and loading."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec
import safetensors.torch
import torch
from torch import nn

from tabapp.features.arrays import FIRST_LEVEL, FeatureRecipe, FeatureSpec, Table
from tabapp.features.saved import demand
from tabapp.models.contract import (
    STEP_ROWS,
    AttentionMap,
    FeatureContributions,
    FitContext,
    FittedModel,
    Float32,
    Floats,
    GroupFit,
    Params,
    Plugin,
    Shape,
    Task,
)
from tabapp.nn.layers.attention import LayerAttention
from tabapp.nn.layers.precision import tensor_float32
from tabapp.nn.loading import MOST, WEIGHTS, check_integers, load_network
from tabapp.nn.training.members import FREE, Member
from tabapp.nn.training.method import TrainingMethod
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import OTHERS_SHARE, SharingParams, TrainingParams
from tabapp.nn.training.shared_trunk import SharedTrunk, other_parts, with_partly_labeled
from tabapp.nn.training.stacked import train_members
from tabapp.nn.training.trainer import Training, inputs, predict_output, seed_everything, train_epochs, train_network


class Sizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Input and output sizes of a network; `n_classes` is 1 for regression. The last `d_others` of the `d_out` outputs are those of
    other targets."""

    n_numeric: int
    cardinalities: tuple[int, ...]
    d_out: int
    n_classes: int = 1
    d_others: int = 0

    def check(self, objective: Objective) -> None:
        """Check saved sizes.

        Raises:
            ValueError: a size is out of range or contradicts the objective.
        """
        demand(
            0 <= self.n_numeric <= MOST and all(n >= FIRST_LEVEL for n in self.cardinalities), "a size is out of range"
        )
        demand(self.n_numeric + len(self.cardinalities) > 0, "it has no columns")
        demand(0 <= self.d_others <= MOST, "a size is out of range")
        same = (self.d_out - self.d_others, self.n_classes) == (objective.d_out, objective.n_classes)
        demand(same and objective.n_classes > 0, "the sizes of its output contradict its target")


class SavedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`model.json` of a saved network; the weights are in `weights.safetensors`."""

    sizes: Sizes
    objective: Objective
    params: dict[str, Any]
    facts: dict[str, Any]


MAP_ROWS, MAP_PAIRS = 256, 2**21
"""Rows, and pairs of features in them, whose attention is computed together."""


@runtime_checkable
class HasAttentionMaps(Protocol):
    """A network with attention between features."""

    def attention_maps(self, numeric: torch.Tensor, categorical: torch.Tensor) -> list[LayerAttention]:
        """Attention of some rows, by layer."""
        ...


@runtime_checkable
class HasFeatureAttention(Protocol):
    """A network that says how much attention each feature gets."""

    def feature_attention(self, numeric: torch.Tensor, categorical: torch.Tensor) -> dict[str, torch.Tensor]:
        """(rows, n_features) attention by its name, the most telling one first, of any scale; NaN for features that it does not
        see. Empty if this network has none."""
        ...


class DeepModel(FittedModel):
    """A trained network on its device. Predictions are made in float32."""

    thread_safe = True

    def __init__(self, network: nn.Module, saved: SavedModel, device: torch.device) -> None:
        self.network = network.to(device).eval()
        self.saved = saved
        self.device = device

    def to(self, device: str) -> None:
        self.device = torch.device(device)
        self.network.to(self.device)

    def predict(self, table: Table) -> Floats:
        return self.saved.objective.prediction(predict_output(self.network, *inputs(table, self.device)))

    def attention(self, table: Table) -> Float32 | None:
        return next(iter(self._attention(table).values()), None)

    def attention_streams(self, table: Table) -> dict[str, Float32]:
        found = self._attention(table)
        return found if len(found) > 1 else {}

    def _attention(self, table: Table) -> dict[str, Float32]:
        network = self.network
        if not isinstance(network, HasFeatureAttention) or not len(table):
            return {}
        with torch.inference_mode():
            parts = [network.feature_attention(*part) for part in self._parts(table)]
            joined = {name: torch.cat([part[name] for part in parts]).float() for name in parts[0]}
            shares = {name: each / each.nansum(1, keepdim=True) for name, each in joined.items()}
        return {name: each.cpu().numpy() for name, each in shares.items()}

    def _parts(self, table: Table) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The numbers and codes of some rows at a time, whose attention between features fits in memory."""
        numeric, categorical = inputs(table, self.device)
        n_together = max(1, min(MAP_ROWS, MAP_PAIRS // (numeric.shape[1] + categorical.shape[1] + 1) ** 2))
        yield from zip(numeric.split(n_together), categorical.split(n_together), strict=True)

    def attention_maps(self, table: Table) -> list[AttentionMap]:
        network = self.network
        if not isinstance(network, HasAttentionMaps) or not len(table):
            return []
        found: list[LayerAttention] = []
        sums: list[torch.Tensor] = []
        with torch.inference_mode():
            for x, codes in self._parts(table):
                found = network.attention_maps(x, codes)
                parts = [each.weights.float().sum(0) for each in found]
                sums = [a + b for a, b in zip(sums, parts, strict=True)] if sums else parts
        return [
            AttentionMap(each.title, each.queries, each.keys, (total / len(table)).cpu().numpy(), each.kind)
            for each, total in zip(found, sums, strict=True)
        ]

    def contributions(self, table: Table, code: int, reference: Table | None = None) -> FeatureContributions | None:
        objective = self.saved.objective
        if reference is None or not len(reference) or objective.is_constant:
            return None
        from tabapp.nn.integrated import PathError, integrated_gradients

        try:
            base, values, errors = integrated_gradients(
                self.network,
                lambda output: objective.explained(output, code),
                *inputs(table, self.device),
                *inputs(reference, self.device),
            )
        except PathError:
            return None
        unit = "target" if objective.task == "regression" else "log-odds"
        return FeatureContributions(base, values, unit, "integrated gradients", errors)

    def onnx(self, opset: int) -> bytes | None:
        if self.saved.objective.is_constant:
            return None
        from tabapp.nn.onnx_export import network_as_onnx

        sizes = self.saved.sizes
        return network_as_onnx(self.network, self.saved.objective, sizes.n_numeric, sizes.cardinalities, opset)

    def save(self, folder: Path) -> None:
        tensors = {name: t.detach().cpu().contiguous() for name, t in self.network.state_dict().items()}
        safetensors.torch.save_file(tensors, folder / WEIGHTS)
        (folder / "model.json").write_bytes(msgspec.json.encode(self.saved))

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        self.saved.objective.check(task, n_classes)
        sizes = self.saved.sizes
        same = (sizes.n_numeric, sizes.cardinalities) == (len(features.numeric), features.cardinalities)
        demand(same, "it was trained on other columns")

    def summary(self) -> dict[str, Any]:
        return self.saved.facts


class DeepPlugin(Plugin):
    """Base class of neural-network plugins. Subclasses define `build`, `defaults`, `search_space` and `cost`."""

    family = "deep"
    requires = ("torch", "safetensors")
    is_uncertain = True
    uses_device = True
    tolerates_half = True
    prune_steps = (5, 10, 20)
    free_params = FREE
    model_type: ClassVar[type[DeepModel]] = DeepModel
    low_precision: ClassVar[bool] = False
    """Whether bfloat16 pays for this network where the device has it."""
    bfloat16_weights: ClassVar[bool] = False
    """Whether a GPU also trains this network with weights and values between its layers in bfloat16. The optimizer still updates
    float32 weights."""
    repeats_steps: ClassVar[bool] = False
    """Whether every training step starts the same operations on the same tensors, as a CUDA graph needs: neither the network nor
    its training method has Python values that change during training."""
    tolerates_tf32: ClassVar[bool] = False
    """Whether training in TF32 on a GPU costs no score, for networks without `low_precision` (`benchmarks/results/tf32.json`)."""
    min_rows: ClassVar[int] = 50
    max_rows: ClassVar[int] = 10_000_000
    max_features: ClassVar[int] = 10_000

    @abstractmethod
    def build(self, sizes: Sizes, params: Any) -> nn.Module:
        """Create the network with new weights from torch's global generator. Its forward takes (numeric, categorical)."""

    def initialize(self, network: nn.Module, train: Table) -> None:
        """Initialize the data-dependent parts of a new network, such as bin edges; does nothing by default."""

    def undecayed(self, network: nn.Module) -> set[str]:
        """Names of the parameters without weight decay; none by default."""
        return set()

    def method(
        self, network: nn.Module, params: TrainingParams, objective: Objective, context: FitContext
    ) -> TrainingMethod:
        """The training method; AdamW with a constant learning rate by default."""
        return TrainingMethod(
            network,
            params,
            objective,
            undecayed=self.undecayed(network),
            low_precision=self.low_precision,
            bfloat16_weights=self.bfloat16_weights,
            repeats_steps=self.repeats_steps,
        )

    def params_for(self, params: Any, context: FitContext) -> Any:
        """The hyperparameters to train with, such as those that depend on the metric; unchanged by default."""
        return params

    def describe(self, network: nn.Module, train: Table, params: Any, context: FitContext) -> dict[str, Any]:
        """Further facts about a trained network for its summary; none by default."""
        return {}

    def add_stopping_rows(
        self, network: nn.Module, train: Table, valid: Table, objective: Objective, params: TrainingParams
    ) -> None:
        """Add the early-stopping rows to a trained network that retrieves neighbors; does nothing by default. `train` are
        the training rows.
        """

    def supports(self, task: Task, shape: Shape) -> str | None:
        if not shape.n_features:
            return "The table has no features."
        if shape.n_rows < self.min_rows:
            return f"It needs at least {self.min_rows:,} training rows; the table has {shape.n_rows:,}."
        if shape.n_rows > self.max_rows:
            return f"It supports at most {self.max_rows:,} training rows; the table has {shape.n_rows:,}."
        if shape.n_features > self.max_features:
            return f"It supports at most {self.max_features:,} features; the table has {shape.n_features:,}."
        return None

    def device_for(self, task: Task, shape: Shape, device: str) -> str:
        """A GPU, unless the estimated seconds of the same small network on the CPU are fewer: the start of a process on a GPU takes
        longer than a fit of few steps, and a network whose steps are not recorded starts its operations slowly."""
        params = self.defaults(task, shape, "cpu")
        on_cpu, on_device = (self.cost(task, shape, params, each).seconds for each in ("cpu", device))
        return "cpu" if on_cpu < on_device else device

    def features(self) -> FeatureRecipe:
        return FeatureRecipe(numeric="quantile")

    def features_for(self, params: Params) -> FeatureRecipe:
        recipe = self.features()
        chosen = params.numeric if isinstance(params, TrainingParams) else None
        return recipe if chosen is None else msgspec.structs.replace(recipe, numeric=chosen)

    def portfolio(self, task: Task, shape: Shape, device: str) -> tuple[Params, ...]:
        """The defaults with outputs for the other targets of the run, if the network can have them and there are any."""
        params = self.defaults(task, shape, device)
        if not self.uses_other_targets or not shape.n_other_targets or not isinstance(params, SharingParams):
            return ()
        return (msgspec.structs.replace(params, others_share=OTHERS_SHARE),)

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> FittedModel:
        params = self.params_for(params, context)
        assert isinstance(params, TrainingParams)
        device = seed_everything(context)
        train = self._learned_rows(train, params, context)
        objective, sizes, network = self._start(train, params, context)
        method = self._method(network, train, sizes, params, objective, context)
        with tensor_float32(device, self.tolerates_tf32):
            training = train_network(network, train, valid, params, objective, context, method)
        self.add_stopping_rows(network, train, valid, objective, params)
        facts = self.describe(network, train, params, context)
        return self._trained(network, sizes, objective, params, training, device, facts)

    def refit(
        self, train: Table, params: Params, summaries: Sequence[Mapping[str, Any]], context: FitContext
    ) -> FittedModel | None:
        """Train for the mean number of the best epochs of the folds. A subclass that overrides only `fit` is not refitted."""
        n_epochs = self._epochs_of(summaries)
        if type(self).fit is not DeepPlugin.fit or not n_epochs:
            return None
        params = self.params_for(params, context)
        assert isinstance(params, TrainingParams)
        device = seed_everything(context)
        train = self._learned_rows(train, params, context)
        objective, sizes, network = self._start(train, params, context)
        method = self._method(network, train, sizes, params, objective, context)
        planned = params.max_epochs
        if method.scheduled:
            # The models of the folds planned as many epochs as their time allowed.
            planned = max(n_epochs, round(sum(summary["epochs"] for summary in summaries) / len(summaries)))
        with tensor_float32(device, self.tolerates_tf32):
            training = train_epochs(network, train, n_epochs, planned, params, objective, context, method)
        facts = self.describe(network, train, params, context)
        return self._trained(network, sizes, objective, params, training, device, facts)

    @staticmethod
    def _epochs_of(summaries: Sequence[Mapping[str, Any]]) -> int | None:
        """The mean number of epochs of some folds; None if they do not record it."""
        epochs = [summary["best_epoch"] for summary in summaries if "best_epoch" in summary]
        return max(1, round(sum(epochs) / len(epochs))) if epochs else None

    def fit_group(self, fits: Sequence[GroupFit]) -> list[FittedModel | None]:
        """Train networks of equal architecture as one stacked network, and others one after the other."""
        members: list[Member] = []
        started: list[tuple[Objective, Sizes]] = []
        for fit in fits:
            params = self.params_for(fit.params, fit.context)
            assert isinstance(params, TrainingParams)
            seed_everything(fit.context)
            objective, sizes, network = self._start(fit.train, params, fit.context)
            method = self._method(network, fit.train, sizes, params, objective, fit.context)
            state, n_epochs = torch.get_rng_state(), self._epochs_of(fit.summaries)
            tables = fit.train, fit.valid
            members.append(
                Member(network, *tables, params, objective, fit.context, method, state, self.free_params, n_epochs)
            )
            started.append((objective, sizes))
        with tensor_float32(torch.device(fits[0].context.device), self.tolerates_tf32):
            train_members(members)
        models: list[FittedModel | None] = []
        for member, (objective, sizes) in zip(members, started, strict=True):
            if member.stopped or member.result is None:
                models.append(None)
                continue
            facts = self.describe(member.network, member.train, member.params, member.context)
            device = torch.device(member.context.device)
            models.append(self._trained(member.network, sizes, objective, member.params, member.result, device, facts))
        return models

    def _start(self, train: Table, params: TrainingParams, context: FitContext) -> tuple[Objective, Sizes, nn.Module]:
        """The objective of a table, its sizes, and a new network for it."""
        objective = Objective.fit(train, context)
        spec = context.features
        shared = self._shared(train, params, objective, context)
        d_others = 0 if shared is None else shared.d_out
        sizes = Sizes(
            n_numeric=len(spec.numeric),
            cardinalities=spec.cardinalities,
            d_out=objective.d_out + d_others,
            n_classes=objective.n_classes,
            d_others=d_others,
        )
        network = self.build(sizes, params)
        self.initialize(network, train)
        return objective, sizes, network

    def _learned_rows(self, train: Table, params: TrainingParams, context: FitContext) -> Table:
        """The training rows, with those that have only other targets if the network learns these."""
        learns_others = self.uses_other_targets and isinstance(params, SharingParams) and params.others_share
        return with_partly_labeled(train, context.task, context.unlabeled) if learns_others else train

    def _shared(
        self, train: Table, params: TrainingParams, objective: Objective, context: FitContext
    ) -> SharedTrunk | None:
        """The loss of the other targets; None if the network does not learn any."""
        share = params.others_share if isinstance(params, SharingParams) else 0.0
        if not share or not self.uses_other_targets or objective.is_constant:
            return None
        parts = other_parts(train, context.other_targets, torch.device(context.device))
        return SharedTrunk(parts, objective.d_out, share) if parts else None

    def _method(
        self,
        network: nn.Module,
        train: Table,
        sizes: Sizes,
        params: TrainingParams,
        objective: Objective,
        context: FitContext,
    ) -> TrainingMethod:
        """The training method, with the loss of the other targets if the network has outputs for them."""
        method = self.method(network, params, objective, context)
        method.shared = self._shared(train, params, objective, context) if sizes.d_others else None
        return method

    def _trained(
        self,
        network: nn.Module,
        sizes: Sizes,
        objective: Objective,
        params: TrainingParams,
        training: Training,
        device: torch.device,
        more_facts: dict[str, Any],
    ) -> FittedModel:
        facts = {
            "parameters": sum(p.numel() for p in network.parameters()),
            "best_epoch": training.best_epoch,
            "epochs": training.n_epochs,
            **more_facts,
        }
        if training.step_rows is not None:
            facts[STEP_ROWS] = training.step_rows
        saved = SavedModel(sizes=sizes, objective=objective, params=msgspec.to_builtins(params), facts=facts)
        return self.model_type(network, saved, device)

    def load(self, folder: Path) -> FittedModel:
        saved = msgspec.json.decode((folder / "model.json").read_bytes(), type=SavedModel)
        params = msgspec.convert(saved.params, self.params_type)
        saved.sizes.check(saved.objective)
        check_integers(params)
        network = load_network(folder, lambda: self.build(saved.sizes, params))
        return self.model_type(network, saved, torch.device("cpu"))
