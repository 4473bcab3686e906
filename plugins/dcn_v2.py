"""DCN V2 (Wang et al. 2021), parallel and stacked, as in Gorishniy et al. 2021, supplement B.9."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from tabapp.models.contract import Cost, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.embeddings import FlatInput
from tabapp.nn.layers.linear import Linear
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training.members import FREE
from tabapp.nn.training.params import TrainingParams

from ._shared.search import zero_or

MANY_CROSS_LAYERS = 4


class DCNV2Params(TrainingParams, frozen=True, kw_only=True):
    """Attributes:
    variant: "parallel" concatenates crosses and hidden layers, "stacked" feeds the crosses to the hidden layers.
    n_cross_layers, n_hidden_layers: number of layers of each type.
    width: size of both types of layers.
    hidden_dropout, cross_dropout: dropout rate at the end of each layer.
    rank: rank of the weight matrix of a cross layer, W = U Vᵀ (Wang et al. 2021, section 3.4); 0 means a full matrix.
    """

    variant: Literal["parallel", "stacked"] = "parallel"
    n_cross_layers: int = 3
    n_hidden_layers: int = 2
    width: int = 256
    hidden_dropout: float = 0.1
    cross_dropout: float = 0.1
    rank: int = 0
    learning_rate: float = 1e-3
    average_decay: float = 0.99
    weight_decay: float = 2e-4
    max_gradient_norm: float = 1.0


class CrossLayer(nn.Module):
    """Dropout(x₀ ⊙ (U (Vᵀ x) + b)) + x, or with one matrix instead of U Vᵀ. Shape: (rows, width) twice to (rows, width)."""

    def __init__(self, width: int, dropout: float, rank: int = 0) -> None:
        super().__init__()
        self.reduction = Linear(width, rank, bias=False) if rank else None
        self.linear = Linear(rank or width, width)
        self.dropout = Dropout(dropout)

    def forward(self, first: Tensor, x: Tensor) -> Tensor:
        reduced = x if self.reduction is None else self.reduction(x)
        return self.dropout(first * self.linear(reduced)) + x


class DCNV2Network(nn.Module):
    """Cross layers and hidden layers over a projection of the input.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: DCNV2Params) -> None:
        super().__init__()
        width = params.width
        self.is_parallel = params.variant == "parallel"
        self.input = FlatInput(sizes.n_numeric, sizes.cardinalities)
        self.projection = Linear(self.input.d_out, width)
        self.crosses = nn.ModuleList(
            [CrossLayer(width, params.cross_dropout, params.rank) for _ in range(params.n_cross_layers)]
        )
        if params.n_cross_layers > MANY_CROSS_LAYERS:
            # L layers are a polynomial of degree L + 1, which diverges with torch's default initialization.
            for cross in self.crosses:
                assert isinstance(cross, CrossLayer)
                nn.init.normal_(cross.linear.weight, std=1e-2 * width**-0.5)
        self.hidden = nn.Sequential(
            *[
                nn.Sequential(Linear(width, width), nn.ReLU(), Dropout(params.hidden_dropout))
                for _ in range(params.n_hidden_layers)
            ]
        )
        self.head = Linear(2 * width if self.is_parallel else width, sizes.d_out)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        first = x = self.projection(self.input(numeric, categorical))
        for cross in self.crosses:
            x = cross(first, x)
        if self.is_parallel:
            return self.head(torch.cat([x, self.hidden(first)], dim=1))
        return self.head(self.hidden(x))


class DCNV2(DeepPlugin):
    """NOTE[DIFF]: the gradient norm is clipped at 1, because the crosses are polynomials of high degree."""

    name = "dcn_v2"
    title = "DCN V2"
    paper = "Wang et al. 2021, DCN V2: Improved Deep & Cross Network"
    params_type = DCNV2Params
    stacks = True
    free_params = FREE | {"hidden_dropout", "cross_dropout"}
    low_precision = True
    repeats_steps = True

    def build(self, sizes: Sizes, params: DCNV2Params) -> DCNV2Network:
        return DCNV2Network(sizes, params)

    def defaults(self, task: Task, shape: Shape, device: str) -> DCNV2Params:
        """The numbers of layers are TALENT's, since the paper has no default.

        NOTE[DIFF]: on a CPU, half the paper's width of 512.
        """
        return DCNV2Params(width=256 if device == "cpu" else 512)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> DCNV2Params:
        """Gorishniy et al. 2021, Table 13; the number of rows selects its column (A) or (B).

        NOTE[DIFF]: the space contains both variants, and full cross layers only, as in that table. The learning rate starts at
        1e-4 instead of 1e-5, at which a network hardly learns within a budget. The size of category embeddings follows a rule
        (`embedding_width`).
        """
        many_rows = shape.n_rows > 100_000
        return DCNV2Params(
            variant=trial.suggest_categorical("variant", ["parallel", "stacked"]),
            n_cross_layers=trial.suggest_int("n_cross_layers", 1, 16 if many_rows else 8),
            n_hidden_layers=trial.suggest_int("n_hidden_layers", 1, 16 if many_rows else 8),
            width=trial.suggest_int("width", 64, 1024 if many_rows else 512),
            hidden_dropout=trial.suggest_float("hidden_dropout", 0.0, 0.5),
            cross_dropout=zero_or(trial, "cross_dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, DCNV2Params)
        n_layers = params.n_cross_layers + params.n_hidden_layers
        n_weights = 4 * shape.n_features * params.width + n_layers * params.width**2
        if params.rank:
            n_weights -= params.n_cross_layers * params.width * (params.width - 2 * params.rank)
        n_values = 3 * params.n_cross_layers + 2 * params.n_hidden_layers + 3
        values = n_values * params.width + 3.3 * shape.n_features
        n_bytes = network_bytes(
            shape, n_weights, device, values=values, peak=0.3 * values, batch_size=params.batch_size
        )
        return training_cost(shape, 8 * n_weights * shape.n_rows, n_weights, device, n_epochs=40, n_bytes=n_bytes)
