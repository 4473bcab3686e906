"""The network of RealMLP and its parameters: Holzmüller et al. 2024, section 3, and the authors' package pytabkit 1.7.3."""

from __future__ import annotations

from typing import Any, Literal, Self

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.features.arrays import FIRST_LEVEL
from tabapp.models.contract import Task
from tabapp.nn.layers.dropout import dropout
from tabapp.nn.layers.gather import NO_CODE, EmbeddingGather, OneHotGather, is_preferred
from tabapp.nn.layers.linear import linear
from tabapp.nn.layers.numeric import OPEN, PBLDEmbedding, PeriodicEmbedding
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.trainer import TrainingParams

MOST_ONE_HOT = {"TD": 8, "TD-S": 256}
FEW_ROWS = 1_500
"""Below this number of rows, the defaults are `RealMLPParams.for_few_rows`."""
D_CATEGORY = 8
D_NUMERIC = 4
N_FREQUENCIES = 16
CLIP = 3.0
MOST_EXPONENT = 20.0
INIT_ROWS, LEAST_INIT_ROWS = 65_536, 1024
INIT_BYTES = 2**28
"""Memory of the values that are computed to initialize the layers."""


class RealMLPParams(TrainingParams, frozen=True, kw_only=True):
    """The defaults are those of TD for classification.

    Attributes:
        variant: "TD", or the simplified "TD-S" with one-hot levels, fixed activations and data-independent initial weights.
        numeric_embedding: periodic embedding of numbers: "pbld" (includes the number itself), "pl", "plr" (with ReLU) or
            "none".
        frequency_scale: standard deviation of the initial frequencies of the embeddings.
        front_scale: multiply each input by a learned factor.
        activation: activation function of hidden units.
        widths: sizes of the hidden layers.
        dropout, weight_decay: initial values; both decrease to zero over the second half of training.
        label_smoothing: label smoothing, used only if the run's metric needs no probabilities.
    """

    variant: Literal["TD", "TD-S"] = "TD"
    numeric_embedding: Literal["pbld", "pl", "plr", "none"] = "pbld"
    frequency_scale: float = 0.1
    front_scale: bool = True
    activation: Literal["selu", "mish", "relu"] = "selu"
    widths: tuple[int, ...] = (256, 256, 256)
    dropout: float = 0.15
    label_smoothing: float = 0.1
    learning_rate: float = 0.04
    weight_decay: float = 0.02
    batch_size: int | None = 256
    max_epochs: int = 256
    patience: int | None = None

    @classmethod
    def tuned_defaults(cls, task: Task) -> Self:
        """TD, the defaults tuned on the authors' training benchmarks."""
        return cls(activation="mish", learning_rate=0.2) if task == "regression" else cls()

    @classmethod
    def for_few_rows(cls, task: Task) -> Self:
        """TD for tables below `FEW_ROWS`.

        NOTE[DIFF]: smaller batches, half the epochs and a low rate, which take two thirds of the time and have a lower error there
        (`benchmarks/results/small_networks.json`). The authors' benchmarks have at least a thousand training rows.
        """
        paper = cls.tuned_defaults(task)
        return msgspec.structs.replace(paper, learning_rate=0.02, batch_size=128, max_epochs=128)

    @classmethod
    def simplified(cls, task: Task) -> Self:
        """TD-S, the authors' simplified variant.

        NOTE[DIFF]: columns with more than 256 levels are embedded in TD-S too, because a one-hot column could exceed the
        memory.
        """
        return cls(
            variant="TD-S",
            numeric_embedding="none",
            activation="mish" if task == "regression" else "selu",
            dropout=0.0,
            weight_decay=0.0,
            learning_rate=0.07 if task == "regression" else 0.04,
        )


def smooth_clip(x: Tensor) -> Tensor:
    """x / √(1 + (x/3)²), between -3 and 3."""
    return x * torch.rsqrt(1 + (x / CLIP).square())


class Categories(nn.Module):
    """Categorical columns as robustly scaled one-hot columns (one of ±1 for two levels), or embedded if they have many
    levels.

    Missing and unseen levels are zeros before the scaling.

    Shape: (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, cardinalities: tuple[int, ...], *, most_one_hot: int) -> None:
        super().__init__()
        self.n_levels = tuple(c - FIRST_LEVEL for c in cardinalities)
        self.embeddings = nn.ModuleDict()
        for i, cardinality in enumerate(cardinalities):
            if self.n_levels[i] > most_one_hot:
                self.embeddings[str(i)] = nn.Embedding(cardinality, D_CATEGORY)
        one_hot = [n for i, n in enumerate(self.n_levels) if str(i) not in self.embeddings]
        d_one_hot = sum(1 if n == 2 else max(n, 0) for n in one_hot)
        self.register_buffer("median", torch.zeros(d_one_hot))
        self.register_buffer("factor", torch.ones(d_one_hot))
        self.median: Tensor
        self.factor: Tensor
        self.d_out = d_one_hot + D_CATEGORY * len(self.embeddings)
        embedded = [int(i) for i in self.embeddings]
        self._gather = EmbeddingGather(embedded, [cardinalities[i] for i in embedded], [D_CATEGORY] * len(embedded))
        columns: list[int] = []
        levels: list[int] = []
        opposites: list[int] = []
        for i, n_levels in enumerate(self.n_levels):
            n_columns = 0 if i in embedded else 1 if n_levels == 2 else max(n_levels, 0)
            columns += [i] * n_columns
            levels += range(FIRST_LEVEL, FIRST_LEVEL + n_columns)
            opposites += [FIRST_LEVEL + 1 if n_levels == 2 else NO_CODE] * n_columns
        self._one_hot = OneHotGather(columns, levels, opposites)

    def one_hot(self, codes: Tensor) -> Tensor:
        """(rows, d_one_hot) before scaling."""
        if is_preferred(codes):
            return self._one_hot(codes)
        parts = [torch.zeros(codes.shape[0], 0, device=codes.device)]
        for i, column in enumerate(codes.unbind(1)):
            n_levels = self.n_levels[i]
            if str(i) in self.embeddings or n_levels < 1:
                continue
            encoded = F.one_hot(column, n_levels + FIRST_LEVEL)[:, FIRST_LEVEL:].float()
            parts.append(encoded[:, :1] - encoded[:, 1:] if n_levels == 2 else encoded)
        return torch.cat(parts, dim=1)

    @torch.no_grad()
    def fit_scaling(self, codes: Tensor) -> None:
        """Learn medians and spreads from training rows: 1/(q75 - q25), or 2/(max - min) where that is infinite, or 0."""
        x = self.one_hot(codes)
        below, above = (x < 0).float().mean(0), (x > 0).float().mean(0)
        low, median, high = ((above > 1 - q).float() - (below > q).float() for q in (0.25, 0.5, 0.75))
        spread = torch.where(high > low, high - low, (x.amax(0) - x.amin(0)) / 2)
        self.median.copy_(median)
        self.factor.copy_(torch.where(spread > 0, 1 / spread, 0.0))

    def forward(self, codes: Tensor) -> Tensor:
        scaled = smooth_clip((self.one_hot(codes) - self.median) * self.factor)
        if self.embeddings and is_preferred(codes):
            return torch.cat([scaled, self._gather(self.embeddings.values(), codes)], dim=1)
        return torch.cat([scaled, *(e(codes[:, int(i)]) for i, e in self.embeddings.items())], dim=1)


class NTKLinear(nn.Module):
    """x W / √d_in + b, the neural tangent parametrization, with W and b from N(0, 1) unless fitted.

    Shape: (rows, d_in) to (rows, d_out).
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_in, d_out))
        self.bias = nn.Parameter(torch.randn(d_out))

    @torch.no_grad()
    def fit(self, x: Tensor) -> None:
        """Scale each unit's weights so that its values on these rows have a standard deviation of 1, and set its bias
        to minus a random convex combination of its values at five rows ("he+5").
        """
        gain = self.weight.shape[0] ** -0.5
        std = (x @ self.weight * gain).std(dim=0, correction=0)
        self.weight.div_(torch.where(std > 1e-6, std, 1.0))
        values = x @ self.weight * gain
        rows = torch.randint(0, len(x), (5, values.shape[1]))
        share = torch.empty(rows.shape).exponential_()
        self.bias.copy_(-(values.gather(0, rows) * share / share.sum(0)).sum(0))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight.t() * self.weight.shape[0] ** -0.5, self.bias)


class ParametricMish(torch.autograd.Function):
    """x + a (mish(x) - x) and its gradients, in a third of the time that `F.mish` and `torch.lerp` take on a CPU.

    With e = exp(x) and r = 1 / (e² + 2e + 2), tanh(softplus(x)) is t = (e² + 2e) r, and mish'(x) = t + 4 x (e² + e) r².

    Shape: (rows, width) and a of (width,) to (rows, width).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor) -> Tensor:
        # Beyond it, t is 1 in float32, and e² must stay finite.
        e = x.clamp(max=MOST_EXPONENT).exp_()
        n = (e + 2).mul_(e)
        r = (n + 2).reciprocal_()
        t = n.mul_(r)
        ctx.save_for_backward(x, a, e, r, t)
        return torch.lerp(x, x * t, a)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor]:
        x, a, e, r, t = ctx.saved_tensors
        (upstream,) = grad_outputs
        to_a = (x * t).sub_(x).mul_(upstream).sum(0)
        slope = torch.addcmul(e, e, e).mul_(r).mul_(r).mul_(x).mul_(4).add_(t)
        return torch.addcmul(upstream, upstream, slope.sub_(1).mul_(a)), to_a


class ParametricActivation(nn.Module):
    """x + a (φ(x) - x), with a learned a for each unit, 1 at first. Shape: (rows, width) to the same shape."""

    def __init__(self, name: Literal["selu", "mish", "relu"], width: int, *, learned: bool) -> None:
        super().__init__()
        self.name = name
        self.function = {"selu": F.selu, "mish": F.mish, "relu": F.relu}[name]
        self.weight = nn.Parameter(torch.ones(width)) if learned else None

    def forward(self, x: Tensor) -> Tensor:
        if self.weight is None:
            return self.function(x)
        if self.name == "mish" and self.training and x.device.type == "cpu" and x.dtype == self.weight.dtype:
            output: Any = ParametricMish.apply(x, self.weight)
            return output
        return torch.lerp(x, self.function(x), self.weight.to(x.dtype))


class RealMLPNetwork(nn.Module):
    """Embedded inputs, a learned scale of each, then layers in the neural tangent parametrization.

    Outputs of a regression stay between the lowest and highest training target when not in training. Two classes have two
    outputs, whose difference is the logit.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: RealMLPParams) -> None:
        super().__init__()
        simplified = params.variant == "TD-S"
        self.numeric = self._numeric_embedding(sizes.n_numeric, params)
        self.categorical = Categories(sizes.cardinalities, most_one_hot=MOST_ONE_HOT[params.variant])
        d_numeric = sizes.n_numeric * (1 if isinstance(self.numeric, nn.Identity) else D_NUMERIC)
        d_in = (d_numeric + self.categorical.d_out, *params.widths)
        self.scale = nn.Parameter(torch.ones(d_in[0])) if params.front_scale else None
        self.layers = nn.ModuleList([NTKLinear(a, b) for a, b in zip(d_in, params.widths, strict=False)])
        self.activations = nn.ModuleList(
            [ParametricActivation(params.activation, width, learned=not simplified) for width in params.widths]
        )
        self.widest = max(d_in)
        self.is_binary = sizes.n_classes == 2
        self.head = NTKLinear(d_in[-1], 2 if self.is_binary else sizes.d_out)
        self.fits_layers = not simplified
        if simplified:
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)
        self.dropout: float | Tensor = params.dropout
        self.register_buffer("lowest", torch.tensor(-OPEN))
        self.register_buffer("highest", torch.tensor(OPEN))
        self.lowest: Tensor
        self.highest: Tensor

    @staticmethod
    def _numeric_embedding(n_numeric: int, params: RealMLPParams) -> nn.Module:
        if not n_numeric or params.numeric_embedding == "none":
            return nn.Identity()
        if params.numeric_embedding == "pbld":
            return PBLDEmbedding(
                n_numeric, n_frequencies=N_FREQUENCIES, frequency_scale=params.frequency_scale, d_embedding=D_NUMERIC
            )
        return PeriodicEmbedding(
            n_numeric,
            n_frequencies=N_FREQUENCIES // 2,
            frequency_scale=params.frequency_scale,
            d_embedding=D_NUMERIC,
            activated=params.numeric_embedding == "plr",
        )

    @torch.no_grad()
    def fit_to(self, numeric: Tensor, categorical: Tensor) -> None:
        """Initialize the scaling of one-hot columns and then each layer from training rows."""
        per_row = 4 * (3 * N_FREQUENCIES * numeric.shape[1] + 4 * self.widest)
        rows = torch.randperm(len(numeric))[: min(INIT_ROWS, max(LEAST_INIT_ROWS, INIT_BYTES // per_row))]
        numeric, categorical = numeric[rows], categorical[rows]
        self.categorical.fit_scaling(categorical)
        if not self.fits_layers:
            return
        x = self.inputs(numeric, categorical)
        for layer, activation in zip(self.layers, self.activations, strict=True):
            assert isinstance(layer, NTKLinear)
            layer.fit(x)
            x = activation(layer(x))
        self.head.fit(x)

    def inputs(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(rows, d_in): input of the first layer."""
        x = torch.cat([self.numeric(numeric).flatten(1), self.categorical(categorical)], dim=1)
        return x if self.scale is None else x * self.scale

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        x = self.inputs(numeric, categorical)
        for layer, activation in zip(self.layers, self.activations, strict=True):
            x = activation(layer(x))
            if self.training:
                x = dropout(x, self.dropout)
        output = self.head(x)
        if self.is_binary:
            output = output[:, 1:] - output[:, :1]
        return output if self.training else output.clamp(self.lowest, self.highest)
