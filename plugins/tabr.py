"""TabR: a network that retrieves the training rows nearest to the row it predicts (Gorishniy et al. 2024, TabR: Tabular
Deep Learning Meets Nearest Neighbors), as in the authors' code.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.models.contract import Cost, FitContext, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.gather import starts_operations_slowly
from tabapp.nn.layers.linear import Linear
from tabapp.nn.layers.neighbors import nearest
from tabapp.nn.plugin import Sizes
from tabapp.nn.retrieval import (
    Candidates,
    RetrievalMethod,
    RetrievalNetwork,
    RetrievalParams,
    RetrievalPlugin,
)
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import TrainingParams, batch_size_for

from ._shared.search import zero_or

FLOAT32 = {"cpu": 4, "cuda": 2}
"""Ratio of float32 time to bfloat16 time, which costs are based on, by class of devices (GPU:
`benchmarks/results/devices_120s.json`)."""
N_EPOCHS = 30
"""Expected number of epochs of a fit, for its cost."""
MERIT = 4.0
"""That of RealMLP, which is cheaper on most tables and then starts first. With 16, it started after TabR on kin8nm and had no time
left for its other folds: in runs of two minutes, the RMSE was 0.084 instead of 0.062."""
NOT_FOUND = -1
"""In place of neighbors, before the first search."""
MOST_PREDICTED = 1024
NEIGHBOR_BYTES = {"cpu": 2**28, "cuda": 2**31}
"""Memory of the neighbors of rows that are predicted at once."""


class TabRParams(RetrievalParams, frozen=True, kw_only=True):
    """The defaults are those of TabR-S.

    Attributes:
        width: size of a row's representation ("d_main" in the authors' code); blocks use twice that size inside.
        n_neighbors: number of neighbors retrieved for each row ("context_size").
        context_dropout: dropout rate of the weights of the neighbors.
        dropout, residual_dropout: dropout rates after the first and the second layer of each block.
        n_encoder_blocks, n_predictor_blocks: number of blocks before and after retrieval.
        search_epochs: number of first epochs in which every step searches its neighbors; None means all epochs.
        search_period: number of epochs between later searches for all rows.
    """

    width: int = 265
    n_neighbors: int = 96
    context_dropout: float = 0.3892
    dropout: float = 0.3885
    residual_dropout: float = 0.0
    n_encoder_blocks: int = 0
    n_predictor_blocks: int = 1
    search_epochs: int | None = None
    search_period: int = 1000
    learning_rate: float = 3.12e-4
    weight_decay: float = 1.23e-6


class TabRBlock(nn.Module):
    """x + Dropout(Linear(Dropout(ReLU(Linear(Norm(x)))))), the first one without a norm."""

    def __init__(self, params: TabRParams, *, normalized: bool) -> None:
        super().__init__()
        width = params.width
        self.layers = nn.Sequential(
            nn.LayerNorm(width) if normalized else nn.Identity(),
            Linear(width, 2 * width),
            nn.ReLU(),
            Dropout(params.dropout),
            Linear(2 * width, width),
            Dropout(params.residual_dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


class LabelEncoder(nn.Module):
    """Σ_j w_j Y(y_j), with Y a linear layer of a number, or an embedding of a class.

    Shape: (rows, n) shares and (rows, n) targets to (rows, width).
    """

    def __init__(self, n_classes: int, width: int) -> None:
        super().__init__()
        self.is_number = n_classes == 1
        bound = 0.5**0.5 if self.is_number else 1.0
        self.weight = nn.Parameter(torch.empty(n_classes, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound)) if self.is_number else None

    def forward(self, share: Tensor, target: Tensor) -> Tensor:
        if self.bias is None:
            per_class = share.new_zeros(len(share), len(self.weight)).scatter_add(1, target.long(), share)
            return per_class @ self.weight
        return (share * target).sum(1, keepdim=True) * self.weight + share.sum(1, keepdim=True) * self.bias


class TabRNetwork(RetrievalNetwork):
    """A row's representation plus Σ_j w_j (Y(y_j) + T(k - k_j)) over the nearest candidates, w = softmax(-‖k - k_j‖²), then
    blocks and a head.

    T(d) = W₂ Dropout(ReLU(W₁ d + b)) is summed over the neighbors before W₂ is applied: the same function with half the
    products.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: TabRParams) -> None:
        super().__init__()
        d_in = self.make_inputs(sizes, params)
        width = params.width
        self.projection = Linear(d_in, width)
        self.encoder = nn.Sequential(*[TabRBlock(params, normalized=i > 0) for i in range(params.n_encoder_blocks)])
        self.key_norm = nn.LayerNorm(width) if params.n_encoder_blocks else nn.Identity()
        self.to_key = Linear(width, width)
        self.label = LabelEncoder(sizes.n_classes, width)
        self.difference_in = Linear(width, 2 * width)
        self.difference_dropout = Dropout(params.dropout)
        self.difference_out = Linear(2 * width, width, bias=False)
        self.context_dropout = Dropout(params.context_dropout)
        self.predictor = nn.Sequential(*[TabRBlock(params, normalized=True) for _ in range(params.n_predictor_blocks)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), Linear(width, sizes.d_out))
        self.candidates = Candidates(sizes.n_numeric, len(sizes.cardinalities))
        self.n_neighbors, self.d_out = params.n_neighbors, sizes.d_out
        self.has_linear_keys = not params.n_encoder_blocks and d_in <= width
        self.found: Tensor | None = None
        """(n_candidates, n_neighbors) int32: the neighbors of each training row at the last search; None before it."""

    def key_bytes(self) -> int:
        return 4 * (2 * self.d_embedded + 4 * self.to_key.in_features)

    def encode(self, numeric: Tensor, categorical: Tensor) -> tuple[Tensor, Tensor]:
        """Representations and keys, both (rows, width), in float32, because bfloat16 is too imprecise for distances."""
        with torch.autocast(numeric.device.type, enabled=False):
            x = self.encoder(self.projection(self.inputs(numeric, categorical)))
            return x, self.to_key(self.key_norm(x))

    def key(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        return self.encode(numeric, categorical)[1]

    def output(self, x: Tensor, difference: Tensor, target: Tensor) -> Tensor:
        """(rows, d_out) from the rows' representations, the (rows, n, width) differences between their keys and those of their
        neighbors, and the (rows, n) targets of the neighbors.
        """
        return self.mixed_output(x, self.shares(difference), self.difference_in(difference), target)

    def mixed_output(self, x: Tensor, share: Tensor, hidden: Tensor, target: Tensor) -> Tensor:
        """`output` from the (rows, n) shares of the neighbors and the (rows, n, 2 width) values W₁ d + b instead of differences."""
        share, hidden = self.context_dropout(share), self.difference_dropout(hidden.relu())
        mixed = self.difference_out(torch.bmm(share.unsqueeze(1).to(hidden.dtype), hidden).squeeze(1))
        return self.head(self.predictor(x + self.label(share, target) + mixed))

    @staticmethod
    def shares(difference: Tensor) -> Tensor:
        """(rows, n) softmax of the negative squared lengths of (rows, n, width) differences."""
        return torch.softmax(-difference.square().sum(2), dim=1)

    def training_output(self, rows: Tensor, numeric: Tensor, categorical: Tensor) -> Tensor:
        """Neighbors are searched without gradients and then encoded again with gradients. All candidates are encoded if
        that is fewer rows.
        """
        stored, found = self.candidates, self.found
        n = min(self.n_neighbors, len(stored) - 1)
        if found is None and self.has_linear_keys and starts_operations_slowly(rows.device):
            return self.output_of_linear_keys(rows, numeric, categorical, n)
        x, key = self.encode(numeric, categorical)
        few = len(stored) <= n * len(rows)
        if few or found is None:
            with torch.set_grad_enabled(few):
                keys = self.candidate_keys(in_chunks=not few and starts_operations_slowly(rows.device))
            context = nearest(key, keys, n, own=rows) if found is None else found[rows].long()
            if few:
                return self.output(x, key.unsqueeze(1) - F.embedding(context, keys), stored.target[context])
        else:
            context = found[rows].long()
        chosen = context.flatten()
        neighbors = self.key(stored.numeric[chosen], stored.categorical[chosen].long()).view(*context.shape, -1)
        return self.output(x, key.unsqueeze(1) - neighbors, stored.target[context])

    def candidate_keys(self, *, in_chunks: bool) -> Tensor:
        """The keys of all candidates in training mode."""
        stored = self.candidates
        return stored.encode(self) if in_chunks else self.key(stored.numeric, stored.categorical.long())

    def output_of_linear_keys(self, rows: Tensor, numeric: Tensor, categorical: Tensor, n: int) -> Tensor:
        """`training_output` without keys. The key of inputs z is A z + b, so the difference of two keys is A (z - z_j), its squared
        length (z - z_j)ᵀ AᵀA (z - z_j), and W₁ A is one matrix.
        """
        stored = self.candidates
        with torch.autocast(rows.device.type, enabled=False):
            z = self.inputs(numeric, categorical)
            factor = self.to_key.weight @ self.projection.weight
            metric = factor.t() @ factor
            with torch.no_grad():
                others = self.inputs(stored.numeric, stored.categorical.long())
                context = nearest(z, others, n, own=rows, metric=metric)
            chosen = context.flatten()
            neighbors = self.inputs(stored.numeric[chosen], stored.categorical[chosen].long()).view(*context.shape, -1)
            difference = z.unsqueeze(1) - neighbors
            share = torch.softmax(-(difference @ metric * difference).sum(2), dim=1)
            joined = self.difference_in.weight @ factor
            x = self.projection(z)
        hidden = F.linear(difference, joined, self.difference_in.bias)
        return self.mixed_output(x, share, hidden, stored.target[context])

    @torch.no_grad()
    def search(self) -> None:
        """Find the neighbors of all training rows with the current weights, without dropout, and keep them for the next steps."""
        stored, was_training = self.candidates, self.training
        own = torch.arange(len(stored), device=stored.target.device)
        self.eval()
        keys = stored.encode(self)
        self.train(was_training)
        self.found = nearest(keys, keys, min(self.n_neighbors, len(stored) - 1), own=own).int()

    def prediction_output(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        stored = self.candidates
        keys, n = stored.keys(self), min(self.n_neighbors, len(stored))
        parts: list[Tensor] = []
        # The differences to the neighbors, their squares, and twice as wide hidden values.
        n_bytes = 4 * 6 * n * keys.shape[1]
        n_rows = max(1, min(MOST_PREDICTED, NEIGHBOR_BYTES[keys.device.type] // n_bytes))
        for rows, codes in zip(numeric.split(n_rows), categorical.split(n_rows), strict=True):
            x, key = self.encode(rows, codes)
            context = nearest(key, keys, n)
            parts.append(self.output(x, key.unsqueeze(1) - keys[context], stored.target[context]))
        return torch.cat(parts)

    def neighbors(self, numeric: Tensor, categorical: Tensor, n: int) -> tuple[Tensor, Tensor]:
        keys = self.candidates.keys(self)
        key = self.key(numeric, categorical)
        context = nearest(key, keys, min(self.n_neighbors, len(keys)))
        share = self.shares(key.unsqueeze(1) - keys[context])
        share, order = share.topk(min(n, share.shape[1]), dim=1)
        return context.gather(1, order), share


class TabRMethod(RetrievalMethod):
    """Neighbors are searched in every step at first, and later once for several epochs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._epoch = -1
        self._found: Tensor | None = None

    def start(self, numeric: Tensor, categorical: Tensor, target: Tensor, weight: Tensor | None) -> None:
        super().start(numeric, categorical, target, weight)
        assert isinstance(self.params, TabRParams)
        assert isinstance(self.network, TabRNetwork)
        if self.params.search_epochs is not None:
            n_neighbors = min(self.network.n_neighbors, len(target) - 1)
            self._found = torch.full((len(target), n_neighbors), NOT_FOUND, dtype=torch.int32, device=target.device)

    def state(self) -> dict[str, Tensor]:
        return {} if self._found is None else {"neighbors": self._found}

    def resume(self) -> None:
        assert isinstance(self.network, TabRNetwork)
        if self._found is not None and int(self._found[0, 0]) != NOT_FOUND:
            self.network.found = self._found

    def schedule(self, optimizer: torch.optim.Optimizer, progress: float) -> None:
        assert isinstance(self.params, TabRParams)
        assert isinstance(self.network, TabRNetwork)
        begun, self._epoch = self._epoch, int(progress * self.params.max_epochs + 1e-6)
        if self._found is None or self.params.search_epochs is None or self._epoch == begun:
            return
        since = self._epoch - self.params.search_epochs
        if since >= 0 and since % self.params.search_period == 0:
            self.network.search()
            assert self.network.found is not None
            # The tensor of the checkpoint, which is filled in place.
            self.network.found = self._found.copy_(self.network.found)


class TabR(RetrievalPlugin):
    """NOTE[DIFF]: categories with many levels use an embedding instead of a one-hot vector. The search compares each row
    with all candidates, as the flat index of faiss does in the authors' code.
    """

    name = "tabr"
    title = "TabR"
    paper = "Gorishniy et al. 2024, TabR: Tabular Deep Learning Meets Nearest Neighbors"
    params_type = TabRParams
    low_precision = True
    min_rows = 200
    max_features = 2_000

    def build(self, sizes: Sizes, params: TabRParams) -> TabRNetwork:
        return TabRNetwork(sizes, params)

    def method(
        self, network: nn.Module, params: TrainingParams, objective: Objective, context: FitContext
    ) -> TabRMethod:
        assert isinstance(params, TabRParams)
        return TabRMethod(
            network,
            params,
            objective,
            undecayed=self.undecayed(network),
            low_precision=self.low_precision,
            # Otherwise, neighbors are searched in some epochs only.
            repeats_steps=params.search_epochs is None,
        )

    def undecayed(self, network: nn.Module) -> set[str]:
        """Biases, norms, embeddings and the label encoder (the authors' code)."""
        return {
            name
            for name, parameter in network.named_parameters()
            if parameter.ndim == 1 or name.startswith(("numeric.", "categorical.", "label."))
        }

    def defaults(self, task: Task, shape: Shape, device: str) -> TabRParams:
        """The authors' defaults on a GPU.

        NOTE[DIFF]: on a CPU, a third of the width and of the neighbors, half the dropout, and a higher learning rate with
        weight averaging. In 25 s, one thread reached an RMSE of 43,200 on California housing, against 44,600 with the
        authors' dropout and a learning rate of 1e-3. Neighbors are searched in every step of two epochs and then every
        third epoch: the RMSE on early-stopping rows was 0.414 after 18 s and 0.392 after 60 s, against 0.427 and 0.396 with
        a search in every step, and 0.410 and 0.397 without any search after two epochs.
        """
        if device != "cpu":
            return TabRParams()
        return TabRParams(
            width=96,
            n_neighbors=32,
            dropout=0.2,
            context_dropout=0.2,
            search_epochs=2,
            search_period=3,
            learning_rate=2e-3,
            average_decay=0.99,
        )

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> TabRParams:
        """Gorishniy et al. 2024, the space of TabR with and without PLR-lite embeddings.

        NOTE[DIFF]: on a CPU, 32 neighbors, widths from 64 to 160, and learning rates from 5e-4 to 5e-3 with weight averaging.
        """
        on_cpu = device == "cpu"
        embedded = trial.suggest_categorical("embedded", [False, True])
        n_frequencies = trial.suggest_int("n_frequencies", 16, 96) if embedded else 0
        return TabRParams(
            n_neighbors=32 if on_cpu else 96,
            average_decay=0.99 if on_cpu else 0.0,
            search_epochs=2 if on_cpu else None,
            search_period=3 if on_cpu else 1000,
            width=trial.suggest_int("width", 64, 160) if on_cpu else trial.suggest_int("width", 96, 384),
            context_dropout=trial.suggest_float("context_dropout", 0.0, 0.6),
            dropout=trial.suggest_float("dropout", 0.0, 0.6),
            n_encoder_blocks=trial.suggest_int("n_encoder_blocks", 0, 1) if embedded else 0,
            n_predictor_blocks=trial.suggest_int("n_predictor_blocks", 1, 2) if embedded else 1,
            n_frequencies=n_frequencies,
            frequency_scale=trial.suggest_float("frequency_scale", 0.01, 100.0, log=True) if embedded else 0.1,
            d_embedding=trial.suggest_int("d_embedding", 16, 64) if embedded else 24,
            learning_rate=trial.suggest_float("learning_rate", *((5e-4, 5e-3) if on_cpu else (3e-5, 1e-3)), log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-4, log=True),
        )

    def merit(self, task: Task, shape: Shape) -> float:
        """Retrieval outperforms boosted trees most on regression with numeric features."""
        return MERIT if task == "regression" and 2 * shape.n_numeric >= shape.n_features else 1.0

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, TabRParams)
        width, batch = params.width, min(params.batch_size or batch_size_for(shape.n_rows), shape.n_rows)
        d_in = shape.n_numeric * (params.d_embedding if params.n_frequencies else 1) + 6 * shape.n_categorical
        encoder = width * (d_in + width) + 4 * params.n_encoder_blocks * width**2
        looked_up = batch * min(params.n_neighbors, shape.n_rows)
        # The search and the values of the neighbors also pass through memory several times.
        search = batch * shape.n_rows * (2 * width + 100)
        n_live = N_EPOCHS if params.search_epochs is None else params.search_epochs
        searched = (n_live + (N_EPOCHS - n_live) / params.search_period) / N_EPOCHS
        per_step = 6 * looked_up * encoder + 12 * looked_up * width * (width + 20)
        per_step += searched * (2 * shape.n_rows * encoder + search)
        n_weights = encoder + 4 * width**2 * (1 + params.n_predictor_blocks)
        n_bytes = 12 * looked_up * width * 4 + 24 * shape.n_rows * width + 8 * batch * shape.n_rows
        # The neighbors of the rows that are predicted at once.
        n_bytes += min(MOST_PREDICTED, shape.n_rows // 5) * params.n_neighbors * width * 24
        n_bytes += network_bytes(shape, n_weights, device, values=0, peak=0)
        flops = FLOAT32[device.partition(":")[0]] * per_step * shape.n_rows / batch
        return training_cost(
            shape, flops, n_weights, device, n_epochs=N_EPOCHS, n_bytes=n_bytes, is_recorded=self.repeats_steps
        )
