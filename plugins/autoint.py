"""AutoInt (Song et al. 2019) with normalization, as in Gorishniy et al. 2021, supplement B.10."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabapp.models.contract import Cost, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.attention import MANY_TOKENS, LayerAttention, attend, sized
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.linear import Linear
from tabapp.nn.layers.tokenizers import uniform_rows
from tabapp.nn.plugin import DeepPlugin, Sizes
from tabapp.nn.training.params import TrainingParams

from ._shared.search import zero_or

N_HEADS = 2


class AutoIntParams(TrainingParams, frozen=True, kw_only=True):
    """Attributes:
    n_layers: number of interacting layers.
    d_token: token size, a multiple of the 2 heads.
    attention_dropout: dropout rate of attention probabilities.
    residual_dropout: dropout rate of the attention's output.
    """

    n_layers: int = 3
    d_token: int = 64
    attention_dropout: float = 0.2
    residual_dropout: float = 0.0
    learning_rate: float = 1e-4
    weight_decay: float = 1e-5


class UnbiasedTokenizer(nn.Module):
    """x_j · W_j and E_j[x_j], without biases and without [CLS].

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, n_numeric + n_categorical, d_token).
    """

    def __init__(self, n_numeric: int, cardinalities: tuple[int, ...], d_token: int) -> None:
        super().__init__()
        self.numeric = uniform_rows(n_numeric, d_token) if n_numeric else None
        self.categorical = uniform_rows(sum(cardinalities), d_token) if cardinalities else None
        offsets = torch.tensor((0, *cardinalities[:-1]), dtype=torch.int64).cumsum(0)
        self.register_buffer("offsets", offsets, persistent=False)
        self.offsets: Tensor

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        tokens: list[Tensor] = []
        if self.numeric is not None:
            tokens.append(numeric.unsqueeze(-1) * self.numeric)
        if self.categorical is not None:
            tokens.append(nn.functional.embedding(categorical + self.offsets, self.categorical))
        return torch.cat(tokens, dim=1)


class InteractingLayer(nn.Module):
    """ReLU(LayerNorm(Linear(x) + Dropout(MHSA(x)))), where the attention has no output projection.

    Shape: (rows, n_tokens, d_token) to the same shape.
    """

    def __init__(self, params: AutoIntParams) -> None:
        super().__init__()
        d = params.d_token
        self.query_key_value = Linear(d, 3 * d)
        nn.init.zeros_(self.query_key_value.bias)
        self.residual = Linear(d, d, bias=False)
        self.residual_dropout = Dropout(params.residual_dropout)
        self.normalization = nn.LayerNorm(d)
        self.attention_dropout = params.attention_dropout

    def probabilities(self, tokens: Tensor) -> Tensor:
        """(rows, n_heads, n_tokens, n_tokens): attention probabilities, without dropout."""
        heads = self.query_key_value(tokens).unflatten(2, (3, N_HEADS, -1))
        query, key, _ = heads.permute(2, 0, 3, 1, 4).unbind(0)
        return torch.softmax(query @ key.transpose(2, 3) / key.shape[3] ** 0.5, dim=3)

    def sized_probabilities(self, tokens: Tensor) -> Tensor:
        """`probabilities`, weighted by the norms of the values."""
        value = self.query_key_value(tokens).unflatten(2, (3, N_HEADS, -1))[:, :, 2].transpose(1, 2)
        return sized(self.probabilities(tokens), value.norm(dim=3))

    def forward(self, tokens: Tensor) -> Tensor:
        heads = self.query_key_value(tokens).unflatten(2, (3, N_HEADS, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        attended = attend(query, key, value, self.attention_dropout if self.training else 0.0)
        update = self.residual_dropout(attended.transpose(1, 2).flatten(2))
        return self.normalization(self.residual(tokens) + update).relu()


class AutoIntNetwork(nn.Module):
    """Tokens of the features, interacting layers, and a linear layer over all tokens.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: AutoIntParams) -> None:
        super().__init__()
        self.tokenizer = UnbiasedTokenizer(sizes.n_numeric, sizes.cardinalities, params.d_token)
        self.layers = nn.Sequential(*[InteractingLayer(params) for _ in range(params.n_layers)])
        n_tokens = sizes.n_numeric + len(sizes.cardinalities)
        self.head = Linear(n_tokens * params.d_token, sizes.d_out)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        return self.head(self.layers(self.tokenizer(numeric, categorical)).flatten(1))

    def attention_maps(self, numeric: Tensor, categorical: Tensor) -> list[LayerAttention]:
        """Attention of each feature to each feature, by layer."""
        tokens = self.tokenizer(numeric, categorical)
        places = tuple(range(tokens.shape[1]))
        found: list[LayerAttention] = []
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, InteractingLayer)
            found.append(LayerAttention(f"layer {i + 1}", places, places, layer.probabilities(tokens)))
            tokens = layer(tokens)
        return found

    def feature_attention(self, numeric: Tensor, categorical: Tensor) -> dict[str, Tensor]:
        """The attention that each feature receives: α of eq. 5, averaged over layers, heads and the features that attend.

        NOTE[DIFF]: the paper averages α alone (section 5.5, Figure 7). Here it is weighted by the norm of the value that it is
        multiplied with, because all features attended to all alike: with two relevant columns among eight, they were the first two
        in 6 of 6 fits with the norms, and in 0 without.
        """
        tokens = self.tokenizer(numeric, categorical)
        received: list[Tensor] = []
        for layer in self.layers:
            assert isinstance(layer, InteractingLayer)
            received.append(layer.sized_probabilities(tokens).mean((1, 2)))
            tokens = layer(tokens)
        return {"attention": torch.stack(received).mean(0)}


class AutoInt(DeepPlugin):
    name = "autoint"
    title = "AutoInt"
    has_attention = True
    has_attention_maps = True
    paper = "Song et al. 2019, AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural Networks"
    params_type = AutoIntParams
    low_precision = True
    repeats_steps = True
    min_rows = 200
    max_rows = 2_000_000
    max_features = 300

    def build(self, sizes: Sizes, params: AutoIntParams) -> AutoIntNetwork:
        return AutoIntNetwork(sizes, params)

    def undecayed(self, network: nn.Module) -> set[str]:
        """Tokenizer, normalizations and biases."""
        return {
            name
            for name, _ in network.named_parameters()
            if name.startswith("tokenizer.") or name.endswith(".bias") or ".normalization." in name
        }

    def defaults(self, task: Task, shape: Shape, device: str) -> AutoIntParams:
        """The sizes are TALENT's, because the paper has no default. The learning rate is the highest of its search
        space: it had a test RMSE of 0.475 on California housing, and TALENT's 1e-4 had 0.494.

        NOTE[DIFF]: on a CPU, a higher learning rate with weight averaging, smaller tokens and no dropout, as for the
        FT-Transformer, because minutes on a CPU allow only a few epochs.
        """
        if device != "cpu":
            return AutoIntParams(learning_rate=1e-3)
        return AutoIntParams(n_layers=2, d_token=48, attention_dropout=0.0, learning_rate=2e-3, average_decay=0.99)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> AutoIntParams:
        """Gorishniy et al. 2021, Table 14; the number of rows selects its column (A) or (B). Token sizes are multiples of
        the 2 heads.
        """
        many_rows = shape.n_rows > 100_000
        low, high = (3e-5, 3e-4) if many_rows else (1e-5, 1e-3)
        return AutoIntParams(
            n_layers=trial.suggest_int("n_layers", 1, 6),
            d_token=trial.suggest_int("d_token", 8, 64, step=N_HEADS),
            residual_dropout=0.0 if many_rows else zero_or(trial, "residual_dropout", 0.0, 0.2),
            attention_dropout=trial.suggest_float("attention_dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", low, high, log=True),
            weight_decay=trial.suggest_float("weight_decay", 1e-6, 1e-3, log=True),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, AutoIntParams)
        n_tokens, d = shape.n_features, params.d_token
        per_layer = 4 * d * d + 2 * n_tokens * d + 200 * d
        flops = 6 * shape.n_rows * n_tokens * params.n_layers * per_layer
        n_weights = params.n_layers * 4 * d * d + n_tokens * d
        # Up to this number of tokens, attention keeps the probabilities.
        scores = 4 * N_HEADS * n_tokens**2 if n_tokens <= MANY_TOKENS else 0
        values = params.n_layers * (9.5 * n_tokens * d + scores)
        n_bytes = network_bytes(
            shape,
            n_weights,
            device,
            values=values,
            peak=9 * n_tokens * d + scores / 2,
            batch_size=params.batch_size,
        )
        return training_cost(shape, flops, n_weights, device, n_epochs=40, n_bytes=n_bytes)
