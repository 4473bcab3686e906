"""The network of AMFormer and its sizes: Cheng et al. 2024, section 4."""

from __future__ import annotations

from math import ceil
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from tabapp.nn.layers.arithmetic import MANY_TOKENS, ArithmeticBlock, HardAttention, ProductAttention, mix_tokens
from tabapp.nn.layers.attention import CLS, PROMPTS, FeedForward, LayerAttention, SelfAttention
from tabapp.nn.layers.linear import Linear
from tabapp.nn.layers.tokenizers import CategoricalTokenizer, NumericTokenizer, uniform_rows
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.trainer import TrainingParams

MANY_FEATURES = 300
"""Above this number of features, prompts also replace self-attention, and their number decreases from layer to
layer.
"""
MANY_PROMPTS = 256
"""Number of prompts in the first layer above `MANY_FEATURES` (Table 5: a balanced choice)."""
EVALUATION_BYTES = 500_000_000
"""Maximum memory of the intermediate values of one prediction chunk."""

Backbone = Literal["ft_transformer", "autoint"]
Prompts = Literal["none", "multiplicative", "both"]
Streams = Literal["both", "additive", "multiplicative"]


class AMFormerParams(TrainingParams, frozen=True, kw_only=True):
    """Section 5.1 and Table 7 of the paper.

    Attributes:
        backbone: the network around the arithmetic block: "ft_transformer" reads a [CLS] token (AMF-F), "autoint" a learned
            mean of all tokens (AMF-A).
        prompts: the streams that use prompts as queries: "both" as in the paper, "none" as in section 4.1, or
            "multiplicative" with full self-attention in the additive stream. None means "multiplicative" for up to 300
            features and "both" for more.
        streams: "both" streams of the arithmetic block, or only one of them, as in the ablations of Table 3.
        n_prompts: prompts of the first layer, halved in each following layer. None means as many as tokens in every layer
            for up to 300 features, and 256 in the first layer for more.
        n_layers: number of layers.
        d_token: token size, a multiple of `n_heads`.
        n_heads: attention heads.
        top_k: tokens that each query of hard attention combines; more if the prompts could not cover all tokens otherwise.
        attention_dropout: dropout rate of attention probabilities.
        ffn_dropout: dropout rate inside the feed-forward branch.
        ffn_factor: hidden size of the feed-forward branch (after ReGLU) divided by the token size.
        warmup_steps: steps of the linear learning-rate warm-up.
        decay_steps: number of steps after which the learning rate is divided by ten, repeatedly.
    """

    backbone: Backbone = "ft_transformer"
    prompts: Prompts | None = None
    streams: Streams = "both"
    n_prompts: int | None = None
    n_layers: int = 3
    d_token: int = 192
    n_heads: int = 8
    top_k: int = 8
    attention_dropout: float = 0.2
    ffn_dropout: float = 0.1
    ffn_factor: float = 4 / 3
    warmup_steps: int = 1000
    decay_steps: int = 20_000
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    max_gradient_norm: float = 1.0


def prompt_counts(n_tokens: int, params: AMFormerParams) -> tuple[int, ...]:
    """Prompts of each layer (section 4.2)."""
    first = params.n_prompts or (n_tokens if n_tokens - 1 <= MANY_FEATURES else MANY_PROMPTS)
    halved = first < n_tokens
    return tuple(max(1, first >> i) if halved else first for i in range(params.n_layers))


def prompts_for(n_features: int, params: AMFormerParams) -> Prompts:
    """Select the streams that have prompts.

    NOTE[DIFF]: the paper uses prompts in both streams at any size. Up to a few hundred features, self-attention costs no
    more and keeps queries in the additive stream that depend on the row, as in the authors' code for such tables.
    """
    return params.prompts or ("multiplicative" if n_features <= MANY_FEATURES else "both")


class LayerSize(NamedTuple):
    """Numbers of input and output tokens of a layer (before the last layer selects [CLS]), and of queries of both
    streams.
    """

    n_tokens: int
    n_kept: int
    n_queries: int


def layer_sizes(n_features: int, params: AMFormerParams) -> list[LayerSize]:
    """The size of each layer."""
    n_tokens, prompts = n_features + (params.backbone == "ft_transformer"), prompts_for(n_features, params)
    sizes: list[LayerSize] = []
    for n_prompts in prompt_counts(n_tokens, params):
        n_sums = n_prompts if prompts == "both" else n_tokens
        n_products = n_tokens if prompts == "none" else n_prompts
        n_queries = n_sums * (params.streams != "multiplicative") + n_products * (params.streams != "additive")
        sizes.append(LayerSize(n_tokens, n_sums, n_queries))
        n_tokens = n_sums
    return sizes


def bytes_per_row(n_features: int, params: AMFormerParams) -> int:
    """Memory of a training step per row of its batch, as measured by papers/amformer_scaling.py."""
    d, n_bytes = params.d_token, 0
    for layer in layer_sizes(n_features, params):
        if layer.n_tokens > MANY_TOKENS:
            attention = 4 * layer.n_queries * params.top_k * d
        else:
            attention = 4 * layer.n_queries * layer.n_tokens * params.n_heads
        n_bytes += 4 * (25 * layer.n_tokens * d + attention)
    return n_bytes


class Layer(nn.Module):
    """X ← Down(X) + Arithmetic(X), then X ← X + FeedForward(LayerNorm(X)).

    Down is a linear layer over the tokens if their number decreases, and the identity otherwise. The feed-forward
    branch is the FT-Transformer's.

    NOTE[DIFF]: the authors' code uses GEGLU with four times the token size there, which the paper does not mention. It
    takes most of the time, and the FT-Transformer in the paper's comparison has a third of that size.

    Shape: (rows, n_tokens, d_token) to (rows, n_out, d_token). With n_out = 1, only the first of n_tokens is computed.
    """

    def __init__(
        self,
        params: AMFormerParams,
        prompts: Prompts,
        *,
        n_tokens: int,
        n_prompts: int,
        n_out: int,
        is_first: bool,
    ) -> None:
        super().__init__()
        d, rate = params.d_token, params.attention_dropout

        def hard(n_prompts: int | None) -> HardAttention:
            top_k = max(params.top_k, ceil(n_tokens / (n_prompts or n_tokens)))
            return HardAttention(d, params.n_heads, n_prompts=n_prompts, top_k=top_k, dropout=rate)

        n_sums = n_prompts if prompts == "both" else n_tokens
        n_products = n_tokens if prompts == "none" else n_prompts
        additive = multiplicative = normalization = None
        if params.streams != "multiplicative":
            full = prompts == "multiplicative"
            own = n_prompts if prompts == "both" else None
            additive = SelfAttention(d, params.n_heads, rate) if full else hard(own)
            normalization = None if is_first else nn.LayerNorm(d)
        if params.streams != "additive":
            multiplicative = ProductAttention(hard(None if prompts == "none" else n_prompts))
        self.arithmetic = ArithmeticBlock(additive, n_sums, multiplicative, n_products, n_out, normalization)
        self.down = None if n_sums == n_tokens else Linear(n_tokens, n_out, bias=False)
        self.ffn_normalization = nn.LayerNorm(d)
        self.ffn = FeedForward(d, int(d * params.ffn_factor), params.ffn_dropout)
        self.n_out = n_out

    def forward(self, tokens: Tensor) -> Tensor:
        kept = tokens[:, : self.n_out] if self.down is None else mix_tokens(self.down, tokens)
        tokens = kept + self.arithmetic(tokens)
        return tokens + self.ffn(self.ffn_normalization(tokens))


class AMFormerNetwork(nn.Module):
    """Tokens of the features, arithmetic layers, and Linear(ReLU(LayerNorm(token))) of [CLS] or of the tokens' mean.

    The last layer of AMF-F computes only [CLS], because nothing reads the other tokens after it.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: AMFormerParams) -> None:
        super().__init__()
        n_features, d = sizes.n_numeric + len(sizes.cardinalities), params.d_token
        self.n_encoded_numeric, self.d_encoded = sizes.n_numeric, d
        reads_cls = params.backbone == "ft_transformer"
        self.cls = uniform_rows(d) if reads_cls else None
        self.numeric = NumericTokenizer(sizes.n_numeric, d) if sizes.n_numeric else None
        self.categorical = CategoricalTokenizer(sizes.cardinalities, d) if sizes.cardinalities else None
        prompts, n_tokens = prompts_for(n_features, params), n_features + reads_cls
        self.layers = nn.ModuleList()
        for i, n_prompts in enumerate(prompt_counts(n_tokens, params)):
            n_kept = n_prompts if prompts == "both" else n_tokens
            n_out = 1 if reads_cls and i + 1 == params.n_layers else n_kept
            self.layers.append(
                Layer(params, prompts, n_tokens=n_tokens, n_prompts=n_prompts, n_out=n_out, is_first=i == 0)
            )
            n_tokens = n_kept
        self.pool = None if reads_cls else Linear(n_tokens, 1, bias=False)
        self.normalization = nn.LayerNorm(d)
        self.head = Linear(d, sizes.d_out)
        self.rows_together = max(1, EVALUATION_BYTES // bytes_per_row(n_features, params))
        first = layer_sizes(n_features, params)[0]
        self.selection_rows = max(1, EVALUATION_BYTES // (16 * params.n_heads * first.n_queries * first.n_tokens))

    def tokens(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(rows, n_tokens, d_token): [CLS] if there is one, then numeric, then categorical features."""
        tokens: list[Tensor] = []
        if self.cls is not None:
            tokens.append(self.cls.expand(numeric.shape[0], 1, -1))
        if self.numeric is not None:
            tokens.append(self.numeric(numeric))
        if self.categorical is not None:
            tokens.append(self.categorical(categorical))
        return torch.cat(tokens, dim=1)

    def encoded_columns(self, numeric: Tensor, categorical: Tensor, masked: Tensor, mask: Tensor) -> Tensor:
        """(rows, n_features, d_token): the features after all layers; see `tabapp.nn.pretraining.Encoder`.

        Only networks that keep all tokens have them: those that read no [CLS], with at most `MANY_FEATURES` features.
        """
        tokens = self.tokens(numeric, categorical)
        numbers, rest = tokens.split([numeric.shape[1], categorical.shape[1]], dim=1)
        tokens = torch.cat([torch.where(masked.unsqueeze(2), mask.to(tokens.dtype), numbers), rest], dim=1)
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        if self.training or len(numeric) <= self.rows_together:
            return self._output(numeric, categorical)
        parts = zip(numeric.split(self.rows_together), categorical.split(self.rows_together), strict=True)
        return torch.cat([self._output(x, codes) for x, codes in parts])

    def _output(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        tokens = self.tokens(numeric, categorical)
        for layer in self.layers:
            tokens = layer(tokens)
        if self.pool is not None:
            tokens = mix_tokens(self.pool, tokens)
        return self.head(torch.relu(self.normalization(tokens[:, 0])))

    def attention_maps(self, numeric: Tensor, categorical: Tensor) -> list[LayerAttention]:
        """Attention of the streams of each layer, up to a layer whose tokens are no longer those of the features.

        The queries of a stream with prompts are `PROMPTS`.
        """
        tokens = self.tokens(numeric, categorical)
        places = (*([CLS] if self.cls is not None else []), *range(numeric.shape[1] + categorical.shape[1]))
        found: list[LayerAttention] = []
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            if tokens.shape[1] != len(places):
                break
            block = layer.arithmetic
            seen = tokens if block.normalization is None else block.normalization(tokens)
            streams: list[tuple[str, nn.Module, Tensor]] = []
            if block.additive is not None:
                streams.append(("sums", block.additive, block.additive.probabilities(seen)))
            if block.multiplicative is not None:
                products = block.multiplicative
                streams.append(("products", products.attention, products.probabilities(tokens)))
            for stream, attention, weights in streams:
                has_prompts = isinstance(attention, HardAttention) and attention.prompts is not None
                queries = (PROMPTS,) * weights.shape[2] if has_prompts else places
                found.append(LayerAttention(f"layer {i + 1}, {stream}", queries, places, weights))
            tokens = layer(tokens)
        return found

    def feature_attention(self, numeric: Tensor, categorical: Tensor) -> dict[str, Tensor]:
        """The attention that each feature receives in the sums and in the products (eq. 3), weighted by the norm of the value that
        it is multiplied with, and averaged over heads, queries, and the layers whose tokens are those of the features. The values
        of products are logarithms: a factor of 1 has no size.

        NOTE[DIFF]: the paper defines no importance. The sums come first, because the prompts of the products are the same for all
        rows. With two relevant columns among eight, sums ranked one of them first in 12 of 12 fits, and
        products in 1.
        """
        tokens = self.tokens(numeric, categorical)
        n_tokens, n_features = tokens.shape[1], numeric.shape[1] + categorical.shape[1]
        found: dict[str, list[Tensor]] = {"sums": [], "products": []}
        for layer in self.layers:
            assert isinstance(layer, Layer)
            if tokens.shape[1] != n_tokens:
                break
            block = layer.arithmetic
            if block.additive is not None:
                seen = tokens if block.normalization is None else block.normalization(tokens)
                found["sums"].append(block.additive.sized_probabilities(seen).mean((1, 2)))
            if block.multiplicative is not None:
                found["products"].append(block.multiplicative.sized_probabilities(tokens).mean((1, 2)))
            tokens = layer(tokens)
        # Without the share of [CLS].
        return {name: torch.stack(each).mean(0)[:, -n_features:] for name, each in found.items() if each}

    @property
    def has_product_prompts(self) -> bool:
        """Whether prompts choose the factors of products."""
        layer = self.layers[0]
        assert isinstance(layer, Layer)
        products = layer.arithmetic.multiplicative
        return products is not None and products.attention.prompts is not None

    def selection(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(n_prompts, n_tokens): how often the first layer's multiplicative prompts select each token, mean over rows and
        heads.
        """
        layer = self.layers[0]
        assert isinstance(layer, Layer)
        multiplicative = layer.arithmetic.multiplicative
        assert multiplicative is not None
        parts = zip(numeric.split(self.selection_rows), categorical.split(self.selection_rows), strict=True)
        selected = [
            (multiplicative.probabilities(self.tokens(x, codes)) > 0).float().mean(1).sum(0) for x, codes in parts
        ]
        return torch.stack(selected).sum(0) / len(numeric)
