"""DCAP: Chen et al. 2021, Deep Cross Attentional Product Network for User Response Prediction."""

from __future__ import annotations

from math import ceil
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tabapp.models.contract import Cost, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.attention import ShortSoftmax
from tabapp.nn.layers.batch_norm import BatchNorm
from tabapp.nn.layers.dropout import Dropout, dropout
from tabapp.nn.layers.linear import Linear
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training.params import TrainingParams

from ._shared.search import zero_or


class DCAPParams(TrainingParams, frozen=True, kw_only=True):
    """Attributes:
    n_layers: number of attentional product layers.
    d_embedding: size of a feature's embedding, a multiple of the number of heads.
    n_heads: attention heads.
    kernel: learned weight of each pairwise product: a "vector", a "scalar" or a "matrix" per pair.
    pooling: how pairwise products become features of the next layer: means over "blocks" of the list of pairs, or over all
        pairs that contain a feature ("partner").
    widths: sizes of the hidden layers after embeddings and products.
    attention_dropout: dropout rate of attention probabilities.
    dropout: dropout rate after each hidden layer.
    """

    n_layers: int = 2
    d_embedding: int = 16
    n_heads: int = 2
    kernel: Literal["vector", "scalar", "matrix"] = "vector"
    pooling: Literal["blocks", "partner"] = "blocks"
    widths: tuple[int, ...] = (400, 400)
    attention_dropout: float = 0.2
    dropout: float = 0.1
    learning_rate: float = 1e-3
    average_decay: float = 0.99
    weight_decay: float = 1e-6


VALUES_AT_ONCE = 2**24


def xavier(*shape: int) -> nn.Parameter:
    """A parameter drawn from U(-a, a), a = √(6 / (fan in + fan out))."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(*shape)))


class Embeddings(nn.Module):
    """x_j · W_j and E_j[x_j], without biases, with each column's table of levels initialized separately.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, n_numeric + n_categorical, d_embedding).
    """

    def __init__(self, n_numeric: int, cardinalities: tuple[int, ...], d_embedding: int) -> None:
        super().__init__()
        self.numeric = xavier(n_numeric, d_embedding) if n_numeric else None
        tables = [nn.init.xavier_uniform_(torch.empty(c, d_embedding)) for c in cardinalities]
        self.categorical = nn.Parameter(torch.cat(tables)) if tables else None
        offsets = torch.tensor((0, *cardinalities[:-1]), dtype=torch.int64).cumsum(0)
        self.register_buffer("offsets", offsets, persistent=False)
        self.offsets: Tensor

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        embedded: list[Tensor] = []
        if self.numeric is not None:
            embedded.append(numeric.unsqueeze(-1) * self.numeric)
        if self.categorical is not None:
            embedded.append(nn.functional.embedding(categorical + self.offsets, self.categorical))
        return torch.cat(embedded, dim=1)


class CrossAttention(nn.Module):
    """Multi-head attention in which feature i attends to feature i and later features. The values are not projected.

    Shape: (rows, n_features, d_embedding) to the same shape.
    """

    def __init__(self, n_features: int, params: DCAPParams) -> None:
        super().__init__()
        d = params.d_embedding
        self.query_key = Linear(d, 2 * d, bias=False)
        self.output = Linear(d, d)
        self.n_heads = params.n_heads
        self.dropout = params.attention_dropout
        hidden = torch.ones(n_features, n_features, dtype=torch.bool).tril(-1)
        self.register_buffer("hidden", hidden, persistent=False)
        self.hidden: Tensor

    def forward(self, x: Tensor) -> Tensor:
        projected = torch.cat([self.query_key(x), x.to(self.query_key.weight.dtype)], dim=-1)
        heads = projected.unflatten(2, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind(0)
        scores = query @ (key * key.shape[3] ** -0.5).transpose(2, 3)
        probabilities: Any = ShortSoftmax.apply(scores.masked_fill(self.hidden, float("-inf")))
        if self.training and self.dropout:
            probabilities = dropout(probabilities, self.dropout)
        return self.output((probabilities.to(value.dtype) @ value).transpose(1, 2).flatten(2))


def pooling_weights(n_features: int, pooling: str) -> Tensor:
    """(n_features, pairs): weights by which each feature of the next layer averages this layer's pairs i < j."""
    first, second = torch.triu_indices(n_features, n_features, offset=1)
    n_pairs = len(first)
    weights = torch.zeros(n_features, n_pairs)
    for i in range(n_features):
        if pooling == "blocks":
            weights[i, i * n_pairs // n_features : ceil((i + 1) * n_pairs / n_features)] = 1
        else:
            weights[i, (first == i) | (second == i)] = 1
    return weights / weights.sum(1, keepdim=True)


class ProductLayer(nn.Module):
    """Products of every attended feature with every later feature's first embedding, weighted by the pair's kernel.

    Shape: (rows, n_features, d_embedding) features and first embeddings to (rows, pairs) sums of the products, and to
    the next layer's (rows, n_features, d_embedding) features, if requested.
    """

    def __init__(self, n_features: int, params: DCAPParams) -> None:
        super().__init__()
        d, n_pairs = params.d_embedding, n_features * (n_features - 1) // 2
        self.attention = CrossAttention(n_features, params)
        kernels = {"vector": (n_pairs, d), "scalar": (n_pairs, 1), "matrix": (n_pairs, d, d)}
        self.kernel = xavier(*kernels[params.kernel])
        self.register_buffer("pairs", torch.triu_indices(n_features, n_features, offset=1), persistent=False)
        self.register_buffer("pooling", pooling_weights(n_features, params.pooling), persistent=False)
        self.pairs: Tensor
        self.pooling: Tensor

    def forward(self, x: Tensor, embedded: Tensor, *, last: bool) -> tuple[Tensor, Tensor | None]:
        left = self.attention(x)[:, self.pairs[0]]
        right = embedded[:, self.pairs[1]]
        is_matrix = self.kernel.ndim == 3
        weighted = torch.einsum("pde,bpe->bpd", self.kernel, left) if is_matrix else self.kernel * left
        products = weighted * right
        return products.sum(-1), None if last else self.pooling @ products


class DCAPNetwork(nn.Module):
    """Product layers over embeddings; hidden layers over the embeddings and the products of all layers.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: DCAPParams) -> None:
        super().__init__()
        n = sizes.n_numeric + len(sizes.cardinalities)
        self.embeddings = Embeddings(sizes.n_numeric, sizes.cardinalities, params.d_embedding)
        self.layers = nn.ModuleList([ProductLayer(n, params) for _ in range(params.n_layers)])
        # Predictions have thousands of rows at once, each with a vector per pair.
        self.rows_at_once = max(1, VALUES_AT_ONCE // (n * n * params.d_embedding))
        d_in = (n * params.d_embedding + params.n_layers * n * (n - 1) // 2, *params.widths)
        blocks = [
            nn.Sequential(Linear(a, b), BatchNorm(b), nn.ReLU(), Dropout(params.dropout))
            for a, b in zip(d_in, params.widths, strict=False)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.head = Linear(d_in[-1], sizes.d_out)

    def products(self, embedded: Tensor) -> list[Tensor]:
        """Pairwise products, (rows, pairs) for each layer, from (rows, n_features, d_embedding) embeddings."""
        x: Tensor | None = embedded
        sums: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            total, x = layer(x, embedded, last=i + 1 == len(self.layers))
            sums.append(total)
        return sums

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        embedded = self.embeddings(numeric, categorical)
        parts = [embedded] if self.training else embedded.split(self.rows_at_once)
        return torch.cat([self.read(part) for part in parts])

    def read(self, embedded: Tensor) -> Tensor:
        """(rows, d_out) from (rows, n_features, d_embedding) embeddings."""
        return self.head(self.blocks(torch.cat([embedded.flatten(1), *self.products(embedded)], dim=1)))


class DCAP(DeepPlugin):
    """NOTE[DIFF]: the authors' code supports categories only; here a number is embedded as its value times a vector, as in
    AutoInt. The default kernel is a vector per pair, because matrices for 128 features would need 2 million values at an
    embedding size of 16.
    """

    name = "dcap"
    title = "DCAP"
    paper = "Chen et al. 2021, DCAP: Deep Cross Attentional Product Network for User Response Prediction"
    params_type = DCAPParams
    low_precision = True
    repeats_steps = True
    min_rows = 500
    max_features = 128

    def build(self, sizes: Sizes, params: DCAPParams) -> DCAPNetwork:
        return DCAPNetwork(sizes, params)

    def supports(self, task: Task, shape: Shape) -> str | None:
        if shape.n_features == 1:
            return "It multiplies pairs of features; there is only one feature."
        return super().supports(task, shape)

    def defaults(self, task: Task, shape: Shape, device: str) -> DCAPParams:
        """Small embeddings, since the paper has no default.

        NOTE[DIFF]: on a GPU with up to 32 features, embedding size, heads and layers follow Cheng et al. 2024 (AMFormer,
        Table 7). On a CPU with more than 32 features, one layer of half the size is used.
        """
        if shape.n_features <= 32:
            return DCAPParams() if device == "cpu" else DCAPParams(n_layers=3, d_embedding=192, n_heads=8)
        return DCAPParams(n_layers=1, d_embedding=8) if device == "cpu" else DCAPParams(d_embedding=32)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> DCAPParams:
        """Ranges chosen for tabapp, because the paper tunes only on click logs."""
        return DCAPParams(
            n_layers=trial.suggest_int("n_layers", 1, 3),
            d_embedding=trial.suggest_categorical("d_embedding", [8, 16, 32] if device == "cpu" else [16, 32, 64, 128]),
            attention_dropout=trial.suggest_float("attention_dropout", 0.0, 0.5),
            dropout=zero_or(trial, "dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, DCAPParams)
        n, d, layers = shape.n_features, params.d_embedding, params.n_layers
        n_pairs = n * (n - 1) // 2
        widths = (n * d + layers * n_pairs, *params.widths)
        hidden = sum(a * b for a, b in zip(widths, params.widths, strict=False))
        kernel = {"vector": d, "scalar": 1, "matrix": d * d}[params.kernel] * n_pairs
        matrices = 6 * layers * n_pairs * d * d if params.kernel == "matrix" else 0
        # Elementwise operations are counted as arithmetic that takes the same time.
        per_row = 6 * hidden + matrices + layers * d * (2400 * n_pairs + 10_000 * n)
        n_weights = hidden + layers * (kernel + 3 * d * d)
        n_bytes = network_bytes(
            shape,
            n_weights,
            device,
            values=layers * d * (2.8 * n_pairs + 27 * n),
            peak=4.1 * n_pairs * d + n * d,
            batch_size=params.batch_size,
        )
        return training_cost(shape, per_row * shape.n_rows, n_weights, device, n_epochs=40, n_bytes=n_bytes)
