"""Embeddings of categorical columns for networks with a flat input."""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.features.arrays import UNSEEN
from tabapp.nn.layers.gather import EmbeddingGather, OneHotGather, is_preferred


def embedding_width(cardinality: int) -> int:
    """Width of a column's embedding by its number of codes: min(64, round(1.6 · cardinality^0.56)).

    NOTE[DIFF]: Gorishniy et al. 2021 tune one width in [64, 512] for all columns, which is too large for most tables. This
    is the rule of fastai and AutoGluon.
    """
    return min(64, round(1.6 * cardinality**0.56))


class FlatInput(nn.Module):
    """Numeric columns concatenated with an embedding of each categorical column.

    Shape: (rows, n_numeric) and (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, n_numeric: int, cardinalities: tuple[int, ...]) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(c, embedding_width(c)) for c in cardinalities])
        for embedding in self.embeddings:
            assert isinstance(embedding, nn.Embedding)
            bound = embedding.embedding_dim**-0.5
            nn.init.uniform_(embedding.weight, -bound, bound)
        widths = [embedding_width(c) for c in cardinalities]
        self.d_out = n_numeric + sum(widths)
        self._gather = EmbeddingGather(range(len(cardinalities)), cardinalities, widths)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        if not len(self.embeddings):
            return numeric
        if is_preferred(categorical):
            return torch.cat([numeric, self._gather(self.embeddings, categorical)], dim=1)
        columns = categorical.unbind(1)
        return torch.cat([numeric, *(e(c) for e, c in zip(self.embeddings, columns, strict=True))], dim=1)


class _Gathers:
    """The columns of one-hot and embedded categories, each side by side.

    Attributes:
        order: the output column of each column of the one-hot and then the embedded ones.
    """

    def __init__(self, cardinalities: tuple[int, ...], widths: tuple[int, ...], embedded: list[int]) -> None:
        among = set(embedded)
        one_hot = [i for i in range(len(cardinalities)) if i not in among]
        self.embedded = EmbeddingGather(embedded, [cardinalities[i] for i in embedded], [widths[i] for i in embedded])
        self.one_hot = OneHotGather(
            [i for i in one_hot for _ in range(widths[i])], [1 + UNSEEN + j for i in one_hot for j in range(widths[i])]
        )
        starts = [0, *accumulate(widths)]
        self.order = [starts[i] + j for i in (*one_hot, *embedded) for j in range(widths[i])]


class OneHotOrEmbedding(nn.Module):
    """Categorical columns as one-hot vectors, or as embeddings where they have many codes.

    An unseen level is all zeros in a one-hot vector. `widths` holds the number of output columns of each categorical column.

    Shape: (rows, n_categorical) codes to (rows, d_out).
    """

    def __init__(self, cardinalities: tuple[int, ...], *, most_one_hot: int) -> None:
        super().__init__()
        self.cardinalities = cardinalities
        self.embeddings = nn.ModuleDict()
        widths: list[int] = []
        for i, cardinality in enumerate(cardinalities):
            if cardinality <= most_one_hot:
                widths.append(cardinality - 1)
            else:
                embedding = nn.Embedding(cardinality, embedding_width(cardinality))
                bound = embedding.embedding_dim**-0.5
                nn.init.uniform_(embedding.weight, -bound, bound)
                self.embeddings[str(i)] = embedding
                widths.append(embedding.embedding_dim)
        self.widths = tuple(widths)
        self.d_out = sum(widths)
        self._gathers: _Gathers | None = None
        self._places: Tensor | None = None

    def _at_once(self, codes: Tensor) -> Tensor:
        # Not at construction: a damaged file may claim far more levels than its weights have.
        if self._gathers is None:
            self._gathers = _Gathers(self.cardinalities, self.widths, [int(i) for i in self.embeddings])
        parts = [self._gathers.one_hot(codes)]
        if self.embeddings:
            parts.append(self._gathers.embedded(self.embeddings.values(), codes))
        joined = torch.cat(parts, dim=1)
        order = self._gathers.order
        if order == sorted(order):
            return joined
        if self._places is None or self._places.device != codes.device:
            # Not `argsort` on the device, which would wait for it.
            places = sorted(range(len(order)), key=order.__getitem__)
            self._places = torch.tensor(places, device=codes.device)
        return joined.index_select(1, self._places)

    def forward(self, codes: Tensor) -> Tensor:
        if self.d_out and is_preferred(codes):
            return self._at_once(codes)
        parts = [torch.zeros(codes.shape[0], 0, device=codes.device)]
        for i, column in enumerate(codes.unbind(1)):
            if str(i) in self.embeddings:
                parts.append(self.embeddings[str(i)](column))
            else:
                parts.append(F.one_hot(column, self.cardinalities[i])[:, UNSEEN + 1 :].float())
        return torch.cat(parts, dim=1)
