"""Additive and multiplicative attention: the arithmetic block of AMFormer (Cheng et al. 2024, section 4)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.nn.layers.attention import SelfAttention, ShortSoftmax, sized
from tabapp.nn.layers.dropout import dropout
from tabapp.nn.layers.linear import Linear
from tabapp.nn.layers.precision import at_least_float32

MANY_TOKENS = 128
"""Above so many tokens, only the selected keys and values are multiplied, in training too."""
SELECTION_SCORES = 2**24
"""How many scores are held at a time to select from (64 MB)."""


def logarithm(x: Tensor, epsilon: float) -> Tensor:
    """log(ReLU(x) + ε) in float32 (eq. 2). Shape: any to itself."""
    return torch.log(F.relu(at_least_float32(x)) + epsilon)


def bounded_exponential(x: Tensor, bound: float) -> Tensor:
    """exp(c·tanh(x/c)) in float32: close to exp(x) for |x| far below c, and at most e^c. Shape: any to itself."""
    return torch.exp(bound * torch.tanh(at_least_float32(x) / bound))


def softmax(scores: Tensor) -> Tensor:
    """Over the last dimension, in float32."""
    probabilities: Any = ShortSoftmax.apply(scores)
    return probabilities


class HardAttention(nn.Module):
    """Multi-head attention in which each query keeps the `top_k` tokens with the highest scores, without biases and
    without a projection of its output (section 4.1).

    All other scores are set to minus infinity, so exactly `top_k` probabilities are nonzero, even with ties. Queries are
    projections of the tokens, or trained vectors shared by all rows, the prompts (section 4.2). With prompts, time and
    memory are linear in the number of tokens.

    NOTE[DIFF]: the authors' code selects tokens and then drops their probabilities, so that neither prompts nor keys are
    trained. This implementation follows the paper and trains both. Scores are divided by the square root of the head size,
    as in multi-head attention; eq. 3 has one head.

    Shape: (rows, n_tokens, d_token) to (rows, n_prompts or n_tokens, d_token).
    """

    def __init__(self, d_token: int, n_heads: int, *, n_prompts: int | None, top_k: int, dropout: float) -> None:
        super().__init__()
        self.prompts = None if n_prompts is None else nn.Parameter(torch.randn(n_prompts, d_token) * d_token**-0.5)
        self.query = Linear(d_token, d_token, bias=False) if n_prompts is None else None
        self.key = Linear(d_token, d_token, bias=False)
        self.value = Linear(d_token, d_token, bias=False)
        self.n_heads = n_heads
        self.top_k = top_k
        self.dropout = dropout

    def forward(self, tokens: Tensor) -> Tensor:
        n_tokens = tokens.shape[1]
        query, key, value = self._queries(tokens), self._heads(self.key(tokens)), self._heads(self.value(tokens))
        if n_tokens > max(MANY_TOKENS, self.top_k):
            attended = self._attend_selected(query, key, value)
        else:
            attended = self._dropped(self._probabilities(query, key)).to(value.dtype) @ value
        return attended.transpose(1, 2).flatten(2)

    def probabilities(self, tokens: Tensor) -> Tensor:
        """(rows, n_heads, n_queries, n_tokens): attention probabilities of each query, without dropout."""
        return self._probabilities(self._queries(tokens), self._heads(self.key(tokens)))

    def _probabilities(self, query: Tensor, key: Tensor) -> Tensor:
        scores = query @ key.transpose(2, 3)
        if scores.shape[3] <= self.top_k:
            return softmax(scores)
        highest, selected = scores.topk(self.top_k, sorted=False)
        probabilities = softmax(highest)
        return probabilities.new_zeros(scores.shape).scatter(3, selected, probabilities)

    def _attend_selected(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend to the selected tokens only, the only ones with a gradient."""
        n_rows, n_heads, n_tokens, d_head = key.shape
        with torch.no_grad():
            n_together = max(1, SELECTION_SCORES // (n_heads * query.shape[2] * n_tokens))
            pairs = zip(query.expand(n_rows, -1, -1, -1).split(n_together), key.split(n_together), strict=True)
            selected = torch.cat([(q @ k.transpose(2, 3)).topk(self.top_k, sorted=False).indices for q, k in pairs])
            # Positions in all rows' and heads' tokens, one below the other.
            first = torch.arange(n_rows * n_heads, device=key.device).view(n_rows, n_heads, 1, 1) * n_tokens
            selected += first
        selected_key = F.embedding(selected, key.reshape(-1, d_head))
        probabilities = softmax((selected_key @ query.unsqueeze(4)).squeeze(4))
        weights = self._dropped(probabilities).to(value.dtype)
        return (weights.unsqueeze(3) @ F.embedding(selected, value.reshape(-1, d_head))).squeeze(3)

    def sized_probabilities(self, tokens: Tensor) -> Tensor:
        """`probabilities`, weighted by the norms of the values."""
        return sized(self.probabilities(tokens), self._heads(self.value(tokens)).norm(dim=3))

    def _dropped(self, probabilities: Tensor) -> Tensor:
        return dropout(probabilities, self.dropout) if self.training and self.dropout else probabilities

    def _queries(self, tokens: Tensor) -> Tensor:
        """(rows, n_heads, n_queries, d_head), scaled; one row for prompts."""
        if self.prompts is not None:
            query = self.prompts.unsqueeze(0)
        else:
            assert self.query is not None
            query = self.query(tokens)
        query = self._heads(query)
        return query * query.shape[3] ** -0.5

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)


class ProductAttention(nn.Module):
    """Attention over logarithms, whose weighted sums are products: exp(Attention(log(ReLU(x) + ε))) (section 4.1).

    It is computed in float32 even under autocast, because an error of the logarithm is a relative error of the product.

    NOTE[DIFF]: with ε = 1, as in the authors' code, log(1 + ReLU(x)) is smooth at zero; a tiny ε maps every negative value
    to the same large negative logarithm with zero gradient. The exponential is bounded. The authors' code scales its
    argument by the minimum and maximum over the batch instead, so that a prediction depends on the other rows of the batch.

    Shape: (rows, n_tokens, d_token) to (rows, n_prompts or n_tokens, d_token).
    """

    def __init__(self, attention: HardAttention, *, epsilon: float = 1.0, bound: float = 8.0) -> None:
        super().__init__()
        self.attention = attention
        self.epsilon = epsilon
        self.bound = bound

    def forward(self, tokens: Tensor) -> Tensor:
        with torch.autocast(tokens.device.type, enabled=False):
            return bounded_exponential(self.attention(logarithm(tokens, self.epsilon)), self.bound)

    def probabilities(self, tokens: Tensor) -> Tensor:
        """As `HardAttention.probabilities`."""
        return self.attention.probabilities(logarithm(tokens, self.epsilon))

    def sized_probabilities(self, tokens: Tensor) -> Tensor:
        """As `HardAttention.sized_probabilities`, of the logarithms."""
        return self.attention.sized_probabilities(logarithm(tokens, self.epsilon))


class ArithmeticBlock(nn.Module):
    """Sums and products of features, concatenated and mixed by a linear layer over the token axis: FC([O_A; O_M]ᵀ)ᵀ (eq. 4).

    NOTE[DIFF]: FC has no bias, because the next layer normalization would remove it.

    Args:
        additive: attention that computes the first `n_sums` candidates from normalized tokens; None leaves this stream out.
        multiplicative: attention that computes `n_products` further candidates from the tokens; None leaves this stream out.
        n_out: number of output tokens.
        normalization: layer normalization before the additive stream; None in the first block, where it would remove the
            scale of the features.

    Shape: (rows, n_tokens, d_token) to (rows, n_out, d_token).
    """

    def __init__(
        self,
        additive: SelfAttention | HardAttention | None,
        n_sums: int,
        multiplicative: ProductAttention | None,
        n_products: int,
        n_out: int,
        normalization: nn.LayerNorm | None,
    ) -> None:
        super().__init__()
        self.normalization = normalization
        self.additive = additive
        self.multiplicative = multiplicative
        n_candidates = n_sums * (additive is not None) + n_products * (multiplicative is not None)
        self.fusion = Linear(n_candidates, n_out, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        candidates: list[Tensor] = []
        if self.additive is not None:
            candidates.append(self.additive(tokens if self.normalization is None else self.normalization(tokens)))
        if self.multiplicative is not None:
            candidates.append(self.multiplicative(tokens))
        return mix_tokens(self.fusion, torch.cat(candidates, dim=1))


def mix_tokens(linear: nn.Linear, tokens: Tensor) -> Tensor:
    """A linear layer without bias over the token dimension, in float32.

    Shape: (rows, in_features, d_token) to (rows, out_features, d_token).
    """
    with torch.autocast(tokens.device.type, enabled=False):
        return torch.bmm(linear.weight.expand(tokens.shape[0], -1, -1), at_least_float32(tokens))
