"""Features as tokens (Gorishniy et al. 2021, section 3.3, "Feature Tokenizer")."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def uniform_rows(*shape: int) -> nn.Parameter:
    """A parameter drawn from U(-1/√d, 1/√d), d being its last dimension."""
    bound = shape[-1] ** -0.5
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


class NumericTokenizer(nn.Module):
    """T_j = x_j · W_j + b_j. Shape: (rows, n_features) to (rows, n_features, d_token)."""

    def __init__(self, n_features: int, d_token: int) -> None:
        super().__init__()
        self.weight = uniform_rows(n_features, d_token)
        self.bias = uniform_rows(n_features, d_token)

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.bias, x.unsqueeze(-1), self.weight)


class CategoricalTokenizer(nn.Module):
    """T_j = E_j[x_j] + b_j. Shape: (rows, n_features) codes to (rows, n_features, d_token).

    The tables of all columns lie one below the other in `weight`, so that one lookup serves them all. Each column's own
    rows include those of its reserved codes, so an unseen level never reads another column's.
    """

    def __init__(self, cardinalities: tuple[int, ...], d_token: int) -> None:
        super().__init__()
        self.weight = uniform_rows(sum(cardinalities), d_token)
        self.bias = uniform_rows(len(cardinalities), d_token)
        offsets = torch.tensor((0, *cardinalities[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets, persistent=False)
        self.offsets: Tensor

    def forward(self, codes: Tensor) -> Tensor:
        return nn.functional.embedding(codes + self.offsets, self.weight) + self.bias


class FeatureTokenizer(nn.Module):
    """[CLS], then numeric, then categorical tokens.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, 1 + n_numeric + n_categorical, d_token).
    """

    def __init__(self, n_numeric: int, cardinalities: tuple[int, ...], d_token: int) -> None:
        super().__init__()
        self.cls = uniform_rows(d_token)
        self.numeric = NumericTokenizer(n_numeric, d_token) if n_numeric else None
        self.categorical = CategoricalTokenizer(cardinalities, d_token) if cardinalities else None

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        tokens = [self.cls.expand(len(numeric), 1, -1)]
        if self.numeric is not None:
            tokens.append(self.numeric(numeric))
        if self.categorical is not None:
            tokens.append(self.categorical(categorical))
        return torch.cat(tokens, dim=1)
