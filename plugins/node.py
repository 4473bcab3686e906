"""NODE: Popov et al. 2020, Neural Oblivious Decision Ensembles, as in Gorishniy et al. 2021, supplement B.6."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import Cost, Float32, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.attention import CLS, LayerAttention
from tabapp.nn.layers.embeddings import FlatInput, embedding_width
from tabapp.nn.layers.entmax import entmax15, entmoid15
from tabapp.nn.plugin import DeepModel, DeepPlugin, Sizes
from tabapp.nn.training.params import TrainingParams, batch_size_for
from tabapp.nn.training.trainer import inputs

INIT_ROWS = 2048
MAX_CLASSES = 20
VALUES_AT_ONCE = 2**24
N_EPOCHS = 40


class NODEParams(TrainingParams, frozen=True, kw_only=True):
    """Attributes:
    n_layers: number of tree layers; each reads the input and the outputs of all previous layers.
    n_trees: number of trees per layer.
    depth: number of splits on the path to a leaf; all nodes of a level share one split.
    extra_channels: additional values per leaf, which only later layers read.
    """

    n_layers: int = 1
    n_trees: int = 2048
    depth: int = 6
    extra_channels: int = 2
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    average_decay: float = 0.99


class ObliviousTrees(nn.Module):
    """Soft oblivious trees (section 3.1): at each depth one weighted feature is compared with one threshold.

    The path to leaf number i takes the right branch at depth d if bit d of i is 0.

    Shape: (rows, d_in) to (rows, n_trees, d_tree).
    """

    def __init__(self, d_in: int, n_trees: int, depth: int, d_tree: int) -> None:
        super().__init__()
        self.selection = nn.Parameter(torch.rand(n_trees, depth, d_in))
        self.threshold = nn.Parameter(torch.zeros(n_trees, depth))
        self.log_temperature = nn.Parameter(torch.zeros(n_trees, depth))
        self.response = nn.Parameter(torch.randn(n_trees, d_tree, 2**depth))
        self.depth = depth

    def weighted_features(self, x: Tensor) -> Tensor:
        """(n_trees, depth, rows): the weighted features."""
        weight = entmax15(self.selection)
        return (weight.flatten(0, 1) @ x.T).view(*weight.shape[:2], len(x))

    @torch.no_grad()
    def initialize(self, x: Tensor) -> None:
        """Set the thresholds to random quantiles of training rows, and the temperatures so that all these rows are in
        the linear region of entmoid (section 3.1, "Data-aware initialization").
        """
        values = self.weighted_features(x)
        ranked = values.sort(-1).values
        position = torch.rand_like(self.threshold).unsqueeze(-1) * (len(x) - 1)
        below = position.long()
        low, high = (ranked.gather(-1, i) for i in (below, (below + 1).clamp(max=len(x) - 1)))
        threshold = low + (high - low) * (position - below)
        self.threshold.copy_(threshold[..., 0])
        self.log_temperature.copy_(((values - threshold).abs().amax(-1) + 1e-6).log())

    def forward(self, x: Tensor) -> Tensor:
        table, upper = self.path_outputs(x, self.response.shape[1])
        return (table * upper).sum(2).permute(2, 0, 1)

    def mean(self, x: Tensor, n_values: int) -> Tensor:
        """(rows, n_values): mean over the trees of the first values of their leaves."""
        table, upper = self.path_outputs(x, n_values)
        return (table * upper).sum((0, 2)).T / len(table)

    def path_outputs(self, x: Tensor, n_values: int) -> tuple[Tensor, Tensor]:
        """(n_trees, n_values, upper paths, rows) outputs below each path through the upper half of the depth, and
        (n_trees, 1, upper paths, rows) weights of these paths.
        """
        # Scaling the few weights is cheaper than scaling the values of all rows.
        sharpness = (-self.log_temperature).exp()
        weight = entmax15(self.selection) * sharpness.unsqueeze(-1)
        offset = (self.threshold * sharpness).view(-1, 1)
        right = entmoid15(torch.addmm(-offset, weight.flatten(0, 1), x.T).view(*sharpness.shape, len(x)))
        # A leaf's weight is the product of the weights of both halves of its path, so leaf weights are not computed:
        # the lower half is summed first, and the upper half weights the sums.
        n_upper = (self.depth + 1) // 2
        upper, lower = _path_weights(right[:, :n_upper]), _path_weights(right[:, n_upper:])
        n_trees = len(self.response)
        response = self.response[:, :n_values].reshape(n_trees, n_values, lower.shape[1], upper.shape[1])
        table = response.transpose(2, 3).reshape(n_trees, -1, lower.shape[1]) @ lower
        return table.view(n_trees, n_values, *upper.shape[1:]), upper.unsqueeze(1)


def _path_weights(right: Tensor) -> Tensor:
    """(n_trees, depth, rows) probabilities of the right branch to (n_trees, 2^depth, rows) weights of the paths."""
    weights = right.new_ones(len(right), 1, right.shape[2])
    for d in range(right.shape[1]):
        taken = weights * right[:, d : d + 1]
        weights = torch.cat([taken, weights - taken], dim=1)
    return weights


class NODENetwork(nn.Module):
    """Layers of trees, densely connected; the output is the mean over all trees of all layers (section 3.2).

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: NODEParams) -> None:
        super().__init__()
        self.input = FlatInput(sizes.n_numeric, sizes.cardinalities)
        self.cardinalities = sizes.cardinalities
        self.d_out = sizes.d_out
        d_tree = sizes.d_out + params.extra_channels
        # Predictions have thousands of rows at once, each with a value per tree, channel and path through half of the
        # depth.
        self.rows_at_once = max(1, VALUES_AT_ONCE // (params.n_trees * d_tree * 2 ** ((params.depth + 1) // 2)))
        d_in = [self.input.d_out + i * params.n_trees * d_tree for i in range(params.n_layers)]
        self.layers = nn.ModuleList([ObliviousTrees(d, params.n_trees, params.depth, d_tree) for d in d_in])

    @torch.no_grad()
    def initialize(self, x: Tensor) -> None:
        """Fit every layer's splits to a flat input (rows, width)."""
        for layer in self.layers:
            assert isinstance(layer, ObliviousTrees)
            layer.initialize(x)
            x = torch.cat([x, layer(x).flatten(1)], dim=1)

    def mean(self, x: Tensor) -> Tensor:
        """(rows, d_out) from a flat input."""
        *hidden, last = self.layers
        outputs: list[Tensor] = []
        for layer in hidden:
            values = layer(x)
            outputs.append(values[:, :, : self.d_out].mean(1))
            x = torch.cat([x, values.flatten(1)], dim=1)
        assert isinstance(last, ObliviousTrees)
        # No layer reads the last one's extra channels.
        return torch.stack([*outputs, last.mean(x, self.d_out)]).mean(0)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        x = self.input(numeric, categorical)
        parts = [x] if self.training else x.split(self.rows_at_once)
        return torch.cat([self.mean(part) for part in parts])

    @torch.no_grad()
    def selected(self) -> Tensor:
        """(flat input,): share of each column of the flat input in the selector weights of all splits."""
        weight = torch.zeros(self.input.d_out, device=self.layers[0].get_parameter("selection").device)
        for layer in self.layers:
            weight += entmax15(layer.get_parameter("selection"))[..., : self.input.d_out].sum((0, 1))
        return weight / weight.sum()

    def attention_maps(self, numeric: Tensor, categorical: Tensor) -> list[LayerAttention]:
        """The share of each feature in the selector weights of all splits, the same for every row."""
        embedding_widths = [embedding_width(c) for c in self.cardinalities]
        parts = self.selected().split([1] * numeric.shape[1] + embedding_widths)
        share = torch.stack([part.sum() for part in parts]).expand(len(numeric), 1, 1, -1)
        return [LayerAttention("all splits", (CLS,), tuple(range(share.shape[3])), share, "selection")]


class NODEModel(DeepModel):
    def attention(self, table: Table) -> Float32:
        """Mean selector weight (entmax) of each feature over all splits. It is the same for every row, because NODE
        selects features independently of the row. Weights of earlier layers' outputs are dropped and the rest rescaled;
        the weight of an embedded category is the sum over its dimensions.
        """
        network = self.network
        assert isinstance(network, NODENetwork)
        sizes = self.saved.sizes
        widths = [1] * sizes.n_numeric + [embedding_width(c) for c in sizes.cardinalities]
        share = np.array([float(part.sum()) for part in network.selected().cpu().split(widths)], dtype=np.float32)
        return np.tile(share, (len(table), 1))


class NODE(DeepPlugin):
    """NOTE[DIFF]: optimizer and batches are those of the other networks (Gorishniy et al. 2021) instead of quasi-hyperbolic
    Adam. A moving average of the weights replaces the average of the last five checkpoints, whose distance would be another
    hyperparameter.
    """

    name = "node"
    title = "NODE"
    has_attention_maps = True
    paper = "Popov et al. 2020, Neural Oblivious Decision Ensembles for Deep Learning on Tabular Data"
    has_attention = True
    attention_kind = "selection"
    params_type = NODEParams
    model_type = NODEModel
    repeats_steps = True
    min_rows = 1000
    max_rows = 2_000_000
    max_features = 2_000

    def build(self, sizes: Sizes, params: NODEParams) -> NODENetwork:
        return NODENetwork(sizes, params)

    def initialize(self, network: nn.Module, train: Table) -> None:
        assert isinstance(network, NODENetwork)
        rows = torch.randperm(len(train))[:INIT_ROWS].numpy()
        with torch.no_grad():
            network.initialize(network.input(*inputs(train.take(rows), torch.device("cpu"))))

    def supports(self, task: Task, shape: Shape) -> str | None:
        if shape.n_classes > MAX_CLASSES:
            return f"It supports at most {MAX_CLASSES} classes; the target has {shape.n_classes:,}."
        return super().supports(task, shape)

    def defaults(self, task: Task, shape: Shape, device: str) -> NODEParams:
        """The paper's default on a GPU.

        NOTE[DIFF]: on a CPU, two layers of 64 trees and a higher learning rate. In 20 s, one thread reached an RMSE of
        49,000 on California housing, where one layer of 128 trees reached 49,400 and one of 256 trees 49,700.
        """
        if device != "cpu":
            return NODEParams(extra_channels=0 if task == "multiclass" else 2)
        return NODEParams(n_layers=2, n_trees=64, extra_channels=1, learning_rate=3e-2)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> NODEParams:
        """The paper's grid (2 to 8 layers, 1,024 or 2,048 trees in total, depth 6 or 8, 2 or 3 values per leaf), and one layer.

        NOTE[DIFF]: the space includes the learning rate, which can be higher with weight averaging. On a CPU it has 128 or
        256 trees in total and depth 4 or 6.
        """
        on_cpu = device == "cpu"
        n_layers = trial.suggest_categorical("n_layers", [1, 2, 4] if on_cpu else [1, 2, 4, 8])
        total = trial.suggest_categorical("n_trees_of_all_layers", [128, 256] if on_cpu else [1024, 2048])
        return NODEParams(
            n_layers=n_layers,
            n_trees=total // n_layers,
            depth=trial.suggest_categorical("depth", [4, 6] if on_cpu else [6, 8]),
            extra_channels=trial.suggest_categorical("extra_channels", [0, 1] if task == "multiclass" else [1, 2]),
            learning_rate=trial.suggest_float("learning_rate", 1e-3, 5e-2, log=True),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, NODEParams)
        d_out = max(1, shape.n_classes if task == "multiclass" else 1)
        d_tree = d_out + params.extra_channels
        n_paths = 2 ** ((params.depth + 1) // 2)
        n_trees, n_splits = params.n_trees, params.n_trees * params.depth
        d_in = [shape.n_numeric + 8 * shape.n_categorical + i * n_trees * d_tree for i in range(params.n_layers)]
        # Elementwise operations are counted as arithmetic that takes the same time; sorting the selectors, once a step.
        n_values = d_tree * (params.n_layers - 1) + d_out
        per_tree = params.n_layers * (900 * params.depth + 1000 * n_paths) + 1200 * n_paths * n_values
        per_row = 6 * sum(d_in) * n_splits + n_trees * per_tree
        batch = params.batch_size or batch_size_for(shape.n_rows)
        per_step = 10_000 * sum(d_in) * n_splits
        flops = shape.n_rows * (per_row + per_step / batch)
        n_weights = sum(d * n_splits + 2 * n_splits + n_trees * d_tree * 2**params.depth for d in d_in)
        n_kept = params.n_layers * n_trees * (8 * params.depth + 3 * n_paths * (d_tree + 2))
        n_bytes = network_bytes(shape, n_weights, device, values=n_kept, peak=0.4 * n_kept, batch_size=batch)
        return training_cost(shape, flops, n_weights, device, n_epochs=N_EPOCHS, n_bytes=n_bytes)
