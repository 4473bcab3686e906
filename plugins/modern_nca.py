"""ModernNCA: a soft nearest-neighbor vote in a learned space (Ye et al. 2024, Revisiting Nearest Neighbor for Tabular Data:
A Deep Tabular Baseline Two Decades Later), as in the authors' package TALENT.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabapp.models.contract import Cost, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.batch_norm import BatchNorm
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.gather import one_hot
from tabapp.nn.layers.linear import Linear
from tabapp.nn.layers.neighbors import queries_at_once, squared_distances
from tabapp.nn.plugin import Sizes
from tabapp.nn.retrieval import ENCODED_BYTES, Candidates, RetrievalNetwork, RetrievalParams, RetrievalPlugin
from tabapp.nn.training.params import batch_size_for

from ._shared.search import zero_or

LEAST_SQUARE = 1e-8
LEAST_PROBABILITY = 1e-7
EXCLUDED = 1e9
FLOAT32 = 4
"""Ratio of float32 time to bfloat16 time, which costs are based on."""


class ModernNCAParams(RetrievalParams, frozen=True, kw_only=True):
    """Attributes:
    width: dimension of the space of distances ("dim" in the authors' code).
    n_blocks: number of hidden layers before that space.
    block_width: size of each hidden layer.
    dropout: dropout rate in each hidden layer.
    temperature: divisor of the distances before the softmax.
    sample_rate: share of the other training rows that are candidates in each training step.
    """

    width: int = 128
    n_blocks: int = 0
    block_width: int = 512
    dropout: float = 0.1
    temperature: float = 1.0
    sample_rate: float = 0.5
    n_frequencies: int = 77
    frequency_scale: float = 0.0443
    d_embedding: int = 34
    learning_rate: float = 0.01
    weight_decay: float = 2e-4
    patience: int | None = 20


class ModernNCANetwork(RetrievalNetwork):
    """Σ_j softmax_j(-‖z - z_j‖ / T) y_j over the candidates: a mean of their targets, or the logarithm of their classes'
    shares. A candidate's row weight multiplies its share.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: ModernNCAParams) -> None:
        super().__init__()
        self.projection = Linear(self.make_inputs(sizes, params), params.width)
        blocks = [
            nn.Sequential(
                BatchNorm(params.width),
                Linear(params.width, params.block_width),
                nn.ReLU(),
                Dropout(params.dropout),
                Linear(params.block_width, params.width),
            )
            for _ in range(params.n_blocks)
        ]
        self.blocks = nn.Sequential(*blocks, BatchNorm(params.width)) if blocks else nn.Identity()
        self.candidates = Candidates(sizes.n_numeric, len(sizes.cardinalities))
        self.temperature = params.temperature
        self.sample_rate = params.sample_rate
        self.n_classes, self.d_out = sizes.n_classes, sizes.d_out
        self.widest = max(params.width, params.block_width if params.n_blocks else 0)

    def key_bytes(self) -> int:
        return 4 * (2 * self.d_embedded + 3 * self.widest)

    def key(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        return self.blocks(self.projection(self.inputs(numeric, categorical)))

    def similarities(self, queries: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
        """(n_queries, n_keys) logarithms of the candidates' shares, up to a constant.

        NOTE[DIFF]: 1e-8 is added before the square root, which is below the rounding error of the squares. Without it, the
        gradient for two equal rows would be noise in float32; TALENT computes in float64.
        """
        if self.training or queries.device.type != "cpu":
            squares = squared_distances(queries, keys)
        else:
            # The square root of a float32 rounding error is 1e-4 of the scale: between equal rows, other processors would
            # find other distances, and the bundle would predict its training rows differently there.
            squares = torch.cdist(queries.double(), keys.double()).square().float()
        distance = (squares + LEAST_SQUARE).sqrt()
        return weight.clamp_min(1e-30).log() - distance / self.temperature

    def vote(self, similarities: Tensor, target: Tensor) -> Tensor:
        """(rows, d_out) from (rows, n_keys) similarities and the (n_keys,) targets of the keys."""
        share = torch.softmax(similarities, dim=1)
        if self.n_classes == 1:
            return share @ target.unsqueeze(1)
        log_share = (share @ one_hot(target, self.n_classes) + LEAST_PROBABILITY).log()
        return log_share[:, 1:] - log_share[:, :1] if self.n_classes == 2 else log_share

    def training_output(self, rows: Tensor, numeric: Tensor, categorical: Tensor) -> Tensor:
        """The candidates are the rest of the batch and a random share of all other rows.

        NOTE[DIFF]: keys of the batch and of its candidates are computed in one pass, so that both get the same batch
        normalization.
        """
        stored, n_batch = self.candidates, len(rows)
        order = torch.rand(len(stored), device=rows.device).index_fill_(0, rows, 2.0)
        n_others = int(self.sample_rate * (len(stored) - n_batch))
        others = order.topk(n_others, largest=False, sorted=False).indices
        keys = self.key(
            torch.cat([numeric, stored.numeric[others]]), torch.cat([categorical, stored.categorical[others].long()])
        )
        everyone = torch.cat([rows, others])
        similarities = self.similarities(keys[:n_batch], keys, stored.weight[everyone])
        # Finite, so that a row without any candidate still has an output. In place: a mask would be as large as the distances.
        similarities.diagonal().sub_(EXCLUDED)
        return self.vote(similarities, stored.target[everyone])

    def prediction_output(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        stored = self.candidates
        keys = stored.keys(self)
        chunk = queries_at_once(keys)
        parts = [
            self.vote(self.similarities(self.key(x, codes), keys, stored.weight), stored.target)
            for x, codes in zip(numeric.split(chunk), categorical.split(chunk), strict=True)
        ]
        return torch.cat(parts)

    def neighbors(self, numeric: Tensor, categorical: Tensor, n: int) -> tuple[Tensor, Tensor]:
        stored = self.candidates
        similarities = self.similarities(self.key(numeric, categorical), stored.keys(self), stored.weight)
        share, index = torch.softmax(similarities, dim=1).topk(n, dim=1)
        return index, share


class ModernNCA(RetrievalPlugin):
    """NOTE[DIFF]: binary targets use one logit, and categories with many levels use an embedding instead of a one-hot
    vector. Numeric columns are mapped to a normal distribution by their quantiles, while TALENT standardizes them: distances
    are then not dominated by outliers, and the prepared features serve the other networks too.
    """

    name = "modern_nca"
    title = "ModernNCA"
    paper = "Ye et al. 2024, Revisiting Nearest Neighbor for Tabular Data: A Deep Tabular Baseline Two Decades Later"
    params_type = ModernNCAParams
    min_rows = 200
    max_features = 2_000

    def build(self, sizes: Sizes, params: ModernNCAParams) -> ModernNCANetwork:
        return ModernNCANetwork(sizes, params)

    def defaults(self, task: Task, shape: Shape, device: str) -> ModernNCAParams:
        """TALENT's defaults on a GPU, with its batches of 1,024 for tables that are large enough.

        NOTE[DIFF]: on a CPU, smaller embeddings, which dominate the cost. In 25 s, one thread reached an RMSE of 42,800 on
        California housing, against 44,500 with TALENT's sizes and batches of 256.
        """
        batch_size = 1024 if shape.n_rows >= 10_000 else 256 if shape.n_rows >= 3_000 else None
        if device == "cpu":
            return ModernNCAParams(batch_size=batch_size, n_frequencies=32, d_embedding=16)
        return ModernNCAParams(batch_size=batch_size)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> ModernNCAParams:
        """The search space of the TALENT benchmark.

        NOTE[DIFF]: on a CPU, the width is at most 256, with at most 32 frequencies and embeddings of at most 24. The
        learning rate starts at 1e-4 instead of 1e-5, at which a network hardly learns within a budget.
        """
        on_cpu, widest = device == "cpu", 256 if device == "cpu" else 1024
        return ModernNCAParams(
            batch_size=self.defaults(task, shape, device).batch_size,
            width=trial.suggest_int("width", 64, widest),
            n_blocks=trial.suggest_int("n_blocks", 0, 2),
            block_width=trial.suggest_int("block_width", 64, widest),
            dropout=trial.suggest_float("dropout", 0.0, 0.5),
            sample_rate=trial.suggest_float("sample_rate", 0.05, 0.6),
            n_frequencies=trial.suggest_int("n_frequencies", 16, 32 if on_cpu else 96),
            frequency_scale=trial.suggest_float("frequency_scale", 0.005, 10.0, log=True),
            d_embedding=trial.suggest_int("d_embedding", 16, 24 if on_cpu else 64),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
        )

    def merit(self, task: Task, shape: Shape) -> float:
        """Third to RealMLP and TabM among networks in TabArena's comparison of 2026."""
        return 2.0

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, ModernNCAParams)
        d_in = shape.n_numeric * max(params.d_embedding, 1) + 6 * shape.n_categorical
        n_weights = d_in * params.width + 2 * params.n_blocks * params.width * params.block_width
        batch = min(params.batch_size or batch_size_for(shape.n_rows), shape.n_rows)
        candidates = batch + params.sample_rate * max(shape.n_rows - batch, 0)
        # A sine or cosine counts as 60 products, and a pass over the distances as 30.
        per_candidate = 6 * n_weights + 12 * params.n_frequencies * shape.n_numeric * (params.d_embedding + 30)
        per_step = candidates * (per_candidate + batch * (6 * params.width + 360))
        flops = FLOAT32 * per_step * shape.n_rows / batch
        n_bytes = 26 * batch * candidates + 16 * candidates * shape.n_numeric * params.n_frequencies
        # The candidates that are encoded at once for predictions.
        key_bytes = 8 * (d_in + 2 * params.n_frequencies * shape.n_numeric)
        n_bytes += min(0.6 * shape.n_rows * key_bytes, ENCODED_BYTES[device.partition(":")[0]])
        n_bytes += network_bytes(shape, n_weights, device, values=0, peak=0)
        return training_cost(
            shape, flops, n_weights, device, n_epochs=18, n_bytes=int(n_bytes), is_recorded=self.repeats_steps
        )
