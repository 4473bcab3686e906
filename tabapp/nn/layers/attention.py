"""Self-attention over feature tokens (Vaswani et al. 2017)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.nn.layers import fused
from tabapp.nn.layers.dropout import Dropout, dropout, kept_values
from tabapp.nn.layers.linear import Linear, linear
from tabapp.nn.layers.precision import at_least_float32

MANY_TOKENS = 64


class ShortSoftmax(torch.autograd.Function):
    """Softmax over a short last dimension, in float32 or wider.

    On a CPU, torch's softmax processes rows one by one, which takes six times as long as these whole-tensor operations at
    15 tokens.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        exponents = at_least_float32(x).sub(x.amax(-1, keepdim=True)).exp_()
        probabilities = exponents.div_(exponents.sum(-1, keepdim=True))
        ctx.save_for_backward(probabilities)
        return probabilities

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (probabilities,) = ctx.saved_tensors
        product = grad_outputs[0] * probabilities
        return product.sub_(probabilities * product.sum(-1, keepdim=True))


class PackedAttention(torch.autograd.Function):
    """Multi-head attention over few tokens on a CPU with a manual gradient. Half of the time of such small attention is
    spent on copies between layouts; this function makes one copy per pass.

    Shape: (rows, n_tokens, 3 · d_token) queries, keys and values to (rows, n_tokens, d_token).
    """

    @staticmethod
    def forward(ctx: Any, packed: Tensor, n_heads: int, dropout_rate: float) -> Tensor:
        rows, n_tokens, width = packed.shape
        d_head = width // (3 * n_heads)
        query, key, value = (
            part.view(rows, n_tokens, n_heads, d_head).transpose(1, 2).reshape(rows * n_heads, n_tokens, d_head)
            for part in packed.chunk(3, dim=2)
        )
        exponents = at_least_float32(torch.bmm(query, key.transpose(1, 2))).mul_(d_head**-0.5)
        exponents.sub_(exponents.amax(-1, keepdim=True)).exp_()
        probabilities = exponents.div_(exponents.sum(-1, keepdim=True))
        kept = kept_values(probabilities, dropout_rate) if dropout_rate else None
        weights = (probabilities if kept is None else probabilities * kept).to(value.dtype)
        ctx.save_for_backward(query, key, value, probabilities, weights, kept)
        ctx.n_heads = n_heads
        attended = torch.bmm(weights, value).view(rows, n_heads, n_tokens, d_head)
        return attended.transpose(1, 2).reshape(rows, n_tokens, width // 3)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        query, key, value, probabilities, weights, kept = ctx.saved_tensors
        n_matrices, n_tokens, d_head = query.shape
        rows, n_heads = n_matrices // ctx.n_heads, ctx.n_heads
        upstream = grad_outputs[0].to(value.dtype).view(rows, n_tokens, n_heads, d_head).transpose(1, 2)
        upstream = upstream.reshape(n_matrices, n_tokens, d_head)
        gradient = torch.empty(3, n_matrices, n_tokens, d_head, dtype=value.dtype)
        torch.bmm(weights.transpose(1, 2), upstream, out=gradient[2])
        product = at_least_float32(torch.bmm(upstream, value.transpose(1, 2)))
        if kept is not None:
            product.mul_(kept)
        product.mul_(probabilities)
        scores = product.sub_(probabilities * product.sum(-1, keepdim=True)).mul_(d_head**-0.5).to(value.dtype)
        torch.bmm(scores, key, out=gradient[0])
        torch.bmm(scores.transpose(1, 2), query, out=gradient[1])
        packed = torch.empty(rows, n_tokens, 3, n_heads, d_head, dtype=value.dtype)
        for i in range(3):
            packed[:, :, i].copy_(gradient[i].view(rows, n_heads, n_tokens, d_head).transpose(1, 2))
        return packed.view(rows, n_tokens, 3 * n_heads * d_head), None, None


def attend(query: Tensor, key: Tensor, value: Tensor, dropout_rate: float) -> Tensor:
    """Scaled dot-product attention: (rows, n_heads, n_queries, d_head) queries over (rows, n_heads, n_tokens, d_head)
    keys.

    For few tokens on a CPU, explicit operations replace the fused kernel, whose backward pass is slower there.
    """
    if query.device.type != "cpu" or key.shape[2] > MANY_TOKENS:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_rate)
    scores = query @ (key * key.shape[3] ** -0.5).transpose(2, 3)
    probabilities: Any = ShortSoftmax.apply(scores)
    if dropout_rate:
        probabilities = dropout(probabilities, dropout_rate)
    return probabilities.to(value.dtype) @ value


CLS, PROMPTS, TARGET = -1, -2, -3
"""The positions of the [CLS] token, of trained queries, and of the target among features."""


class LayerAttention(NamedTuple):
    """Attention of one layer: a title, the features that query and that are attended to (or `CLS`, `PROMPTS`, `TARGET`), and the
    (rows, n_heads, queries, keys) weights, which sum to 1 over the keys.
    """

    title: str
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    weights: Tensor
    kind: Literal["attention", "mask", "selection"] = "attention"


def sized(probabilities: Tensor, sizes: Tensor) -> Tensor:
    """Attention weighted by the size of what is attended to, rescaled to sum to 1 over the keys: α‖v‖ of Kobayashi et al. 2020,
    "Attention Is Not Only a Weight: Analyzing Transformers with Vector Norms", eq. 4.

    Without the size, a key counts from which next to nothing is taken, although it is attended to.

    Args:
        probabilities: (rows, n_heads, queries, keys).
        sizes: (rows, n_heads, keys) norms of the values.
    """
    weights = probabilities * sizes.unsqueeze(2)
    return weights / weights.sum(3, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


class SelfAttention(nn.Module):
    """Multi-head self-attention with dropout on the probabilities.

    Queries, keys and values share one weight of 3 · d_token rows, initialized like three separate linear layers. All biases
    start at zero (Gorishniy et al. 2021, the authors' code).

    For many tokens, keys and values can be projected to fewer tokens by one matrix each, which all heads share (Linformer,
    Wang et al. 2020, "headwise" sharing). The cost is then linear in the number of tokens.

    Shape: (rows, n_tokens, d_token) to (rows, n_queries, d_token), with n_queries = 1 for the [CLS] token alone, else
    n_tokens.

    Args:
        projected: (n_tokens, n_projected) to project to fewer tokens, or None.
    """

    def __init__(self, d_token: int, n_heads: int, dropout: float, *, projected: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.query_key_value = Linear(d_token, 3 * d_token)
        self.output = Linear(d_token, d_token)
        nn.init.zeros_(self.query_key_value.bias)
        nn.init.zeros_(self.output.bias)
        self.key_compression = Linear(*projected, bias=False) if projected else None
        self.value_compression = Linear(*projected, bias=False) if projected else None
        self.n_heads = n_heads
        self.dropout = dropout

    def forward(self, tokens: Tensor, *, cls_only: bool = False) -> Tensor:
        if cls_only and self.key_compression is None:
            return self._cls_attended(tokens)
        if cls_only:
            return self._attended(self._cls_query(tokens), *self._project(tokens, 1, 3))
        return self.of_projected(self.query_key_value(tokens))

    def of_projected(self, projected: Tensor) -> Tensor:
        """Attention for tokens already multiplied by `query_key_value`: (rows, n_tokens, 3 · d_token)."""
        few = projected.device.type == "cpu" and projected.shape[1] <= MANY_TOKENS
        dropout_rate = self.dropout if self.training else 0.0
        if self.key_compression is None and fused.attends(projected, self.n_heads):
            return self.output(fused.attention(projected, self.n_heads, dropout_rate))
        if few and self.key_compression is None:
            packed: Any = PackedAttention.apply(projected, self.n_heads, dropout_rate)
            return self.output(packed)
        query, key, value = self._heads(projected, 3)
        return self._attended(query, key, value)

    def _attended(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if self.key_compression is not None and self.value_compression is not None:
            key = self.key_compression(key.transpose(2, 3)).transpose(2, 3)
            value = self.value_compression(value.transpose(2, 3)).transpose(2, 3)
        attended = attend(query, key, value, self.dropout if self.training else 0.0)
        return self.output(attended.transpose(1, 2).flatten(2))

    def _cls_attended(self, tokens: Tensor) -> Tensor:
        """`_attended` for one query per row, with the products in the cheaper order: (q W_K) Tᵀ for q (T W_Kᵀ)ᵀ,
        and (p T) W_Vᵀ for p (T W_Vᵀ). The bias of the keys shifts all scores equally, so softmax removes it.
        """
        d_token = tokens.shape[2]
        d_head = d_token // self.n_heads
        _, key_weight, value_weight = self.query_key_value.weight.view(3, self.n_heads, d_head, d_token).unbind(0)
        query = self._cls_query(tokens).squeeze(2).transpose(0, 1)
        queries, dropout_rate = (query @ key_weight).transpose(0, 1), self.dropout if self.training else 0.0
        if fused.pools(tokens, self.n_heads):
            pooled, sums = fused.pooled_attention(queries, tokens, d_head**-0.5, dropout_rate)
        else:
            probabilities: Any = ShortSoftmax.apply(queries @ (tokens * d_head**-0.5).transpose(1, 2))
            if dropout_rate:
                probabilities = dropout(probabilities, dropout_rate)
            pooled, sums = probabilities.to(tokens.dtype) @ tokens, probabilities.sum(-1)
        value_bias = self.query_key_value.bias[2 * d_token :].view(self.n_heads, d_head)
        value = (pooled.transpose(0, 1) @ value_weight.transpose(1, 2)).transpose(0, 1)
        value = value + sums.unsqueeze(-1) * value_bias
        return self.output(value.to(self.output.weight.dtype).flatten(1).unsqueeze(1))

    def cls_probabilities(self, tokens: Tensor) -> Tensor:
        """(rows, n_heads, n_tokens): attention probabilities of the [CLS] token, softmax(q Kᵀ/√d_head). Undefined for
        projected tokens, which are mixtures of all tokens.
        """
        query, (key,) = self._cls_query(tokens), self._project(tokens, 1, 2)
        return torch.softmax((query @ key.transpose(2, 3)).squeeze(2) / key.shape[3] ** 0.5, dim=2)

    def probabilities(self, tokens: Tensor, *, cls_only: bool = False) -> Tensor:
        """(rows, n_heads, n_queries, n_tokens): attention probabilities, softmax(Q Kᵀ/√d_head), without dropout. Undefined for
        projected tokens.
        """
        query = self._cls_query(tokens) if cls_only else self._project(tokens, 0, 1)[0]
        (key,) = self._project(tokens, 1, 2)
        return torch.softmax(query @ key.transpose(2, 3) / key.shape[3] ** 0.5, dim=3)

    def sized_probabilities(self, tokens: Tensor) -> Tensor:
        """`probabilities`, weighted by the norms of the values after the output projection."""
        (value,) = self._project(tokens, 2, 3)
        output = self.output.weight.unflatten(1, (self.n_heads, -1)).permute(1, 2, 0)
        return sized(self.probabilities(tokens), (value @ output).norm(dim=3))

    def _cls_query(self, tokens: Tensor) -> Tensor:
        (query,) = self._project(tokens[:, :1], 0, 1)
        return query

    def _project(self, tokens: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Queries (0), keys (1), values (2) in [first, last), each (rows, n_heads, n_tokens, d_head)."""
        d_token = tokens.shape[2]
        rows = slice(first * d_token, last * d_token)
        projected = linear(tokens, self.query_key_value.weight[rows], self.query_key_value.bias[rows])
        return self._heads(projected, last - first)

    def _heads(self, projected: Tensor, n_parts: int) -> tuple[Tensor, ...]:
        heads = projected.unflatten(2, (n_parts, self.n_heads, -1))
        return heads.permute(2, 0, 3, 1, 4).unbind(0)


class GatedReLU(torch.autograd.Function):
    """a ⊙ ReLU(b) for [a, b] along the last dimension; the gradient is written in place, without a copy to join the halves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        a, b = x.chunk(2, dim=-1)
        return F.relu(b).mul_(a)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        a, b = x.chunk(2, dim=-1)
        gradient = torch.empty_like(x)
        to_a, to_b = gradient.chunk(2, dim=-1)
        upstream = grad_outputs[0].to(x.dtype)
        torch.mul(upstream, F.relu(b), out=to_a)
        torch.mul(upstream, a, out=to_b).mul_(b > 0)
        return gradient


class ReGLU(nn.Module):
    """ReGLU(a, b) = a ⊙ ReLU(b) (Shazeer 2020). Shape: (..., 2 d) to (..., d)."""

    def forward(self, x: Tensor) -> Tensor:
        gated: Any = GatedReLU.apply(x)
        return gated


class FeedForward(nn.Module):
    """Linear(Dropout(Activation(Linear(x)))), the second branch of a Transformer block: ReGLU, or ReLU.

    Shape: (..., d_token) to itself.
    """

    def __init__(self, d_token: int, d_hidden: int, dropout_rate: float, *, gated: bool = True) -> None:
        super().__init__()
        self.first = Linear(d_token, 2 * d_hidden if gated else d_hidden)
        self.activation = ReGLU() if gated else nn.ReLU()
        self.gated = gated
        self.dropout = Dropout(dropout_rate)
        self.second = Linear(d_hidden, d_token)

    def forward(self, x: Tensor) -> Tensor:
        hidden, rate = self.first(x), self.dropout.rate if self.training else 0.0
        if self.gated and isinstance(rate, float) and fused.is_fused(hidden):
            return self.second(fused.gate(hidden, rate))
        return self.second(self.dropout(self.activation(hidden)))
