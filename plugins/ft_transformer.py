"""FT-Transformer: Gorishniy et al. 2021, section 3.6 and supplement C; attention as importance, section 4.3."""

from __future__ import annotations

import dataclasses
from typing import Literal

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import Cost, Float32, Params, Shape, Task, Trial
from tabapp.nn.costs import network_bytes, training_cost
from tabapp.nn.layers.attention import CLS, FeedForward, LayerAttention, SelfAttention
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.fused import add_normalized
from tabapp.nn.layers.linear import Linear
from tabapp.nn.layers.tokenizers import FeatureTokenizer
from tabapp.nn.plugin import DeepModel, DeepPlugin, Sizes
from tabapp.nn.pretraining import Pretrained
from tabapp.nn.training.params import SharingParams
from tabapp.nn.training.trainer import inputs

from ._shared.search import share_of_others, zero_or

N_HEADS = 8
MANY_FEATURES = 300
"""Above this number of features, attention is projected, because full attention is quadratic in the number of
features.
"""
PROJECTED_TOKENS = 128
TOKEN_SIZES = (96, 128, 192, 256, 320, 384)
"""Token size of the default configurations with one to six layers."""


class FTTransformerParams(SharingParams, frozen=True, kw_only=True):
    """Table 15 of the paper.

    Attributes:
        n_layers: number of Transformer blocks.
        d_token: token size, a multiple of the 8 heads.
        attention_dropout: dropout rate of attention probabilities.
        ffn_dropout: dropout rate inside the feed-forward branch.
        residual_dropout: dropout rate at the end of both branches.
        ffn_factor: hidden size of the feed-forward branch (after ReGLU) divided by the token size.
        token_bias: whether feature tokens have biases; False is the ablation of section 4.2 (Table 3).
        activation: of the feed-forward branch: "reglu", or "relu", between which the authors saw no strong difference
            (supplement C.1).
        normalization: "pre" normalizes the input of each branch, "post" the sum after it, without a normalization before the head
            (supplement C.1).
        projection: number of tokens to which Linformer's "headwise" matrices project keys and values, as a share of all
            tokens (supplement C.3); 0 disables the projection.
    """

    n_layers: int = 3
    d_token: int = 192
    attention_dropout: float = 0.2
    ffn_dropout: float = 0.1
    residual_dropout: float = 0.0
    ffn_factor: float = 4 / 3
    token_bias: bool = True
    activation: Literal["reglu", "relu"] = "reglu"
    normalization: Literal["pre", "post"] = "pre"
    projection: float = 0.0
    learning_rate: float = 1e-4
    weight_decay: float = 1e-5

    @classmethod
    def scaled(cls, n_layers: int) -> FTTransformerParams:
        """The authors' default configuration with one to six layers (supplement C.2, values from their code)."""
        return cls(
            n_layers=n_layers,
            d_token=TOKEN_SIZES[n_layers - 1],
            attention_dropout=round(0.05 + 0.05 * n_layers, 2),
            ffn_dropout=round(0.05 * n_layers - 0.05, 2),
        )


def projection_for(shape: Shape) -> float:
    """Projected tokens per token: 0 up to `MANY_FEATURES`; above it, 128 tokens remain, as in the paper for 2,000
    features.
    """
    # Half a token more: the product with the number of tokens is rounded down, and could otherwise be just below.
    return (PROJECTED_TOKENS + 0.5) / (shape.n_features + 1) if shape.n_features > MANY_FEATURES else 0.0


class Block(nn.Module):
    """One PreNorm Transformer block.

    Shape: (rows, n_tokens, d_token) to the same shape, or to (rows, 1, d_token) for [CLS] alone.

    The first block has no normalization before its attention, which would discard the magnitude of the tokens. Its
    queries, keys and values are therefore linear in the features, and can be passed as `projected`.
    """

    def __init__(self, params: FTTransformerParams, n_tokens: int, *, is_first: bool) -> None:
        super().__init__()
        d = params.d_token
        projected = (n_tokens, max(1, int(n_tokens * params.projection))) if params.projection else None
        self.attention_normalization = None if is_first else nn.LayerNorm(d)
        self.attention = SelfAttention(d, N_HEADS, params.attention_dropout, projected=projected)
        self.ffn_normalization = nn.LayerNorm(d)
        gated = params.activation == "reglu"
        self.ffn = FeedForward(d, int(d * params.ffn_factor), params.ffn_dropout, gated=gated)
        self.residual_dropout = Dropout(params.residual_dropout)

    def attended(self, tokens: Tensor) -> Tensor:
        """Input of the attention: the tokens, normalized except in the first block."""
        return tokens if self.attention_normalization is None else self.attention_normalization(tokens)

    def forward(self, tokens: Tensor, *, cls_only: bool) -> Tensor:
        tokens, update = self.branches(tokens, None, cls_only=cls_only)
        return tokens if update is None else tokens + update

    def branches(
        self, tokens: Tensor, update: Tensor | None, *, cls_only: bool, projected: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The block without its last addition: tokens + update, for the input and for the output. Sums are thus next to the
        normalization that reads them, and computed with it.
        """
        if projected is not None:
            attended = self.attention.of_projected(projected)
        elif update is None or self.attention_normalization is None:
            attended = self.attention(self.attended(tokens), cls_only=cls_only)
        else:
            tokens, normalized = add_normalized(tokens, update, self.attention_normalization)
            attended = self.attention(normalized, cls_only=cls_only)
        tokens = tokens[:, :1] if cls_only else tokens
        tokens, normalized = add_normalized(tokens, self.residual_dropout(attended), self.ffn_normalization)
        return tokens, self.residual_dropout(self.ffn(normalized))


class PostNormBlock(Block):
    """One PostNorm Transformer block: LayerNorm(x + Dropout(branch(x))), twice. Shapes as in `Block`.

    The normalizations discard no magnitude of the first tokens, which enter the attention as they are.
    """

    def __init__(self, params: FTTransformerParams, n_tokens: int) -> None:
        super().__init__(params, n_tokens, is_first=False)

    def attended(self, tokens: Tensor) -> Tensor:
        return tokens

    def branches(
        self, tokens: Tensor, update: Tensor | None, *, cls_only: bool, projected: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """The output of the block; there is no update."""
        assert update is None
        assert self.attention_normalization is not None
        attention = self.attention
        attended = attention(tokens, cls_only=cls_only) if projected is None else attention.of_projected(projected)
        tokens = tokens[:, :1] if cls_only else tokens
        tokens = self.attention_normalization(tokens + self.residual_dropout(attended))
        return self.ffn_normalization(tokens + self.residual_dropout(self.ffn(tokens))), None


class FTTransformerNetwork(nn.Module):
    """Tokens of the features, Transformer blocks, and Linear(ReLU(LayerNorm([CLS]))).

    The last block computes only [CLS], because nothing reads the other tokens after it.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, sizes: Sizes, params: FTTransformerParams) -> None:
        super().__init__()
        self.n_encoded_numeric, self.d_encoded = sizes.n_numeric, params.d_token
        self.tokenizer = FeatureTokenizer(sizes.n_numeric, sizes.cardinalities, params.d_token, bias=params.token_bias)
        n_tokens = 1 + sizes.n_numeric + len(sizes.cardinalities)
        is_post = params.normalization == "post"
        blocks = range(params.n_layers)
        self.blocks = nn.ModuleList(
            [PostNormBlock(params, n_tokens) if is_post else Block(params, n_tokens, is_first=i == 0) for i in blocks]
        )
        self.has_attention = not params.projection
        self.normalization = nn.Identity() if is_post else nn.LayerNorm(params.d_token)
        self.head = Linear(params.d_token, sizes.d_out)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        tokens, update = self.tokenizer(numeric, categorical), None
        for i, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            is_last, projected = i + 1 == len(self.blocks), None
            if i == 0 and not is_last:
                projected = self.tokenizer.projected(numeric, categorical, block.attention.query_key_value)
            tokens, update = block.branches(tokens, update, cls_only=is_last, projected=projected)
        cls = tokens[:, 0] if update is None else tokens[:, 0] + update[:, 0]
        return self.head(torch.relu(self.normalization(cls)))

    def encoded_columns(self, numeric: Tensor, categorical: Tensor, masked: Tensor, mask: Tensor) -> Tensor:
        """(rows, n_features, d_token): the features after all blocks, where masked numbers are replaced by their vector in
        `mask`; see `tabapp.nn.pretraining.Encoder`."""
        first, numbers, rest = self.tokenizer(numeric, categorical).split(
            [1, numeric.shape[1], categorical.shape[1]], dim=1
        )
        numbers = torch.where(masked.unsqueeze(2), mask.to(numbers.dtype), numbers)
        tokens = torch.cat([first, numbers, rest], dim=1)
        for block in self.blocks:
            tokens = block(tokens, cls_only=False)
        return tokens[:, 1:]

    def cls_attention(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        """(rows, 1 + n_features): attention of [CLS] to each token, mean over heads and layers (section 4.3, eq. 2)."""
        tokens = self.tokenizer(numeric, categorical)
        total = torch.zeros(tokens.shape[:2], device=tokens.device)
        for i, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            total += block.attention.cls_probabilities(block.attended(tokens)).mean(1)
            if i + 1 < len(self.blocks):
                tokens = block(tokens, cls_only=False)
        return total / len(self.blocks)

    def attention_maps(self, numeric: Tensor, categorical: Tensor) -> list[LayerAttention]:
        """Attention of all tokens in each layer, and of [CLS] in the last; empty if keys are projected."""
        if not self.has_attention:
            return []
        tokens = self.tokenizer(numeric, categorical)
        places = (CLS, *range(tokens.shape[1] - 1))
        found: list[LayerAttention] = []
        for i, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            is_last = i + 1 == len(self.blocks)
            weights = block.attention.probabilities(block.attended(tokens), cls_only=is_last)
            found.append(LayerAttention(f"layer {i + 1}", places[:1] if is_last else places, places, weights))
            tokens = block(tokens, cls_only=is_last)
        return found


class FTTransformerModel(DeepModel):
    def attention(self, table: Table) -> Float32 | None:
        """Attention of [CLS] to each feature. Its attention to itself is dropped and the rest rescaled, which preserves
        the ranking. None if keys are projected, because attention is then over mixtures of features.
        """
        network = self.network
        assert isinstance(network, FTTransformerNetwork)
        if not network.has_attention:
            return None
        with torch.inference_mode():
            numeric, categorical = inputs(table, self.device)
            parts = zip(numeric.split(2048), categorical.split(2048), strict=True)
            shares = torch.cat([network.cls_attention(x, codes)[:, 1:] for x, codes in parts])
        return (shares / shares.sum(dim=1, keepdim=True)).cpu().numpy().astype(np.float32)


class FTTransformer(DeepPlugin):
    name = "ft_transformer"
    title = "FT-Transformer"
    has_attention_maps = True
    warms_up = True
    paper = "Gorishniy et al. 2021, Revisiting Deep Learning Models for Tabular Data, section 3.6"
    starts_first = True
    has_attention = True
    uses_other_targets = True
    params_type = FTTransformerParams
    model_type = FTTransformerModel
    low_precision = True
    bfloat16_weights = True
    repeats_steps = True
    min_rows = 200
    max_rows = 2_000_000
    max_features = 5_000

    def build(self, sizes: Sizes, params: FTTransformerParams) -> FTTransformerNetwork:
        return FTTransformerNetwork(sizes, params)

    def undecayed(self, network: nn.Module) -> set[str]:
        """Tokenizer, normalizations and biases (C.3). As in the authors' code, the head's normalization weight is
        decayed.
        """
        return {
            name
            for name, _ in network.named_parameters()
            if name.startswith("tokenizer.") or name.endswith(".bias") or "_normalization." in name
        }

    def defaults(self, task: Task, shape: Shape, device: str) -> FTTransformerParams:
        """The paper's default on a GPU (Table 15).

        NOTE[DIFF]: on a CPU, a smaller configuration of the authors' scaling rule, a higher learning rate, weight averaging
        and no dropout, because minutes on a CPU allow only a few epochs. In 25 s, one thread reached an RMSE of 47,200
        instead of 49,200 on California housing without dropout, and of 571 instead of 610 on diamonds with one layer.
        """
        projection = projection_for(shape)
        if device != "cpu":
            return FTTransformerParams(projection=projection)
        many_tokens = shape.n_rows * (shape.n_features + 1) > 300_000
        return msgspec.structs.replace(
            FTTransformerParams.scaled(1 if many_tokens else 2),
            projection=projection,
            learning_rate=1e-3,
            average_decay=0.99,
            attention_dropout=0.0,
            ffn_dropout=0.0,
        )

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> FTTransformerParams:
        """Gorishniy et al. 2021, Table 16; the number of rows selects its column (A) or (B). Token sizes are multiples of
        the 8 heads.
        """
        many_rows = shape.n_rows > 100_000
        low, high = (3e-5, 3e-4) if many_rows else (1e-5, 1e-3)
        return FTTransformerParams(
            projection=projection_for(shape),
            n_layers=trial.suggest_int("n_layers", 1, 6 if many_rows else 4),
            d_token=trial.suggest_int("d_token", 64, 512, step=N_HEADS),
            residual_dropout=0.0 if many_rows else zero_or(trial, "residual_dropout", 0.0, 0.2),
            attention_dropout=trial.suggest_float("attention_dropout", 0.0, 0.5),
            ffn_dropout=trial.suggest_float("ffn_dropout", 0.0, 0.5),
            ffn_factor=4 / 3 if many_rows else trial.suggest_float("ffn_factor", 2 / 3, 8 / 3),
            learning_rate=trial.suggest_float("learning_rate", low, high, log=True),
            weight_decay=trial.suggest_float("weight_decay", 1e-6, 1e-3, log=True),
            others_share=share_of_others(trial, shape),
        )

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        assert isinstance(params, FTTransformerParams)
        n_tokens, d = shape.n_features + 1, params.d_token
        d_hidden = int(d * params.ffn_factor)
        per_layer = 4 * d * d + 3 * d * d_hidden
        attended = n_tokens * params.projection if params.projection else n_tokens
        per_token = per_layer + 2 * attended * d * (2 if params.projection else 1)
        flops = 6 * shape.n_rows * n_tokens * (params.n_layers - 0.7) * per_token
        # The last layer computes one token only.
        values = n_tokens * d * (4 + 21 * (params.n_layers - 1))
        n_weights = params.n_layers * per_layer + n_tokens * d
        n_bytes = network_bytes(
            shape,
            n_weights,
            device,
            values=values,
            peak=n_tokens * d * (2.2 if params.n_layers == 1 else 11),
            batch_size=params.batch_size,
        )
        return training_cost(shape, flops, n_weights, device, n_epochs=40, n_bytes=n_bytes)


class PretrainedFTTransformerParams(FTTransformerParams, frozen=True, kw_only=True):
    """Attributes:
    pretraining_steps: maximum number of steps of pre-training.
    """

    pretraining_steps: int = 5000


class PretrainedFTTransformer(Pretrained, FTTransformer):
    """Its trials differ only in fine-tuning, so that all of them share one pre-training."""

    name = "ft_transformer_pretrained"
    title = "FT-Transformer, pre-trained"
    paper = f"{FTTransformer.paper}; pre-training: Huang et al. 2020, TabTransformer, section 2"
    params_type = PretrainedFTTransformerParams
    architecture = ("n_layers", "d_token", "ffn_factor", "token_bias", "activation", "normalization", "projection")
    task_parts = ("head.", "normalization.")
    gained_with = (50, 1_000)

    def defaults(self, task: Task, shape: Shape, device: str) -> PretrainedFTTransformerParams:
        """Those of FT-Transformer for the rows without a target; on a CPU, 400 steps of pre-training take a minute or two."""
        enlarged = dataclasses.replace(shape, n_rows=shape.n_rows + shape.n_unlabeled)
        params = msgspec.structs.asdict(super().defaults(task, enlarged, device))
        return PretrainedFTTransformerParams(**params, pretraining_steps=400 if device == "cpu" else 5000)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> PretrainedFTTransformerParams:
        """Dropout, learning rate and weight decay of Table 16."""
        return msgspec.structs.replace(
            self.defaults(task, shape, device),
            residual_dropout=zero_or(trial, "residual_dropout", 0.0, 0.2),
            attention_dropout=trial.suggest_float("attention_dropout", 0.0, 0.5),
            ffn_dropout=trial.suggest_float("ffn_dropout", 0.0, 0.5),
            learning_rate=trial.suggest_float("learning_rate", 1e-5, 1e-3, log=True),
            weight_decay=trial.suggest_float("weight_decay", 1e-6, 1e-3, log=True),
        )
