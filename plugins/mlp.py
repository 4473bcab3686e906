"""MLP: the plain network of Gorishniy et al. 2021, section 3.2 and supplement B.3."""

from __future__ import annotations

from torch import Tensor, nn

from tabapp.models.contract import Cost, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.embeddings import FlatInput
from tabapp.nn.layers.linear import Linear
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training.members import FREE
from tabapp.nn.training.params import SharingParams

from ._shared.search import share_of_others, zero_or


class MLPParams(SharingParams, frozen=True, kw_only=True):
    """Attributes:
    widths: size of each hidden layer.
    dropout: dropout rate after each hidden layer.
    """

    widths: tuple[int, ...] = (384, 384)
    dropout: float = 0.1
    learning_rate: float = 3e-3
    average_decay: float = 0.99
    weight_decay: float = 1e-5


class MLPNetwork(nn.Module):
    """Linear(MLPBlock(...)), with MLPBlock(x) = Dropout(ReLU(Linear(x))).

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, widths: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        self.input = FlatInput(sizes.n_numeric, sizes.cardinalities)
        d_in = (self.input.d_out, *widths)
        blocks = [nn.Sequential(Linear(a, b), nn.ReLU(), Dropout(dropout)) for a, b in zip(d_in, widths, strict=False)]
        self.blocks = nn.Sequential(*blocks)
        self.head = Linear(d_in[-1], sizes.d_out)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        return self.head(self.blocks(self.input(numeric, categorical)))


class MLP(DeepPlugin):
    name = "mlp"
    title = "MLP"
    paper = "Gorishniy et al. 2021, Revisiting Deep Learning Models for Tabular Data, section 3.2"
    starts_first = True
    warms_up = True
    reuses_steps = True
    uses_other_targets = True
    params_type = MLPParams
    stacks = True
    free_params = FREE | {"dropout"}
    low_precision = True
    repeats_steps = True

    def build(self, sizes: Sizes, params: MLPParams) -> MLPNetwork:
        return MLPNetwork(sizes, params.widths, params.dropout)

    def defaults(self, task: Task, shape: Shape, device: str) -> MLPParams:
        """Two layers as in TALENT's default, because the paper has none; learning rates chosen by scores on six public
        tables.
        """
        return MLPParams(learning_rate=1e-3 if shape.n_rows < 10_000 else 3e-3)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> MLPParams:
        """Gorishniy et al. 2021, Table 8; the number of rows selects its column (A) or (B).

        NOTE[DIFF]: widths start at 32 instead of 1, and the learning rate at 1e-4 instead of 1e-5, at which a network
        hardly learns within a budget. The size of category embeddings follows a rule (`embedding_width`).
        """
        many_rows = shape.n_rows > 100_000
        widest = 1024 if many_rows else 512
        n_layers = trial.suggest_int("n_layers", 1, 16 if many_rows else 8)
        first = trial.suggest_int("first_width", 32, widest)
        middle = trial.suggest_int("middle_width", 32, widest) if n_layers > 2 else 0
        last = trial.suggest_int("last_width", 32, widest) if n_layers > 1 else 0
        return MLPParams(
            widths=(first, *[middle] * (n_layers - 2), *[last] * (n_layers > 1)),
            dropout=zero_or(trial, "dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
            others_share=share_of_others(trial, shape),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, MLPParams)
        widths = (4 * shape.n_features, *params.widths)
        n_weights = sum(a * b for a, b in zip(widths, params.widths, strict=False))
        values = 2 * sum(params.widths) + 3.3 * shape.n_features
        n_bytes = network_bytes(
            shape, n_weights, device, values=values, peak=0.75 * values, batch_size=params.batch_size
        )
        return training_cost(shape, 6 * n_weights * shape.n_rows, n_weights, device, n_epochs=88, n_bytes=n_bytes)
