"""Numeric columns as vectors (Gorishniy et al. 2022, On Embeddings for Numerical Features in Tabular Deep Learning)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabapp.nn.tokenizers import NumericTokenizer

LEAST_BIN_WIDTH = 1e-4
QUANTILE_ROWS = 2**23
OPEN = 1e38
"""The bound of an open bin: finite, so that running averages of a network's state stay so."""


def bin_edges(column: Tensor, n_bins: int) -> Tensor:
    """At most n_bins + 1 rising edges at the quantiles of a (rows,) column; those that coincide count once.

    NOTE[DIFF]: edges nearer to the one before than 1e-4 are left out. The outer bins are open, and in a bin of no width
    a value beyond the edge would become a huge one.
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
        """Put the edges of the bins at the quantiles of (rows, n_features) training values."""
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
