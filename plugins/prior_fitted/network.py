"""A prior-fitted network for classification: it predicts query rows from labeled context rows in one pass, without training.

A token is a group of cells of a row, or the label of a row. Layers alternate attention over the tokens of a row with attention over
the rows of a column of tokens, where all rows attend to the context rows only (Hollmann et al. 2025, TabPFN v2). "Thinking" rows
are trained tokens that all rows attend to as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CELL_FEATURES = 4
LARGEST = 3.0
"""Standardized values beyond this are compressed by a logarithm."""
USUAL_CONTEXT = 512
"""Rows of context at which the learned scale of attention to rows has no effect."""


@dataclass(frozen=True)
class Size:
    """Dimensions of a network.

    Attributes:
        width: numbers of a token; a multiple of `heads`.
        hidden: hidden units of an MLP, in multiples of the width.
        group: columns of a token.
        tags: trained vectors by which groups differ.
        thinking: thinking rows.
        classes: most classes.
    """

    width: int = 192
    layers: int = 6
    heads: int = 6
    hidden: int = 3
    group: int = 4
    tags: int = 15
    thinking: int = 16
    classes: int = 10


@dataclass
class Kernels:
    """How the network computes; results differ by rounding.

    Attributes:
        few_keys: up to this many keys, attention is a product of small matrices instead of fused attention, whose tiles are larger.
        layer: computes a layer without a memory, as `fused_layer`; None for the layer's own operations.
    """

    few_keys: int = 16
    layer: Callable[..., Tensor] | None = None


KERNELS = Kernels()

SIZES = {"tiny": Size(width=64, layers=3, heads=4, hidden=2, thinking=4), "small": Size()}


def encode(values: Tensor, categorical: Tensor, n_context: int) -> Tensor:
    """What the network sees of a cell: its standardized value, its quantile in [-1, 1], and whether it is missing and a category.
    Only context rows count for the mean, the deviation and the quantiles. Missing cells have 0 for the first two numbers.

    Shape: (tables, rows, columns), NaN for missing cells, to (tables, rows, columns, `CELL_FEATURES`).
    """
    missing = values.isnan()
    filled = values.masked_fill(missing, 0.0)
    present = (~missing[:, :n_context]).float()
    count = present.sum(1, keepdim=True).clamp(min=1)
    context = filled[:, :n_context]
    mean = context.sum(1, keepdim=True) / count
    variance = ((context - mean).square() * present).sum(1, keepdim=True) / count
    z = (filled - mean) / (variance.sqrt() + 1e-6)
    z = torch.where(z.abs() > LARGEST, z.sign() * (LARGEST + (z.abs() - LARGEST + 1).clamp(min=1).log()), z).clamp(
        -20, 20
    )
    # Missing cells sort last, behind all that are searched.
    ordered = context.masked_fill(missing[:, :n_context], float("inf")).transpose(1, 2).sort(2).values
    searched = filled.transpose(1, 2).contiguous()
    ordered = ordered.contiguous()
    rank = torch.searchsorted(ordered, searched) + torch.searchsorted(ordered, searched, right=True)
    quantile = rank.transpose(1, 2) / count - 1
    kept = (~missing).float()
    flag = categorical.unsqueeze(1).expand_as(kept)
    return torch.stack([z * kept, quantile.clamp(-1, 1) * kept, missing.to(z.dtype), flag.to(z.dtype)], 3)


def norm(x: Tensor) -> Tensor:
    """The last dimension with mean 0 and standard deviation 1; the next layer's weights have the scales."""
    return F.layer_norm(x, (x.shape[-1],))


class Linear(nn.Module):
    """A linear map in the precision of its input."""

    def __init__(self, n_in: int, n_out: int, *, scale: float = 1.0, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) * (scale / math.sqrt(n_in)))
        self.bias = nn.Parameter(torch.zeros(n_out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype))


Memory = tuple[Tensor, Tensor]
"""Keys and values of the context rows in a layer, each (tables × tokens, heads, rows, width / heads)."""


class Attention(nn.Module):
    """Multi-head attention with normalized queries and keys. Shape: (batch, n, width), the first `n_keys` of which are attended to,
    or the rows of a memory.

    Args:
        by_rows: whether the sharpness depends on the number of keys, by a trained multiple of its logarithm.
    """

    def __init__(self, size: Size, *, by_rows: bool) -> None:
        super().__init__()
        self.query_key_value = Linear(size.width, 3 * size.width)
        self.output = Linear(size.width, size.width, scale=1 / math.sqrt(2 * size.layers))
        self.sharpness = nn.Parameter(torch.full((size.heads,), 1.0))
        self.growth = nn.Parameter(torch.zeros(size.heads)) if by_rows else None
        self.heads = size.heads

    def forward(self, x: Tensor, n_keys: int, memory: Memory | None = None) -> tuple[Tensor, Memory]:
        batch, n, width = x.shape
        n_keys = n_keys if memory is None else memory[0].shape[2]
        packed = self.query_key_value(x).view(batch, n, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)
        query = self._scaled(query, n_keys)
        key, value = memory or (norm(key[:, :, :n_keys]), value[:, :, :n_keys])
        if n_keys <= KERNELS.few_keys:
            scores = (query * (width / self.heads) ** -0.5) @ key.transpose(2, 3)
            attended = scores.float().softmax(3).to(value.dtype) @ value
        else:
            attended = F.scaled_dot_product_attention(query, key, value)
        return self.output(attended.transpose(1, 2).reshape(batch, n, width)), (key, value)

    def weights(self, x: Tensor, keys: Tensor) -> Tensor:
        """(batch, heads, n, n_keys) attention of (batch, n, width) tokens to the keys of a memory."""
        batch, n, width = x.shape
        packed = self.query_key_value(x).view(batch, n, 3, self.heads, width // self.heads)
        query = self._scaled(packed[:, :, 0].transpose(1, 2), keys.shape[2])
        return (query * (width / self.heads) ** -0.5 @ keys.transpose(2, 3)).float().softmax(3)

    def _scaled(self, query: Tensor, n_keys: int) -> Tensor:
        scale = self.sharpness
        if self.growth is not None:
            scale = scale + self.growth * math.log(n_keys / USUAL_CONTEXT)
        return norm(query) * (scale * query.shape[3] ** 0.25).to(query.dtype).view(1, -1, 1, 1)


class Layer(nn.Module):
    """Attention over the tokens of a row, attention over rows, and an MLP. Shape: (tables, rows, tokens, width) to itself."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.columns, self.rows = Attention(size, by_rows=False), Attention(size, by_rows=True)
        self.first = Linear(size.width, size.hidden * size.width)
        self.second = Linear(size.hidden * size.width, size.width, scale=1 / math.sqrt(2 * size.layers))

    def forward(
        self, x: Tensor, n_keys: int, memory: Memory | None = None, *, labels_only: bool = False
    ) -> tuple[Tensor, Memory]:
        """The tokens, and the memory of the context rows, which another call takes instead of them. With `labels_only`, the tokens
        are those of the labels alone after the attention over columns.
        """
        tables, rows, tokens, width = x.shape
        x = x + self.columns(norm(x).view(tables * rows, tokens, width), tokens)[0].view(x.shape)
        x = x[:, :, -1:] if labels_only else x
        by_row = norm(x).transpose(1, 2).reshape(-1, rows, width)
        attended, kept = self.rows(by_row, n_keys, memory)
        x = x + attended.view(tables, -1, rows, width).transpose(1, 2)
        return x + self.second(F.relu(self.first(norm(x))).square()), kept

    def row_attention(self, x: Tensor, memory: Memory) -> Tensor:
        """(tables, heads, rows, keys) attention of the label tokens to those of the rows of a memory."""
        tables, rows, tokens, width = x.shape
        x = (x + self.columns(norm(x).view(tables * rows, tokens, width), tokens)[0].view(x.shape))[:, :, -1]
        keys = memory[0].view(tables, -1, *memory[0].shape[1:])[:, -1]
        return self.rows.weights(norm(x), keys)


class PriorFittedNetwork(nn.Module):
    """The network. Predictions do not depend on the order of context rows; query rows do not affect each other."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.cells = Linear(size.group * CELL_FEATURES, size.width, bias=True)
        self.tags = nn.Parameter(torch.randn(size.tags, size.width) * 0.3)
        self.labels = nn.Parameter(torch.randn(size.classes + 1, size.width))
        self.thinking = nn.Parameter(torch.randn(size.thinking, size.width) * 0.3)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.decoder = nn.Sequential(
            Linear(size.width, 2 * size.width, bias=True), nn.GELU(), Linear(2 * size.width, size.classes, bias=True)
        )

    def forward(self, cells: Tensor, labels: Tensor, precision: torch.dtype = torch.float32) -> Tensor:
        """Logits of the query rows in float32; classes without a context row have -inf.

        Args:
            cells: (tables, context and query rows, columns, `CELL_FEATURES`) from `encode`.
            labels: (tables, context rows) classes from 0.
        """
        x = torch.cat([self._thinking(cells, precision), self._tokens(cells, labels, precision)], 1)
        n_keys = self.size.thinking + labels.shape[1]
        if KERNELS.layer is None:
            x, _ = self._layers(x, n_keys)
        else:
            for i, layer in enumerate(self.layers):
                x = KERNELS.layer(layer, x, n_keys, labels_only=i == len(self.layers) - 1)
        return self._logits(x[:, self.size.thinking + labels.shape[1] :], labels)

    def read(self, cells: Tensor, labels: Tensor, precision: torch.dtype = torch.float32) -> list[Memory]:
        """The memories of the context rows in all layers, which `answer` takes instead of the rows. Arguments as in `forward`."""
        x = torch.cat([self._thinking(cells, precision), self._tokens(cells, labels, precision)], 1)
        return self._layers(x, x.shape[1])[1]

    def answer(self, cells: Tensor, labels: Tensor, memories: list[Memory]) -> Tensor:
        """Logits of query rows, as `forward` gives.

        Args:
            cells: (tables, query rows, columns, `CELL_FEATURES`), encoded beside the context rows.
            labels: (tables, context rows) classes from 0.
        """
        unknown = labels[:, :0]
        x = self._tokens(cells, unknown, memories[0][0].dtype)
        return self._logits(self._layers(x, 0, memories)[0], labels)

    def attention(self, cells: Tensor, labels: Tensor, memories: list[Memory]) -> list[Tensor]:
        """(tables, heads, query rows, context rows) attention of the labels of query rows to those of the context in each layer,
        which sums to 1 without the thinking rows. Arguments as of `answer`.
        """
        x = self._tokens(cells, labels[:, :0], memories[0][0].dtype)
        found: list[Tensor] = []
        for i, (layer, memory) in enumerate(zip(self.layers, memories, strict=True)):
            weights = cast(Layer, layer).row_attention(x, memory)[:, :, :, self.size.thinking :]
            found.append(weights / weights.sum(3, keepdim=True).clamp(min=1e-30))
            x, _ = layer(x, 0, memory, labels_only=i == len(self.layers) - 1)
        return found

    def _layers(self, x: Tensor, n_keys: int, memories: list[Memory] | None = None) -> tuple[Tensor, list[Memory]]:
        kept: list[Memory] = []
        for i, layer in enumerate(self.layers):
            memory = None if memories is None else memories[i]
            x, memory = layer(x, n_keys, memory, labels_only=i == len(self.layers) - 1)
            kept.append(memory)
        return x, kept

    def _tags(self, columns: int, precision: torch.dtype) -> Tensor:
        groups = math.ceil(columns / self.size.group)
        return self.tags[torch.arange(groups, device=self.tags.device) % self.size.tags].to(precision)

    def _tokens(self, cells: Tensor, labels: Tensor, precision: torch.dtype) -> Tensor:
        """(tables, rows, groups and the label, width) tokens of rows, the first of which have the labels."""
        size = self.size
        tables, rows, columns, _ = cells.shape
        tags = self._tags(columns, precision)
        cells = F.pad(cells, (0, 0, 0, -columns % size.group))
        x = self.cells(cells.reshape(tables, rows, len(tags), size.group * CELL_FEATURES).to(precision)) + tags
        # The last vector is the label of a query row.
        known = F.pad(labels, (0, rows - labels.shape[1]), value=size.classes)
        return torch.cat([x, F.embedding(known, self.labels).to(precision).unsqueeze(2)], 2)

    def _thinking(self, cells: Tensor, precision: torch.dtype) -> Tensor:
        tags = self._tags(cells.shape[2], precision)
        tagged = torch.cat([tags, torch.zeros_like(tags[:1])]) + self.thinking.to(precision).unsqueeze(1)
        return tagged.expand(len(cells), -1, -1, -1)

    def _logits(self, x: Tensor, labels: Tensor) -> Tensor:
        logits = cast(Tensor, self.decoder(norm(x[:, :, -1]))).float()
        occurs = torch.zeros(len(x), self.size.classes, dtype=torch.bool, device=x.device).scatter_(1, labels, True)
        return logits.masked_fill(~occurs.unsqueeze(1), float("-inf"))
