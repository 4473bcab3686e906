"""Self-attention over feature tokens (Vaswani et al. 2017)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.nn.dropout import dropout

MANY_TOKENS = 64


class ShortSoftmax(torch.autograd.Function):
    """Softmax over a short last dimension, in float32.

    torch's own takes rows one by one on a CPU: six times as long as these whole-tensor operations at 15 tokens.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        exponents = x.float().sub(x.amax(-1, keepdim=True)).exp_()
        probabilities = exponents.div_(exponents.sum(-1, keepdim=True))
        ctx.save_for_backward(probabilities)
        return probabilities

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (probabilities,) = ctx.saved_tensors
        product = grad_outputs[0] * probabilities
        return product.sub_(probabilities * product.sum(-1, keepdim=True))


def attend(query: Tensor, key: Tensor, value: Tensor, dropout_rate: float) -> Tensor:
    """Scaled dot-product attention: (rows, n_heads, n_queries, d_head) queries over (rows, n_heads, n_tokens, d_head)
    keys.

    For few tokens on a CPU it is spelled out, which is faster there than the fused kernel and its backward pass.
    """
    if query.device.type != "cpu" or key.shape[2] > MANY_TOKENS:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_rate)
    scores = query @ (key * key.shape[3] ** -0.5).transpose(2, 3)
    probabilities: Any = ShortSoftmax.apply(scores)
    if dropout_rate:
        probabilities = dropout(probabilities, dropout_rate)
    return probabilities.to(value.dtype) @ value


class SelfAttention(nn.Module):
    """Multi-head self-attention with dropout on the probabilities.

    Queries, keys and values have one weight of 3 · d_token rows, drawn as three separate linear layers would be; all
    biases start at zero (Gorishniy et al. 2021, the authors' code), except the one of the output, which does too.

    Shape: (rows, n_tokens, d_token) to (rows, n_queries, d_token), with n_queries = 1 for the [CLS] token alone, else
    n_tokens.
    """

    def __init__(self, d_token: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(d_token, 3 * d_token)
        self.output = nn.Linear(d_token, d_token)
        nn.init.zeros_(self.query_key_value.bias)
        nn.init.zeros_(self.output.bias)
        self.n_heads = n_heads
        self.dropout = dropout

    def forward(self, tokens: Tensor, *, cls_only: bool = False) -> Tensor:
        if cls_only:
            query, key, value = self._cls_query(tokens), *self._project(tokens, 1, 3)
        else:
            query, key, value = self._project(tokens, 0, 3)
        attended = attend(query, key, value, self.dropout if self.training else 0.0)
        return self.output(attended.transpose(1, 2).flatten(2))

    def cls_probabilities(self, tokens: Tensor) -> Tensor:
        """(rows, n_heads, n_tokens): the distribution over tokens that the [CLS] token attends with, softmax(q
        Kᵀ/√d_head).
        """
        query, (key,) = self._cls_query(tokens), self._project(tokens, 1, 2)
        return torch.softmax((query @ key.transpose(2, 3)).squeeze(2) / key.shape[3] ** 0.5, dim=2)

    def _cls_query(self, tokens: Tensor) -> Tensor:
        (query,) = self._project(tokens[:, :1], 0, 1)
        return query

    def _project(self, tokens: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Queries (0), keys (1), values (2) in [first, last), each (rows, n_heads, n_tokens, d_head)."""
        d_token = tokens.shape[2]
        rows = slice(first * d_token, last * d_token)
        projected = F.linear(tokens, self.query_key_value.weight[rows], self.query_key_value.bias[rows])
        heads = projected.unflatten(2, (last - first, self.n_heads, -1))
        return heads.permute(2, 0, 3, 1, 4).unbind(0)


class ReGLU(nn.Module):
    """ReGLU(a, b) = a ⊙ ReLU(b) (Shazeer 2020). Shape: (..., 2 d) to (..., d)."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return a * F.relu(b)
