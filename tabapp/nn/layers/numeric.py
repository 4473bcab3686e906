"""Embeddings of numeric columns (Gorishniy et al. 2022, On Embeddings for Numerical Features in Tabular Deep Learning)."""

from __future__ import annotations

from math import pi

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.nn.layers.linear import Linear
from tabapp.nn.layers.tokenizers import NumericTokenizer

LEAST_BIN_WIDTH = 1e-4
QUANTILE_ROWS = 2**23
OPEN = 1e38
"""The bound of an open bin: finite, so that running averages of a network's state stay so."""


def bin_edges(column: Tensor, n_bins: int) -> Tensor:
    """At most n_bins + 1 increasing edges at the quantiles of a (rows,) column, without duplicates.

    NOTE[DIFF]: edges closer than 1e-4 to the previous one are dropped. The outer bins are open, and in a very narrow bin a
    value beyond the edge would be encoded as a huge one.
    """
    levels = torch.linspace(0, 1, n_bins + 1, device=column.device)
    edges = torch.quantile(column[:QUANTILE_ROWS], levels).unique()
    wide_enough = edges.diff(prepend=edges[:1] - 1) > LEAST_BIN_WIDTH
    return edges[wide_enough]


class PiecewiseLinearEmbedding(nn.Module):
    """x_j · w_j + b_j + PLE(x_j) · W_j (section 3.2; version "B" of the authors' package, used by TabM).

    Component t of PLE(x) rises linearly from 0 to 1 within bin t; the first bin is open below and the last one above.
    W_j starts at zero, so that the embedding starts as a linear one. Columns with fewer bins than others have components
    that are always zero.

    Shape: (rows, n_features) to (rows, n_features, d_embedding).
    """

    def __init__(self, n_features: int, n_bins: int, d_embedding: int) -> None:
        super().__init__()
        self.linear = NumericTokenizer(n_features, d_embedding)
        self.weight = nn.Parameter(torch.zeros(n_features, n_bins, d_embedding))
        for name in ("scale", "shift", "lowest", "highest"):
            self.register_buffer(name, torch.zeros(n_features, n_bins))
        self.scale: Tensor
        self.shift: Tensor
        self.lowest: Tensor
        self.highest: Tensor

    @torch.no_grad()
    def set_bins(self, numeric: Tensor) -> None:
        """Set the bin edges to the quantiles of (rows, n_features) training values."""
        for j, column in enumerate(numeric.unbind(1)):
            edges = bin_edges(column, self.scale.shape[1])
            n_bins = len(edges) - 1
            if n_bins < 1:
                continue
            widths = edges.diff()
            self.scale[j, :n_bins] = 1 / widths
            self.shift[j, :n_bins] = -edges[:-1] / widths
            self.lowest[j, 0] = -OPEN
            self.highest[j, :n_bins] = 1.0
            self.highest[j, n_bins - 1] = OPEN

    def components(self, x: Tensor) -> Tensor:
        """(rows, n_features, n_bins): the piecewise-linear encoding itself."""
        inside = torch.addcmul(self.shift, x.unsqueeze(-1), self.scale)
        return torch.minimum(torch.maximum(inside, self.lowest), self.highest)

    def forward(self, x: Tensor) -> Tensor:
        bent = torch.bmm(self.components(x).transpose(0, 1), self.weight).transpose(0, 1)
        return self.linear(x) + bent


class FeatureLinear(nn.Module):
    """A linear layer of its own for each feature, drawn as torch draws one.

    Shape: (rows, n_features, d_in) to (rows, n_features, d_out).
    """

    def __init__(self, n_features: int, d_in: int, d_out: int) -> None:
        super().__init__()
        bound = d_in**-0.5
        self.weight = nn.Parameter(torch.empty(n_features, d_in, d_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(n_features, d_out).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return torch.bmm(x.transpose(0, 1), self.weight).transpose(0, 1) + self.bias


class PeriodicEmbedding(nn.Module):
    """[cos v, sin v] with v = 2π c_j x_j, then a linear layer, and ReLU if activated (section 3.3): PLR, or PL without.

    The frequencies c_j are drawn from N(0, frequency_scale²), cut off at three standard deviations as in the authors'
    package; the scale is the parameter that matters most. The "lite" form (Gorishniy et al. 2024, TabR) shares the
    linear layer among all features.

    Shape: (rows, n_features) to (rows, n_features, d_embedding).
    """

    def __init__(
        self,
        n_features: int,
        *,
        n_frequencies: int = 48,
        frequency_scale: float = 0.01,
        d_embedding: int = 24,
        activated: bool = True,
        lite: bool = False,
    ) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.empty(n_features, n_frequencies))
        limit = 3 * frequency_scale
        nn.init.trunc_normal_(self.frequency, 0.0, frequency_scale, -limit, limit)
        d_in = 2 * n_frequencies
        self.linear = Linear(d_in, d_embedding) if lite else FeatureLinear(n_features, d_in, d_embedding)
        self.activated = activated

    def forward(self, x: Tensor) -> Tensor:
        angle = (2 * pi * self.frequency) * x.unsqueeze(-1)
        embedded = self.linear(torch.cat([angle.cos(), angle.sin()], dim=-1))
        return F.relu(embedded) if self.activated else embedded


class PBLDEmbedding(nn.Module):
    """A linear layer of cos(2π w_j x_j + b_j), and x_j itself beside it: periodic, with bias, linear and dense
    (Holzmüller et al. 2024, Better by Default).

    w_j is drawn from N(0, frequency_scale²) and b_j from U(-π, π).

    Shape: (rows, n_features) to (rows, n_features, d_embedding), the last of which is the feature itself.
    """

    def __init__(
        self, n_features: int, *, n_frequencies: int = 16, frequency_scale: float = 0.1, d_embedding: int = 4
    ) -> None:
        super().__init__()
        self.frequency = nn.Parameter(frequency_scale * torch.randn(n_features, n_frequencies))
        self.phase = nn.Parameter(torch.empty(n_features, n_frequencies).uniform_(-pi, pi))
        self.linear = FeatureLinear(n_features, n_frequencies, d_embedding - 1)

    def forward(self, x: Tensor) -> Tensor:
        wave = torch.addcmul(self.phase, x.unsqueeze(-1), 2 * pi * self.frequency).cos()
        return torch.cat([self.linear(wave), x.unsqueeze(-1)], dim=-1)
