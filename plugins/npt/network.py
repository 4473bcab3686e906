"""The network of NPT: Kossen et al. 2021, sections 2.1 to 2.5 and appendices C.2 and C.3.

Rows are "datapoints" and columns "attributes" in the paper; targets are attributes too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.nn.layers.attention import MANY_TOKENS, ShortSoftmax
from tabapp.nn.layers.dropout import Dropout, dropout
from tabapp.nn.layers.linear import Linear, linear
from tabapp.nn.layers.tokenizers import uniform_rows

N_TYPES = 2
Attention = Literal["both", "rows", "attributes"]


class Attributes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The columns: numeric ones first, then categorical ones.

    Attributes:
        n_numeric: number of numeric attributes.
        n_levels: number of levels of each categorical attribute.
        targets: indices of the predicted attributes: none, one or several, numeric or categorical.
    """

    n_numeric: int
    n_levels: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.n_numeric + len(self.n_levels)


@dataclass(frozen=True)
class Entries:
    """Input rows of the network: X and M of section 2.1.

    Attributes:
        numeric: (rows, n_numeric) float32, standardized.
        categorical: (rows, n_categorical) int64 levels from 0.
        hidden: (rows, n_attributes) bool mask of missing entries and entries to predict. Their content has no effect.
    """

    numeric: Tensor
    categorical: Tensor
    hidden: Tensor

    def __len__(self) -> int:
        return len(self.hidden)

    def take(self, rows: Tensor | slice) -> Entries:
        """Select rows."""
        return Entries(self.numeric[rows], self.categorical[rows], self.hidden[rows])

    def to(self, device: torch.device) -> Entries:
        """Copy to another device."""
        return Entries(self.numeric.to(device), self.categorical.to(device), self.hidden.to(device))

    def hiding(self, attributes: tuple[int, ...]) -> Entries:
        """Hide all entries of some attributes."""
        hidden = self.hidden.clone()
        hidden[:, list(attributes)] = True
        return Entries(self.numeric, self.categorical, hidden)

    @staticmethod
    def joined(parts: list[Entries]) -> Entries:
        """Concatenate rows."""
        return Entries(
            torch.cat([part.numeric for part in parts]),
            torch.cat([part.categorical for part in parts]),
            torch.cat([part.hidden for part in parts]),
        )


@dataclass(frozen=True)
class Predicted:
    """Predictions of every entry: (rows, n_numeric) standardized values, and (rows, n_levels) logits for each
    categorical attribute.
    """

    numeric: Tensor
    logits: list[Tensor]


class InputEmbedding(nn.Module):
    """H⁰ of equation 22: encoded entry and mask bit, multiplied by the attribute's weights, plus embeddings of the
    attribute and of its type.

    Shape: entries of n rows to (n, n_attributes, d_embedding).
    """

    def __init__(self, attributes: Attributes, d_embedding: int, dropout: float) -> None:
        super().__init__()
        self.n_numeric = attributes.n_numeric
        self.numeric = uniform_rows(attributes.n_numeric, d_embedding)
        # The product of a one-hot row and a weight is a lookup in one table of the levels of all attributes.
        self.levels = uniform_rows(sum(attributes.n_levels), d_embedding)
        self.mask = uniform_rows(len(attributes), d_embedding)
        self.index = uniform_rows(len(attributes), d_embedding)
        both = 0 < attributes.n_numeric < len(attributes)
        self.kind = uniform_rows(N_TYPES, d_embedding) if both else None
        self.dropout = Dropout(dropout)
        offsets = torch.tensor((0, *attributes.n_levels[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets[: len(attributes.n_levels)], persistent=False)
        self.offsets: Tensor

    def forward(self, entries: Entries) -> Tensor:
        n_numeric = self.n_numeric
        shown = entries.numeric.masked_fill(entries.hidden[:, :n_numeric], 0.0)
        parts = [shown.unsqueeze(2) * self.numeric]
        if len(self.offsets):
            hidden = entries.hidden[:, n_numeric:]
            levels = F.embedding(entries.categorical.masked_fill(hidden, 0) + self.offsets, self.levels)
            parts.append(levels.masked_fill(hidden.unsqueeze(2), 0.0))
        tokens = torch.cat(parts, dim=1) + entries.hidden.unsqueeze(2) * self.mask + self.index
        if self.kind is not None:
            tokens[:, :n_numeric] += self.kind[0]
            tokens[:, n_numeric:] += self.kind[1]
        return self.dropout(tokens)


class OutputEmbedding(nn.Module):
    """Z of equation 25: a linear head for each attribute. Shape: (n, n_attributes, d_embedding) to `Predicted` of n rows."""

    def __init__(self, attributes: Attributes, d_embedding: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.numeric = uniform_rows(attributes.n_numeric, d_embedding)
        self.bias = nn.Parameter(torch.zeros(attributes.n_numeric))
        self.heads = nn.ModuleList([Linear(d_embedding, n) for n in attributes.n_levels])

    def forward(self, tokens: Tensor) -> Predicted:
        tokens = self.dropout(tokens)
        n_numeric = len(self.bias)
        numeric = (tokens[:, :n_numeric] * self.numeric).sum(dim=2) + self.bias
        return Predicted(numeric, [head(tokens[:, n_numeric + j]) for j, head in enumerate(self.heads)])


def attend(query: Tensor, key: Tensor, value: Tensor, dropout_rate: float) -> Tensor:
    """softmax(Q Kᵀ) V with dropout on the probabilities; queries are already scaled.

    Training on a CPU uses separate operations and the dropout of `tabapp.nn`, because torch's fused kernel has no
    dropout there.
    """
    if query.device.type != "cpu" or not dropout_rate:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_rate, scale=1.0)
    scores = query @ key.transpose(2, 3)
    short = scores.shape[3] <= MANY_TOKENS
    probabilities: Any = ShortSoftmax.apply(scores) if short else torch.softmax(scores, dim=3)
    return dropout(probabilities.to(value.dtype), dropout_rate) @ value


class SelfAttentionBlock(nn.Module):
    """MHSA of equations 4 and 5: H·W_res + MHSelfAtt(LN(H)), and a row-wise feed-forward network around that, each with a
    residual branch. 13·h² + 14·h parameters.

    The scale is 1/√h with h the full width, as in equation 1, not the width of a head. With `normalize_keys` False, as
    in the authors' code, only the inputs of queries are normalized.

    Without `attends`, each element attends to itself only, so that its attended value is its own.

    Shape: (sets, n, h) to the same shape; attention is within each set.
    """

    def __init__(self, width: int, n_heads: int, dropout: float, *, normalize_keys: bool, attends: bool = True) -> None:
        super().__init__()
        self.attends = attends
        self.attention_normalization = nn.LayerNorm(width, eps=1e-12)
        self.query_key_value = Linear(width, 3 * width)
        self.mix = Linear(width, width)
        self.residual = Linear(width, width)
        self.ffn_normalization = nn.LayerNorm(width, eps=1e-12)
        self.ffn = nn.Sequential(
            Linear(width, 4 * width), nn.GELU(), Dropout(dropout), Linear(4 * width, width), Dropout(dropout)
        )
        self.dropout = Dropout(dropout)
        self.n_heads, self.rate, self.normalize_keys = n_heads, dropout, normalize_keys

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (sets, n_heads, n, h / n_heads); the scale 1/√h is in the queries."""
        width = x.shape[2]
        normal = self.attention_normalization(x)
        if self.normalize_keys:
            query, key, value = self.query_key_value(normal).split(width, dim=2)
        else:
            weight, bias = self.query_key_value.weight, self.query_key_value.bias
            query = linear(normal, weight[:width], bias[:width])
            key, value = linear(x, weight[width:], bias[width:]).split(width, dim=2)
        query, key, value = (t.unflatten(2, (self.n_heads, -1)).transpose(1, 2) for t in (query, key, value))
        return query * width**-0.5, key, value

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """The part of the block after attention; `attended` is (sets, n_heads, n, h / n_heads)."""
        x = self.residual(x) + self.dropout(self.mix(attended.transpose(1, 2).flatten(2)))
        return x + self.ffn(self.ffn_normalization(x))

    def probabilities(self, x: Tensor) -> Tensor:
        """(sets, n_heads, n, n): attention probabilities without dropout."""
        query, key, _ = self.project(x)
        return torch.softmax(query @ key.transpose(2, 3), dim=3)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x)
        rate = self.rate if self.training else 0.0
        return self.finish(x, attend(query, key, value, rate) if self.attends else value)


@dataclass(frozen=True)
class Memory:
    """Keys and values of the context's rows, (1, n_heads, n_context, h / n_heads), for each block between rows.
    Predicted rows attend to them.
    """

    keys: list[Tensor]
    values: list[Tensor]

    def __len__(self) -> int:
        return self.keys[0].shape[2]


class NPTNetwork(nn.Module):
    """Attention between rows over flat rows of width n_attributes · d_embedding, alternating with attention between the
    attributes of each row.

    In `forward`, every row attends to every row, as in the paper. For predictions, `remember` processes a context once,
    and in `recall` each row attends to the context and to itself, but not to other rows.
    """

    def __init__(
        self,
        attributes: Attributes,
        *,
        d_embedding: int,
        n_layers: int,
        n_heads: int,
        dropout: float,
        normalize_keys: bool,
        attention: Attention = "both",
    ) -> None:
        super().__init__()
        if n_layers % 2:
            raise ValueError(
                f"n_layers is {n_layers}, but must be even: attention between rows and attributes alternates"
            )
        self.attributes = attributes
        self.embedding = InputEmbedding(attributes, d_embedding, dropout)
        widths = (len(attributes) * d_embedding, d_embedding)
        self.blocks = nn.ModuleList()
        for i in range(n_layers):
            between_rows = i % 2 == 0
            if attention == "rows" and not between_rows:
                self.blocks.append(nn.Identity())
                continue
            attends = attention != "attributes" or not between_rows
            self.blocks.append(
                SelfAttentionBlock(widths[i % 2], n_heads, dropout, normalize_keys=normalize_keys, attends=attends)
            )
        self.output = OutputEmbedding(attributes, d_embedding, dropout)

    def pairs(self) -> list[tuple[SelfAttentionBlock, nn.Module]]:
        """Pairs of a block between rows and the following block between attributes, which is the identity if left out."""
        found: list[tuple[SelfAttentionBlock, nn.Module]] = []
        for between_rows, between_attributes in zip(self.blocks[::2], self.blocks[1::2], strict=True):
            assert isinstance(between_rows, SelfAttentionBlock)
            found.append((between_rows, between_attributes))
        return found

    def forward(self, entries: Entries, n_sets: int = 1) -> Predicted:
        """Predict every entry. The rows are `n_sets` concatenated tables of equal length, which do not attend to each
        other.
        """
        tokens = self.embedding(entries)
        for between_rows, between_attributes in self.pairs():
            tokens = between_rows(tokens.flatten(1).unflatten(0, (n_sets, -1))).view_as(tokens)
            tokens = between_attributes(tokens)
        return self.output(tokens)

    def remember(self, context: Entries) -> Memory:
        """Compute the keys and values of a context, whose rows attend to one another."""
        tokens = self.embedding(context)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for between_rows, between_attributes in self.pairs():
            flat = tokens.flatten(1).unsqueeze(0)
            query, key, value = between_rows.project(flat)
            keys.append(key)
            values.append(value)
            attended = attend(query, key, value, 0.0) if between_rows.attends else value
            tokens = between_attributes(between_rows.finish(flat, attended).view_as(tokens))
        return Memory(keys, values)

    def recall(self, entries: Entries, memory: Memory) -> Predicted:
        """Predict rows from a context.

        NOTE[DIFF]: in section 2.2, predicted rows attend to each other and the context attends to them, so that a
        prediction depends on the other predicted rows. Here each predicted row attends only to the context and to itself,
        and the context does not attend to it.
        """
        return self.recall_embedded(self.embedding(entries), memory)

    def recall_embedded(self, tokens: Tensor, memory: Memory) -> Predicted:
        """As `recall`, from (rows, n_attributes, d_embedding) embedded rows."""
        return self.output(self._recall(tokens, memory))

    def attention_between_attributes(self, entries: Entries, memory: Memory) -> list[Tensor]:
        """The (rows, n_heads, n_attributes, n_attributes) attention of each block between the attributes of a row."""
        found: list[Tensor] = []
        self._recall(self.embedding(entries), memory, between_attributes=found)
        return found

    def attention_between_rows(self, entries: Entries, memory: Memory) -> list[Tensor]:
        """The (n_heads, rows, n_context) attention of each block between rows to the rows of the context, without the
        attention of a row to itself."""
        found: list[Tensor] = []
        self._recall(self.embedding(entries), memory, between_rows=found)
        return found

    def _recall(
        self,
        tokens: Tensor,
        memory: Memory,
        *,
        between_rows: list[Tensor] | None = None,
        between_attributes: list[Tensor] | None = None,
    ) -> Tensor:
        """The last tokens; appends the attention of each block to the lists."""
        for (row_block, attribute_block), keys, values in zip(self.pairs(), memory.keys, memory.values, strict=True):
            flat = tokens.flatten(1).unsqueeze(0)
            query, key, value = row_block.project(flat)
            scores = torch.cat([query @ keys.transpose(2, 3), (query * key).sum(3, keepdim=True)], dim=3)
            probabilities = torch.softmax(scores, dim=3)
            if not row_block.attends:
                probabilities = torch.zeros_like(probabilities)
                probabilities[..., -1] = 1.0
            to_context, to_self = probabilities[..., :-1], probabilities[..., -1:]
            if between_rows is not None:
                between_rows.append(to_context[0])
            flat = row_block.finish(flat, to_context @ values + to_self * value)
            tokens = flat.view_as(tokens)
            if between_attributes is not None and isinstance(attribute_block, SelfAttentionBlock):
                between_attributes.append(attribute_block.probabilities(tokens))
            tokens = attribute_block(tokens)
        return tokens
