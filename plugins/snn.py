"""SNN: self-normalizing networks (Klambauer et al. 2017), as in Gorishniy et al. 2021, supplement B.5."""

from __future__ import annotations

from torch import Tensor, nn

from tabapp.models.contract import Cost, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.dropout import AlphaDropout
from tabapp.nn.layers.embeddings import FlatInput
from tabapp.nn.layers.linear import Linear
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training.members import FREE
from tabapp.nn.training.params import TrainingParams

from ._shared.search import zero_or


class SNNParams(TrainingParams, frozen=True, kw_only=True):
    """Attributes:
    widths: size of each hidden layer.
    dropout: rate of AlphaDropout after each hidden layer.
    """

    widths: tuple[int, ...] = (256, 256, 256, 256)
    dropout: float = 0.0
    learning_rate: float = 1e-3
    average_decay: float = 0.99
    weight_decay: float = 2e-4


def unit_variance_linear(d_in: int, d_out: int) -> nn.Linear:
    """A linear layer with weights from N(0, 1 / d_in) and zero bias, which preserves the variance of its input."""
    layer = Linear(d_in, d_out)
    nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="linear")
    nn.init.zeros_(layer.bias)
    return layer


class SNNNetwork(nn.Module):
    """Linear(SNNBlock(...)), with SNNBlock(x) = AlphaDropout(SELU(Linear(x))).

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, widths: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        self.input = FlatInput(sizes.n_numeric, sizes.cardinalities)
        d_in = (self.input.d_out, *widths)
        blocks = [
            nn.Sequential(unit_variance_linear(a, b), nn.SELU(), AlphaDropout(dropout))
            for a, b in zip(d_in, widths, strict=False)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.head = unit_variance_linear(d_in[-1], sizes.d_out)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        return self.head(self.blocks(self.input(numeric, categorical)))


class SNN(DeepPlugin):
    name = "snn"
    title = "SNN"
    paper = "Klambauer et al. 2017, Self-Normalizing Neural Networks"
    params_type = SNNParams
    stacks = True
    free_params = FREE | {"dropout"}
    tolerates_tf32 = True
    repeats_steps = True

    def build(self, sizes: Sizes, params: SNNParams) -> SNNNetwork:
        return SNNNetwork(sizes, params.widths, params.dropout)

    def defaults(self, task: Task, shape: Shape, device: str) -> SNNParams:
        """The paper has no default. On California housing, four layers had a test RMSE of 0.490, two wide layers 0.504,
        and all variants with a dropout of 0.05 more than 0.54.
        """
        return SNNParams()

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> SNNParams:
        """Gorishniy et al. 2021, Table 10; the number of rows selects its column (A) or (B).

        NOTE[DIFF]: widths start at 32 instead of 1, and the learning rate at 1e-4 instead of 1e-5, at which a network
        hardly learns within a budget. The size of category embeddings follows a rule (`embedding_width`).
        """
        many_rows = shape.n_rows > 100_000
        widest = 1024 if many_rows else 512
        n_layers = trial.suggest_int("n_layers", 2, 32 if many_rows else 16)
        first = trial.suggest_int("first_width", 32, widest)
        middle = trial.suggest_int("middle_width", 32, widest) if n_layers > 2 else 0
        last = trial.suggest_int("last_width", 32, widest)
        return SNNParams(
            widths=(first, *[middle] * (n_layers - 2), last),
            dropout=zero_or(trial, "dropout", 0.0, 0.1),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-5, 1e-3, log=True),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, SNNParams)
        widths = (4 * shape.n_features, *params.widths)
        n_weights = sum(a * b for a, b in zip(widths, params.widths, strict=False))
        values = 2 * sum(params.widths) + 3.3 * shape.n_features
        n_bytes = network_bytes(
            shape, n_weights, device, values=values, peak=0.4 * values, batch_size=params.batch_size
        )
        return training_cost(shape, 12 * n_weights * shape.n_rows, n_weights, device, n_epochs=64, n_bytes=n_bytes)
