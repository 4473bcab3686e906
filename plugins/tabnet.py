"""TabNet: Arik & Pfister 2021, Attentive Interpretable Tabular Learning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import torch
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import Cost, FitContext, Float32, Params, Shape, Task, Trial
from tabapp.nn.costs import launch_seconds, network_bytes, training_cost
from tabapp.nn.layers.attention import CLS, LayerAttention
from tabapp.nn.layers.batch_norm import BatchNorm
from tabapp.nn.layers.embeddings import FlatInput, embedding_width
from tabapp.nn.layers.entmax import sparsemax
from tabapp.nn.layers.ghost_norm import GhostBatchNorm
from tabapp.nn.layers.linear import Linear
from tabapp.nn.plugin import DeepModel, DeepPlugin, Sizes
from tabapp.nn.training.method import TrainingMethod
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import TrainingParams, batch_size_for
from tabapp.nn.training.trainer import inputs

INPUT_MOMENTUM = 0.01
INIT_ROWS = 8192


class TabNetParams(TrainingParams, frozen=True, kw_only=True):
    """Attributes:
    n_steps: number of decision steps.
    width: size of a step's decision and of the input of the next step's attention (n_d = n_a in the paper).
    n_shared, n_independent: layers of a feature transformer with weights shared by all steps, and with weights of each step.
    relaxation: how much a feature can be reused (γ); 1 limits each feature to one step.
    sparsity: weight of the mask entropy in the loss (λ).
    virtual_batch_size, momentum: batch size and momentum of ghost batch normalization.
    decay_rate, decay_steps: the learning rate is multiplied by decay_rate once per decay_steps training steps.
    """

    n_steps: int = 3
    width: int = 8
    n_shared: int = 2
    n_independent: int = 2
    relaxation: float = 1.3
    sparsity: float = 1e-3
    virtual_batch_size: int = 128
    momentum: float = 0.02
    decay_rate: float = 1.0
    decay_steps: int = 500
    learning_rate: float = 2e-2
    weight_decay: float = 0.0
    max_gradient_norm: float = 1.0


def scaled_linear(d_in: int, d_out: int, *, gated: bool = False) -> nn.Linear:
    """A linear layer without bias, its weights from N(0, 1/√d_in), or N(0, 2/√d_in) before a gate (the variances of
    dreamquark's pytorch-tabnet).
    """
    layer = Linear(d_in, d_out, bias=False)
    nn.init.normal_(layer.weight, std=sqrt((2 if gated else 1) / sqrt(d_in)))
    return layer


def gradient_bounded(attention: Tensor) -> Tensor:
    """Identity whose gradients are clipped at ±1, far above those of a mean loss.

    NOTE[DIFF]: on columns that hardly vary within a batch, each normalization multiplies gradients by hundreds, and the
    five normalizations of each step would make them overflow.
    """
    if attention.requires_grad:
        attention.register_hook(lambda gradient: gradient.clamp(-1, 1))
    return attention


class FeatureTransformer(nn.Module):
    """Gated linear units, Linear then GhostBatchNorm then a ⊙ σ(b), each but the first added to its input and scaled by
    √½.

    The first layers are shared by all steps and passed to each call; every step has its own normalizations.

    Shape: (rows, d_in) to (rows, 2 width).
    """

    def __init__(self, d_in: int, params: TabNetParams) -> None:
        super().__init__()
        d = 2 * params.width
        n_layers = params.n_shared + params.n_independent
        widths = [d_in, *[d] * (n_layers - 1)][params.n_shared :]
        self.own = nn.ModuleList([scaled_linear(n, 2 * d, gated=True) for n in widths])
        norms = [GhostBatchNorm(2 * d, params.virtual_batch_size, params.momentum) for _ in range(n_layers)]
        self.norms = nn.ModuleList(norms)

    def forward(self, x: Tensor, shared: nn.ModuleList) -> Tensor:
        for i, (linear, norm) in enumerate(zip((*shared, *self.own), self.norms, strict=True)):
            value, gate = norm(linear(x)).chunk(2, dim=1)
            gated = value * gate.sigmoid()
            x = gated if i == 0 else (x + gated) * sqrt(0.5)
        return x


class AttentiveTransformer(nn.Module):
    """Sparsemax(prior ⊙ GhostBatchNorm(Linear(attention))): mask of the inputs of a step.

    Shape: (rows, d_in) priors and (rows, width) to (rows, d_in) masks that sum to 1.
    """

    def __init__(self, d_in: int, params: TabNetParams) -> None:
        super().__init__()
        self.linear = scaled_linear(params.width, d_in)
        self.norm = GhostBatchNorm(d_in, params.virtual_batch_size, params.momentum)

    def forward(self, prior: Tensor, attention: Tensor) -> Tensor:
        return sparsemax(self.norm(self.linear(attention)) * prior)


@dataclass(frozen=True)
class Decisions:
    """Output of all steps: (n_steps, rows, d_in) masks and (n_steps, rows, width) decisions after ReLU."""

    masks: Tensor
    decisions: Tensor

    def entropy(self) -> Tensor:
        """Mean entropy of the masks over steps and rows (the paper's L_sparse)."""
        return -(self.masks * (self.masks + 1e-15).log()).sum(-1).mean()

    def importance(self) -> Tensor:
        """(rows, d_in): mean of the masks, weighted by the sum of each step's decisions; rows sum to 1 (section 3.4,
        M_agg). A row whose decisions are all zero has the unweighted mean.
        """
        weight = self.decisions.sum(-1, keepdim=True)
        weight = torch.where(weight.sum(0) > 0, weight, torch.ones_like(weight))
        total = (weight * self.masks).sum(0)
        return total / total.sum(1, keepdim=True)


class TabNetNetwork(nn.Module):
    """Sequential decision steps, each on its masked inputs; a linear layer over the sum of their decisions.

    NOTE[DIFF]: the attention sees the features, as in the paper of TabNet. In the port of Gorishniy et al. 2021, its input is
    empty, so that its masks are the same for every row.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: TabNetParams) -> None:
        super().__init__()
        self.input = FlatInput(sizes.n_numeric, sizes.cardinalities)
        d_in, d = self.input.d_out, 2 * params.width
        self.input_norm = BatchNorm(d_in, momentum=INPUT_MOMENTUM)
        shared = [scaled_linear(d_in if i == 0 else d, 2 * d, gated=True) for i in range(params.n_shared)]
        self.shared = nn.ModuleList(shared)
        self.first = FeatureTransformer(d_in, params)
        self.attentions = nn.ModuleList([AttentiveTransformer(d_in, params) for _ in range(params.n_steps)])
        self.steps = nn.ModuleList([FeatureTransformer(d_in, params) for _ in range(params.n_steps)])
        self.head = scaled_linear(params.width, sizes.d_out)
        self.widths = [1] * sizes.n_numeric + [embedding_width(c) for c in sizes.cardinalities]
        self.params = params
        self.width = params.width
        self.relaxation = params.relaxation

    def decide(self, numeric: Tensor, categorical: Tensor, shown: Tensor | None = None) -> Decisions:
        """Run all steps.

        Args:
            shown: (rows, n_features) 1 for the features that the steps see and may select, 0 for hidden ones; None means all.
        """
        x = self.input_norm(self.input(numeric, categorical))
        if shown is None:
            prior = torch.ones_like(x)
        else:
            prior = shown.repeat_interleave(torch.tensor(self.widths, device=x.device), dim=1)
            x = x * prior
        attention = self._bounded(self.first(x, self.shared)[:, self.width :])
        masks: list[Tensor] = []
        decisions: list[Tensor] = []
        for attend, transform in zip(self.attentions, self.steps, strict=True):
            mask = attend(prior, attention)
            prior = prior * (self.relaxation - mask)
            out = transform(mask * x, self.shared)
            masks.append(mask)
            decisions.append(out[:, : self.width].relu())
            attention = self._bounded(out[:, self.width :])
        return Decisions(torch.stack(masks), torch.stack(decisions))

    def _bounded(self, attention: Tensor) -> Tensor:
        """With bounded gradients in training only: explanations need the true ones."""
        return gradient_bounded(attention) if self.training else attention

    def attention_maps(self, numeric: Tensor, categorical: Tensor) -> list[LayerAttention]:
        """The mask of each step; the share of an embedded category is the sum over its dimensions."""
        masks, widths = self.decide(numeric, categorical).masks, self.widths
        places = tuple(range(len(widths)))
        return [
            LayerAttention(
                f"step {i + 1}",
                (CLS,),
                places,
                torch.stack([part.sum(1) for part in mask.split(widths, dim=1)], dim=1)[:, None, None],
                "mask",
            )
            for i, mask in enumerate(masks)
        ]

    def output(self, decided: Decisions) -> Tensor:
        """(rows, d_out)"""
        return self.head(decided.decisions.sum(0))

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        return self.output(self.decide(numeric, categorical))


class TabNetMethod(TrainingMethod):
    """Adam on the objective's loss plus λ times the masks' entropy, with optional exponential decay of the learning
    rate.
    """

    _step: int | None = None

    def schedule(self, optimizer: torch.optim.Optimizer, progress: float) -> None:
        params = self.params
        assert isinstance(params, TabNetParams)
        if self._step is None:
            # After resuming from a checkpoint, the number of steps is in the optimizer's state.
            states = list(optimizer.state.values())
            self._step = int(states[0]["step"]) if states else 0
        for group in optimizer.param_groups:
            group["lr"] = params.learning_rate * params.decay_rate ** (self._step / params.decay_steps)
        self._step += 1

    def loss(self, rows: Tensor, numeric: Tensor, categorical: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        network, params = self.network, self.params
        assert isinstance(network, TabNetNetwork)
        assert isinstance(params, TabNetParams)
        decided = network.decide(numeric, categorical)
        return self.objective.loss(network.output(decided), target, weight) + params.sparsity * decided.entropy()


class TabNetModel(DeepModel):
    def attention(self, table: Table) -> Float32:
        """Aggregated masks of each row; the share of an embedded category is the sum over its dimensions."""
        network = self.network
        assert isinstance(network, TabNetNetwork)
        widths = network.widths
        with torch.inference_mode():
            numeric, categorical = inputs(table, self.device)
            parts = zip(numeric.split(2048), categorical.split(2048), strict=True)
            shares = torch.cat([network.decide(x, codes).importance() for x, codes in parts])
            features = torch.stack([part.sum(1) for part in shares.split(widths, dim=1)], dim=1)
        return features.cpu().numpy().astype(np.float32)


class TabNet(DeepPlugin):
    """NOTE[DIFF]: the implementation follows dreamquark's package, but initializes shared layers once and omits unused
    normalizations. The size of category embeddings follows `embedding_width` instead of being one.
    """

    name = "tabnet"
    title = "TabNet"
    has_attention_maps = True
    paper = "Arik & Pfister 2021, TabNet: Attentive Interpretable Tabular Learning"
    has_attention = True
    attention_kind = "selection"
    params_type = TabNetParams
    model_type = TabNetModel
    min_rows = 500
    max_features = 5_000

    def build(self, sizes: Sizes, params: TabNetParams) -> TabNetNetwork:
        return TabNetNetwork(sizes, params)

    def initialize(self, network: nn.Module, train: Table) -> None:
        """Initialize the running statistics of the input from training rows.

        NOTE[DIFF]: the reference implementation starts at mean 0 and variance 1, and its slow momentum needs hundreds of
        steps to forget them. Small tables are evaluated before that, and the variance of embeddings differs much from 1.
        """
        assert isinstance(network, TabNetNetwork)
        rows = train.take(slice(None, None, max(1, len(train) // INIT_ROWS)))
        if len(rows) > 1:
            with torch.no_grad():
                x = network.input(*inputs(rows, torch.device("cpu")))
            norm = network.input_norm
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.copy_(x.mean(0))
            norm.running_var.copy_(x.var(0))

    def method(
        self, network: nn.Module, params: TrainingParams, objective: Objective, context: FitContext
    ) -> TrainingMethod:
        return TabNetMethod(network, params, objective, repeats_steps=True)

    def defaults(self, task: Task, shape: Shape, device: str) -> TabNetParams:
        """Defaults of dreamquark's package, with smaller batches for small tables.

        NOTE[DIFF]: on a CPU, weight averaging replaces the learning-rate decay, which a deadline would interrupt.
        """
        batch_size = 1024 if shape.n_rows > 10_000 else None
        return TabNetParams(batch_size=batch_size, average_decay=0.99 if device == "cpu" else 0.0)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> TabNetParams:
        """Gorishniy et al. 2021, Table 11.

        NOTE[DIFF]: on a CPU, at most 6 steps of width 64. The batch size depends on the number of rows as for the other
        networks, and virtual batches have 128 rows; the paper sets both per table.
        """
        on_cpu = device == "cpu"
        return TabNetParams(
            n_steps=trial.suggest_int("n_steps", 3, 6 if on_cpu else 10),
            width=trial.suggest_categorical("width", [8, 16, 32, 64] if on_cpu else [8, 16, 32, 64, 128]),
            relaxation=trial.suggest_float("relaxation", 1.0, 2.0),
            sparsity=trial.suggest_float("sparsity", 1e-6, 1e-1, log=True),
            decay_rate=trial.suggest_float("decay_rate", 0.4, 0.95),
            decay_steps=trial.suggest_categorical("decay_steps", [100, 500, 2000]),
            learning_rate=trial.suggest_float("learning_rate", 1e-3, 1e-2),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, TabNetParams)
        n_layers = (params.n_shared + params.n_independent) * (params.n_steps + 1)
        d_in, d = 4 * shape.n_features, 2 * params.width
        # Elementwise operations are counted as arithmetic that takes the same time.
        per_row = n_layers * 2 * d * 2500 + params.n_steps * shape.n_features * 10_000 + 6 * n_layers * 2 * d * d
        n_weights = (params.n_steps + 1) * params.n_independent * 2 * d * d + d_in * d * (params.n_steps + 2)
        n_epochs = 40
        values = params.n_steps * (40 * shape.n_features + 12 * params.width * (params.n_shared + params.n_independent))
        n_bytes = network_bytes(
            shape, n_weights, device, values=values, peak=0.18 * values, batch_size=params.batch_size
        )
        cost = training_cost(shape, per_row * shape.n_rows, n_weights, device, n_epochs=n_epochs, n_bytes=n_bytes)
        # Each of the sequential steps has as many operations as other networks in total.
        n_batches = n_epochs * max(1, shape.n_rows // (params.batch_size or batch_size_for(shape.n_rows)))
        return replace(cost, seconds=cost.seconds + n_batches * (params.n_steps + 1) * launch_seconds(device))
