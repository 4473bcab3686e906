"""Features as tokens (Gorishniy et al. 2021, section 3.6, "Feature Tokenizer")."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabapp.nn.layers import fused
from tabapp.nn.layers.linear import linear


def uniform_rows(*shape: int) -> nn.Parameter:
    """A parameter drawn from U(-1/√d, 1/√d), d being its last dimension."""
    bound = shape[-1] ** -0.5
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


class NumericTokenizer(nn.Module):
    """T_j = x_j · W_j + b_j, or without b_j. Shape: (rows, n_features) to (rows, n_features, d_token)."""

    def __init__(self, n_features: int, d_token: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = uniform_rows(n_features, d_token)
        self.bias = uniform_rows(n_features, d_token) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(-1)
        tokens = x * self.weight if self.bias is None else torch.addcmul(self.bias, x, self.weight)
        # Numbers are more precise than bfloat16 weights.
        return tokens.to(self.weight.dtype)

    def projected(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """`linear(self(x), weight, bias)` at the cost of one row, because a token is linear in its number."""
        slope, offset = self.line(weight, bias)
        return torch.addcmul(offset, x.unsqueeze(-1).to(slope.dtype), slope)

    def line(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Slope and offset of `projected`: (n_features, d_out), and the same or (d_out,)."""
        offset = bias if self.bias is None else nn.functional.linear(self.bias, weight, bias)
        return nn.functional.linear(self.weight, weight), offset


class CategoricalTokenizer(nn.Module):
    """T_j = E_j[x_j] + b_j, or without b_j. Shape: (rows, n_features) codes to (rows, n_features, d_token).

    `weight` concatenates the embedding tables of all columns, so that one lookup serves all of them. Each table includes
    the reserved codes, so an unseen level never reads another column's table.
    """

    def __init__(self, cardinalities: tuple[int, ...], d_token: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = uniform_rows(sum(cardinalities), d_token)
        self.bias = uniform_rows(len(cardinalities), d_token) if bias else None
        offsets = torch.tensor((0, *cardinalities[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets, persistent=False)
        self.offsets: Tensor

    def forward(self, codes: Tensor) -> Tensor:
        tokens = nn.functional.embedding(codes + self.offsets, self.weight)
        return tokens if self.bias is None else tokens + self.bias

    def projected(self, codes: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """`linear(self(codes), weight, bias)`, at the cost of all levels if there are fewer levels than codes."""
        if len(self.weight) > codes.numel():
            return linear(self(codes), weight, bias)
        levels = nn.functional.linear(self.weight, weight)
        offset = bias if self.bias is None else nn.functional.linear(self.bias, weight, bias)
        return nn.functional.embedding(codes + self.offsets, levels) + offset


class FeatureTokenizer(nn.Module):
    """[CLS], then numeric, then categorical tokens.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, 1 + n_numeric + n_categorical, d_token).
    """

    def __init__(self, n_numeric: int, cardinalities: tuple[int, ...], d_token: int, *, bias: bool = True) -> None:
        super().__init__()
        self.cls = uniform_rows(d_token)
        self.numeric = NumericTokenizer(n_numeric, d_token, bias=bias) if n_numeric else None
        self.categorical = CategoricalTokenizer(cardinalities, d_token, bias=bias) if cardinalities else None

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        if self.numeric is not None and fused.is_fused(self.cls):
            slope, bias = self.numeric.weight, self.numeric.bias
            tokens = [_with_cls(numeric, self.cls, slope, torch.zeros_like(slope) if bias is None else bias)]
        else:
            tokens = [self.cls.expand(numeric.shape[0], 1, -1)]
            if self.numeric is not None:
                tokens.append(self.numeric(numeric))
        if self.categorical is not None:
            tokens.append(self.categorical(categorical))
        return _joined(tokens)

    def projected(self, numeric: Tensor, categorical: Tensor, layer: nn.Linear) -> Tensor:
        """`layer(self(numeric, categorical))`, (rows, n_tokens, d_out), with weights multiplied before they are applied to
        rows.
        """
        weight, bias = layer.weight, layer.bias
        cls = nn.functional.linear(self.cls, weight, bias)
        if self.numeric is not None and fused.is_fused(cls):
            parts = [_with_cls(numeric, cls, *self.numeric.line(weight, bias))]
        else:
            parts = [cls.expand(numeric.shape[0], 1, -1)]
            if self.numeric is not None:
                parts.append(self.numeric.projected(numeric, weight, bias))
        if self.categorical is not None:
            parts.append(self.categorical.projected(categorical, weight, bias))
        return _joined(parts)


def _joined(parts: list[Tensor]) -> Tensor:
    # torch copies a single part, too.
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _with_cls(x: Tensor, cls: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
    """[CLS] and then x_j · slope_j + offset_j in one operation, with [CLS] as the token of a zero.

    Shape: (rows, n_features), (d,), (n_features, d), and the same or (d,), to (rows, 1 + n_features, d).
    """
    offsets = torch.cat([cls.unsqueeze(0), offset.expand_as(slope)])
    pad = nn.functional.pad
    return fused.affine_tokens(pad(x, (1, 0)), pad(slope, (0, 0, 1, 0)), offsets)
