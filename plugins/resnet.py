"""ResNet: Gorishniy et al. 2021, section 3.2 and supplement B.4."""

from __future__ import annotations

from torch import Tensor, nn

from tabapp.models.contract import Cost, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.batch_norm import BatchNorm
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.embeddings import FlatInput
from tabapp.nn.layers.linear import Linear
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training.params import SharingParams

from ._shared.search import share_of_others, zero_or


class ResNetParams(SharingParams, frozen=True, kw_only=True):
    """Named as in Table 9.

    Attributes:
        n_layers: number of residual blocks.
        width: size of the main path.
        hidden_factor: hidden size of a block divided by the size of the main path.
        hidden_dropout: dropout rate inside a block.
        residual_dropout: dropout rate at the end of a block.
    """

    n_layers: int = 2
    width: int = 192
    hidden_factor: float = 2.0
    hidden_dropout: float = 0.3
    residual_dropout: float = 0.0
    learning_rate: float = 1e-3
    average_decay: float = 0.99
    weight_decay: float = 1e-5


class ResNetBlock(nn.Module):
    """x + Dropout(Linear(Dropout(ReLU(Linear(BatchNorm(x)))))). Shape: (rows, width) to the same shape."""

    def __init__(self, params: ResNetParams) -> None:
        super().__init__()
        hidden = int(params.width * params.hidden_factor)
        self.normalization = BatchNorm(params.width)
        self.first = Linear(params.width, hidden)
        self.hidden_dropout = Dropout(params.hidden_dropout)
        self.second = Linear(hidden, params.width)
        self.residual_dropout = Dropout(params.residual_dropout)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden_dropout(self.first(self.normalization(x)).relu())
        return x + self.residual_dropout(self.second(hidden))


class ResNetNetwork(nn.Module):
    """Linear, residual blocks, and Linear(ReLU(BatchNorm(x))).

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: ResNetParams) -> None:
        super().__init__()
        self.input = FlatInput(sizes.n_numeric, sizes.cardinalities)
        self.projection = Linear(self.input.d_out, params.width)
        self.blocks = nn.Sequential(*[ResNetBlock(params) for _ in range(params.n_layers)])
        self.normalization = BatchNorm(params.width)
        self.head = Linear(params.width, sizes.d_out)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        x = self.blocks(self.projection(self.input(numeric, categorical)))
        return self.head(self.normalization(x).relu())


class ResNet(DeepPlugin):
    name = "resnet"
    title = "ResNet"
    paper = "Gorishniy et al. 2021, Revisiting Deep Learning Models for Tabular Data, section 3.2"
    starts_first = True
    uses_other_targets = True
    params_type = ResNetParams
    low_precision = True
    repeats_steps = True

    def build(self, sizes: Sizes, params: ResNetParams) -> ResNetNetwork:
        return ResNetNetwork(sizes, params)

    def defaults(self, task: Task, shape: Shape, device: str) -> ResNetParams:
        return ResNetParams()

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> ResNetParams:
        """Gorishniy et al. 2021, Table 9; the number of rows selects its column (A) or (B).

        NOTE[DIFF]: the learning rate starts at 1e-4 instead of 1e-5, at which a network hardly learns within a budget. The
        size of category embeddings follows a rule (`embedding_width`).
        """
        many_rows = shape.n_rows > 100_000
        return ResNetParams(
            n_layers=trial.suggest_int("n_layers", 1, 16 if many_rows else 8),
            width=trial.suggest_int("width", 64, 1024 if many_rows else 512),
            hidden_factor=trial.suggest_float("hidden_factor", 1.0, 4.0),
            hidden_dropout=trial.suggest_float("hidden_dropout", 0.0, 0.5),
            residual_dropout=zero_or(trial, "residual_dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
            others_share=share_of_others(trial, shape),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, ResNetParams)
        block = 2 * params.width * int(params.width * params.hidden_factor)
        n_weights = 4 * shape.n_features * params.width + params.n_layers * block
        values = 2.8 * params.n_layers * params.width * (1 + params.hidden_factor) + 3.3 * shape.n_features
        n_bytes = network_bytes(
            shape, n_weights, device, values=values, peak=0.35 * values, batch_size=params.batch_size
        )
        return training_cost(shape, 6 * n_weights * shape.n_rows, n_weights, device, n_epochs=100, n_bytes=n_bytes)
