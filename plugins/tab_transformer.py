"""TabTransformer (Huang et al. 2020): attention among categorical columns; numeric columns are concatenated with its
output.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import torch
from torch import Tensor, nn

from tabapp.models.contract import Cost, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.attention import LayerAttention, SelfAttention
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.linear import Linear
from tabapp.nn.layers.tokenizers import NumericTokenizer, uniform_rows
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.pretraining import Pretext, Pretrained
from tabapp.nn.training.params import TrainingParams

from ._shared.search import zero_or

FEW_NUMERIC = 4
LEAST_MERIT = 0.05
"""On a table without categorical columns, where it is a plain network."""
WIDEST_HIDDEN = 1024


class TabTransformerParams(TrainingParams, frozen=True, kw_only=True):
    """Attributes:
    n_layers: number of Transformer layers.
    d_token: token size, a multiple of n_heads and of 8.
    n_heads: attention heads.
    column_embedding: where the column identifier is: the last eighth of each token ("concatenated"), or a vector added to
        the token ("added").
    attention_dropout: dropout rate of attention probabilities.
    ffn_dropout: dropout rate at the end of both branches of a layer.
    first_factor, second_factor: sizes of the two hidden layers after the Transformer, divided by the size of their input.
    numeric_tokens: numeric columns are tokens of the Transformer as well, as in FT-Transformer, instead of joining its output. The
        paper has none.
    """

    n_layers: int = 6
    d_token: int = 32
    n_heads: int = 8
    column_embedding: Literal["concatenated", "added"] = "concatenated"
    attention_dropout: float = 0.1
    ffn_dropout: float = 0.1
    first_factor: int = 4
    second_factor: int = 2
    numeric_tokens: bool = False
    learning_rate: float = 1e-4
    weight_decay: float = 2e-4


class ColumnTokenizer(nn.Module):
    """A token per categorical column: an embedding of its level and one of the column.

    NOTE[DIFF]: a missing cell is a level with an embedding of its own. In the paper, it has one too, but in the experiments on
    missing cells, it is the mean of the embeddings of the column's levels.

    Shape: (rows, n_categorical) codes to (rows, n_categorical, d_token).
    """

    def __init__(self, cardinalities: tuple[int, ...], d_token: int, *, concatenated: bool) -> None:
        super().__init__()
        d_column = d_token // 8 if concatenated else d_token
        self.concatenated = concatenated
        self.level = uniform_rows(sum(cardinalities), d_token - d_column if concatenated else d_token)
        self.column = uniform_rows(len(cardinalities), d_column)
        offsets = torch.tensor((0, *cardinalities[:-1]), dtype=torch.int64).cumsum(0)
        self.register_buffer("offsets", offsets, persistent=False)
        self.offsets: Tensor

    def forward(self, codes: Tensor) -> Tensor:
        levels = nn.functional.embedding(codes + self.offsets, self.level)
        if self.concatenated:
            return torch.cat([levels, self.column.expand(codes.shape[0], -1, -1)], dim=2)
        return levels + self.column


class Layer(nn.Module):
    """A PostNorm Transformer layer with a feed-forward branch of 4 · d_token. Shape: (rows, n_tokens, d_token), unchanged."""

    def __init__(self, params: TabTransformerParams) -> None:
        super().__init__()
        d = params.d_token
        self.attention = SelfAttention(d, params.n_heads, params.attention_dropout)
        self.attention_normalization = nn.LayerNorm(d)
        self.ffn = nn.Sequential(Linear(d, 4 * d), nn.GELU(), Linear(4 * d, d))
        self.ffn_normalization = nn.LayerNorm(d)
        self.dropout = Dropout(params.ffn_dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = self.attention_normalization(tokens + self.dropout(self.attention(tokens)))
        return self.ffn_normalization(tokens + self.dropout(self.ffn(tokens)))


class TabTransformerNetwork(nn.Module):
    """MLP([Transformer(tokens of the categorical columns), LayerNorm(numeric columns)]), or MLP(Transformer(all tokens)).

    NOTE[DIFF]: up to four numeric columns skip LayerNorm, because a LayerNorm over one column is constant and over two
    columns preserves only their order. Hidden layers have at most 1,024 units. If all categorical columns are constant in a
    fold, there are no tokens and only the MLP is trained.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: TabTransformerParams) -> None:
        super().__init__()
        n_numeric = sizes.n_numeric
        concatenated = params.column_embedding == "concatenated"
        self.n_encoded_numeric, self.d_encoded = 0, params.d_token
        self.tokenizer = None
        if sizes.cardinalities:
            self.tokenizer = ColumnTokenizer(sizes.cardinalities, params.d_token, concatenated=concatenated)
        self.numeric_tokenizer = None
        if params.numeric_tokens and n_numeric:
            self.numeric_tokenizer = NumericTokenizer(n_numeric, params.d_token)
        n_tokens, n_joining = _tokens_and_joining(n_numeric, len(sizes.cardinalities), params)
        self.layers = nn.Sequential(*[Layer(params) for _ in range(params.n_layers if n_tokens else 0)])
        self.numeric_normalization = nn.LayerNorm(n_joining) if n_joining > FEW_NUMERIC else nn.Identity()
        d_in = n_tokens * params.d_token + n_joining
        first, second = (min(WIDEST_HIDDEN, d_in * factor) for factor in (params.first_factor, params.second_factor))
        self.head = nn.Sequential(
            Linear(d_in, first), nn.ReLU(), Linear(first, second), nn.ReLU(), Linear(second, sizes.d_out)
        )

    def tokens(self, numeric: Tensor, categorical: Tensor) -> Tensor | None:
        """(rows, n_tokens, d_token): the columns before attention, numeric ones first; None if no column is a token."""
        parts = [] if self.numeric_tokenizer is None else [self.numeric_tokenizer(numeric)]
        parts += [] if self.tokenizer is None else [self.tokenizer(categorical)]
        return torch.cat(parts, dim=1) if parts else None

    def encoded_columns(self, numeric: Tensor, categorical: Tensor, masked: Tensor, mask: Tensor) -> Tensor:
        """(rows, n_categorical, d_token): the categorical columns after attention; see `tabapp.nn.pretraining.Encoder`."""
        tokens = self.tokens(numeric, categorical)
        assert tokens is not None
        return self.layers(tokens)[:, -categorical.shape[1] :]

    def attention_maps(self, numeric: Tensor, categorical: Tensor) -> list[LayerAttention]:
        """Attention of each column that is a token to each other, by layer."""
        tokens = self.tokens(numeric, categorical)
        if tokens is None:
            return []
        n_features = numeric.shape[1] + categorical.shape[1]
        places = tuple(range(n_features - tokens.shape[1], n_features))
        found: list[LayerAttention] = []
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            found.append(LayerAttention(f"layer {i + 1}", places, places, layer.attention.probabilities(tokens)))
            tokens = layer(tokens)
        return found

    def feature_attention(self, numeric: Tensor, categorical: Tensor) -> dict[str, Tensor]:
        """The attention that each column receives that is a token, averaged over layers, heads and the columns that attend. Numeric
        columns are outside of the Transformer in the paper (section 2), so that they have none. It defines no importance.
        """
        maps = self.attention_maps(numeric, categorical)
        if not maps:
            return {}
        received = torch.stack([each.weights.mean((1, 2)) for each in maps]).mean(0)
        outside = numeric if self.numeric_tokenizer is None else numeric[:, :0]
        return {"attention": torch.cat([torch.full_like(outside, torch.nan), received], dim=1)}

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        tokens = self.tokens(numeric, categorical)
        joining = [] if self.numeric_tokenizer is not None else [self.numeric_normalization(numeric)]
        encoded = [] if tokens is None else [self.layers(tokens).flatten(1)]
        return self.head(torch.cat([*encoded, *joining], dim=1))


def _tokens_and_joining(n_numeric: int, n_categorical: int, params: TabTransformerParams) -> tuple[int, int]:
    """The numbers of columns that are tokens, and of those that join the output of the Transformer."""
    return (n_numeric + n_categorical, 0) if params.numeric_tokens else (n_categorical, n_numeric)


class TabTransformer(DeepPlugin):
    name = "tab_transformer"
    title = "TabTransformer"
    has_attention = True
    has_attention_maps = True
    paper = "Huang et al. 2020, TabTransformer: Tabular Data Modeling Using Contextual Embeddings"
    params_type = TabTransformerParams
    low_precision = True
    repeats_steps = True
    min_rows = 200
    max_rows = 2_000_000
    max_features = 300

    def skipped_by_default(self, task: Task, shape: Shape) -> str | None:
        if not shape.n_categorical:
            return "Without categorical columns, it is an MLP with layer normalization."
        return super().skipped_by_default(task, shape)

    def build(self, sizes: Sizes, params: TabTransformerParams) -> nn.Module:
        return TabTransformerNetwork(sizes, params)

    def defaults(self, task: Task, shape: Shape, device: str) -> TabTransformerParams:
        """The paper's sizes: 6 layers with 8 heads and a token size of 32.

        NOTE[DIFF]: on a CPU, two layers, a higher learning rate and weight averaging.
        """
        if device != "cpu":
            return TabTransformerParams()
        return TabTransformerParams(n_layers=2, learning_rate=1e-3, average_decay=0.99)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> TabTransformerParams:
        """Huang et al. 2020, appendix: layers {1, 2, 3, 6, 12}, heads {2, 4, 8}, tokens {32, 64, 128, 256}.

        NOTE[DIFF]: learning rates above 1e-2, which diverge, and below 1e-4, at which a network hardly learns within a
        budget, are excluded. On a CPU, there are at most 3 layers and the token size is at most 64.
        """
        on_cpu = device == "cpu"
        return TabTransformerParams(
            n_layers=trial.suggest_categorical("n_layers", [1, 2, 3] if on_cpu else [1, 2, 3, 6, 12]),
            d_token=trial.suggest_categorical("d_token", [32, 64] if on_cpu else [32, 64, 128, 256]),
            n_heads=trial.suggest_categorical("n_heads", [2, 4, 8]),
            column_embedding=trial.suggest_categorical("column_embedding", ["concatenated", "added"]),
            attention_dropout=trial.suggest_float("attention_dropout", 0.0, 0.5),
            ffn_dropout=trial.suggest_float("ffn_dropout", 0.0, 0.5),
            first_factor=trial.suggest_int("first_factor", 1, 8),
            second_factor=trial.suggest_int("second_factor", 1, 3),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
            average_decay=0.99 if on_cpu else 0.0,
        )

    def merit(self, task: Task, shape: Shape) -> float:
        """Compared with an MLP, it adds attention among categories, so its merit is their share of the features."""
        return max(LEAST_MERIT, shape.n_categorical / max(1, shape.n_features))

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, TabTransformerParams)
        d = params.d_token
        n_tokens, n_joining = _tokens_and_joining(shape.n_numeric, shape.n_categorical, params)
        d_in = n_tokens * d + n_joining
        first, second = (min(WIDEST_HIDDEN, d_in * factor) for factor in (params.first_factor, params.second_factor))
        head = d_in * first + first * second
        layers = params.n_layers * n_tokens * (12 * d * d + 2 * n_tokens * d + 300 * d)
        n_weights = head + params.n_layers * 12 * d * d
        values = 1024 + 45 * params.n_layers * n_tokens * d
        n_bytes = network_bytes(
            shape, n_weights, device, values=values, peak=0.25 * values, batch_size=params.batch_size
        )
        flops = 6 * shape.n_rows * (head + layers)
        return training_cost(shape, flops, n_weights, device, n_epochs=120, n_bytes=n_bytes)


class PretrainedTabTransformerParams(TabTransformerParams, frozen=True, kw_only=True):
    """Attributes:
    pretraining_steps: maximum number of steps of pre-training.
    pretext: what pre-training predicts: the content of "masked" cells (MLM), which cells are "replaced" (RTD), or "both" at once.
    """

    pretraining_steps: int = 5000
    pretext: Pretext = "both"


class PretrainedTabTransformer(Pretrained, TabTransformer):
    """Its trials differ only in the hidden layers and in fine-tuning, so that all of them share one pre-training.

    NOTE[DIFF]: the paper compares MLM with RTD, each with 30 % of the cells. By default, one pass has 15 % of each.
    """

    name = "tab_transformer_pretrained"
    title = "TabTransformer, pre-trained"
    params_type = PretrainedTabTransformerParams
    architecture = ("n_layers", "d_token", "n_heads", "column_embedding", "numeric_tokens", "pretext")
    task_parts = ("head.", "numeric_normalization.")

    def supports(self, task: Task, shape: Shape) -> str | None:
        if shape.n_features and not shape.n_categorical:
            return "It pre-trains the embeddings of categorical columns; the table has none."
        return super().supports(task, shape)

    def defaults(self, task: Task, shape: Shape, device: str) -> PretrainedTabTransformerParams:
        """Those of TabTransformer; on a CPU, 600 steps of pre-training."""
        params = msgspec.structs.asdict(super().defaults(task, shape, device))
        return PretrainedTabTransformerParams(**params, pretraining_steps=600 if device == "cpu" else 5000)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> PretrainedTabTransformerParams:
        """The hidden layers, dropout, learning rate and weight decay of TabTransformer."""
        return msgspec.structs.replace(
            self.defaults(task, shape, device),
            attention_dropout=trial.suggest_float("attention_dropout", 0.0, 0.5),
            ffn_dropout=trial.suggest_float("ffn_dropout", 0.0, 0.5),
            first_factor=trial.suggest_int("first_factor", 1, 8),
            second_factor=trial.suggest_int("second_factor", 1, 3),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            weight_decay=zero_or(trial, "weight_decay", 1e-6, 1e-3, log=True),
        )
