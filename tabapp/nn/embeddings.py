"""Embeddings of categorical columns for networks with a flat input."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.features.arrays import UNSEEN


def embedding_width(cardinality: int) -> int:
    """Width of a column's embedding by its number of codes: min(64, round(1.6 · cardinality^0.56)).

    NOTE[DIFF]: the paper tunes one width in [64, 512] for all columns, which is too large for most tables. This is the rule
    of fastai and AutoGluon.
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
        self.d_out = n_numeric + sum(embedding_width(c) for c in cardinalities)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        if not len(self.embeddings):
            return numeric
        columns = categorical.unbind(1)
        return torch.cat([numeric, *(e(c) for e, c in zip(self.embeddings, columns, strict=True))], dim=1)


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

    def forward(self, codes: Tensor) -> Tensor:
        parts = [torch.zeros(len(codes), 0, device=codes.device)]
        for i, column in enumerate(codes.unbind(1)):
            if str(i) in self.embeddings:
                parts.append(self.embeddings[str(i)](column))
            else:
                parts.append(F.one_hot(column, self.cardinalities[i])[:, UNSEEN + 1 :].float())
        return torch.cat(parts, dim=1)
