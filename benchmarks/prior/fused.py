"""A layer of the prior-fitted network in Triton kernels, for its training on a GPU.

Attention over the few tokens of a row, normalization and the activation are bound by memory. One kernel for each reads and writes
every number once. Results differ from those of `Layer` by rounding.
"""

# Triton has no types, and its kernels are no Python functions.
# pyright: basic, reportMissingImports=false, reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from tabapp_plugins.prior_fitted.network import USUAL_CONTEXT
from torch import Tensor

if TYPE_CHECKING:
    from tabapp_plugins.prior_fitted.network import Layer

EPSILON = 1e-5
TILE = 64
"""Tokens of a tile of attention; a tile has whole rows."""
VECTORS = 64
ELEMENTS = 4096


@triton.jit(do_not_specialize=["n", "rows", "tokens"])
def _norm_forward(x, y, scale, n, rows, tokens, WIDTH: tl.constexpr, BLOCK: tl.constexpr, EPS: tl.constexpr):
    """Vector i of x, normalized, to its place in y, where tokens come before rows."""
    i = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    kept = column < WIDTH
    v = tl.load(x + i.to(tl.int64) * WIDTH + column, kept, 0.0).to(tl.float32)
    mean = tl.sum(v, 0) / WIDTH
    centered = tl.where(kept, v - mean, 0.0)
    factor = 1 / tl.sqrt(tl.sum(centered * centered, 0) / WIDTH + EPS)
    table, row, token = i // (rows * tokens), (i // tokens) % rows, i % tokens
    place = (table * tokens + token) * rows + row
    tl.store(y + place.to(tl.int64) * WIDTH + column, (centered * factor).to(y.dtype.element_ty), kept)
    tl.store(scale + i, factor)


@triton.jit(do_not_specialize=["n", "rows", "tokens"])
def _norm_backward(dy, y, scale, dx, n, rows, tokens, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    kept = column < WIDTH
    table, row, token = i // (rows * tokens), (i // tokens) % rows, i % tokens
    place = ((table * tokens + token) * rows + row).to(tl.int64) * WIDTH + column
    gradient = tl.load(dy + place, kept, 0.0).to(tl.float32)
    value = tl.load(y + place, kept, 0.0).to(tl.float32)
    inner = gradient - tl.sum(gradient, 0) / WIDTH - value * (tl.sum(gradient * value, 0) / WIDTH)
    result = tl.load(scale + i) * inner
    tl.store(dx + i.to(tl.int64) * WIDTH + column, result.to(dx.dtype.element_ty), kept)


class Norm(torch.autograd.Function):
    """(tables, rows, tokens, width) to the same, or with tokens before rows, normalized over the width."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, transposed: bool) -> Tensor:
        x = x.contiguous()
        tables, rows, tokens, width = x.shape
        y = x.new_empty((tables, tokens, rows, width) if transposed else x.shape)
        n = tables * rows * tokens
        scale = torch.empty(n, dtype=torch.float32, device=x.device)
        ctx.shape = (rows, tokens) if transposed else (1, 1)
        ctx.x_shape = x.shape
        block = triton.next_power_of_2(width)
        _norm_forward[(n,)](x, y, scale, n, *ctx.shape, width, block, EPSILON, num_warps=1)
        ctx.save_for_backward(y, scale)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        y, scale = ctx.saved_tensors
        dx = y.new_empty(ctx.x_shape)
        width = y.shape[-1]
        n = scale.numel()
        block = triton.next_power_of_2(width)
        _norm_backward[(n,)](dy.contiguous(), y, scale, dx, n, *ctx.shape, width, block, num_warps=1)
        return dx, None


@triton.jit
def _normalized(v, WIDTH: tl.constexpr, EPS: tl.constexpr):
    """The vectors in the rows of v, normalized, and what they were multiplied by."""
    centered = v - (tl.sum(v, 1) / WIDTH)[:, None]
    factor = 1 / tl.sqrt(tl.sum(centered * centered, 1) / WIDTH + EPS)
    return centered * factor[:, None], factor


@triton.jit
def _through_norm(gradient, normalized, factor, WIDTH: tl.constexpr):
    mean = tl.sum(gradient, 1) / WIDTH
    along = tl.sum(gradient * normalized, 1) / WIDTH
    return factor[:, None] * (gradient - mean[:, None] - normalized * along[:, None])


@triton.jit
def _row_scores(q, k, factor, tokens, TILE: tl.constexpr):
    """Products of queries and keys, and the attention between tokens of one row."""
    products = tl.dot(q, tl.trans(k))
    i = tl.arange(0, TILE)
    same = (i // tokens)[:, None] == (i // tokens)[None, :]
    scores = tl.where(same, products * factor, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return products, weights / tl.sum(weights, 1)[:, None]


@triton.jit(do_not_specialize=["total", "tokens", "in_tile"])
def _tokens_forward(
    packed, factors, out, total, tokens, in_tile,
    HEADS: tl.constexpr, D: tl.constexpr, TILE: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    head, tile = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    i = tl.arange(0, TILE)
    place = (tile * in_tile + i).to(tl.int64)
    kept = ((i < in_tile) & (place < total))[:, None]
    d = tl.arange(0, D)[None, :]
    at = packed + place[:, None] * (3 * HEADS * D) + head * D + d
    dtype = packed.dtype.element_ty
    q, _ = _normalized(tl.load(at, kept, 0.0).to(tl.float32), D, EPS)
    k, _ = _normalized(tl.load(at + HEADS * D, kept, 0.0).to(tl.float32), D, EPS)
    v = tl.load(at + 2 * HEADS * D, kept, 0.0)
    _, weights = _row_scores(q.to(dtype), k.to(dtype), tl.load(factors + head), tokens, TILE)
    result = tl.dot(weights.to(dtype), v)
    tl.store(out + place[:, None] * (HEADS * D) + head * D + d, result.to(dtype), kept)


@triton.jit(do_not_specialize=["total", "tokens", "in_tile"])
def _tokens_backward(
    packed, factors, dattended, dpacked, dfactors, total, tokens, in_tile,
    HEADS: tl.constexpr, D: tl.constexpr, TILE: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    head, tile = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    i = tl.arange(0, TILE)
    place = (tile * in_tile + i).to(tl.int64)
    kept = ((i < in_tile) & (place < total))[:, None]
    d = tl.arange(0, D)[None, :]
    offset = place[:, None] * (3 * HEADS * D) + head * D + d
    dtype = packed.dtype.element_ty
    q, q_scale = _normalized(tl.load(packed + offset, kept, 0.0).to(tl.float32), D, EPS)
    k, k_scale = _normalized(tl.load(packed + offset + HEADS * D, kept, 0.0).to(tl.float32), D, EPS)
    v = tl.load(packed + offset + 2 * HEADS * D, kept, 0.0)
    factor = tl.load(factors + head)
    products, weights = _row_scores(q.to(dtype), k.to(dtype), factor, tokens, TILE)
    gradient = tl.load(dattended + place[:, None] * (HEADS * D) + head * D + d, kept, 0.0)
    dv = tl.dot(tl.trans(weights.to(dtype)), gradient)
    dweights = tl.dot(gradient, tl.trans(v))
    dscores = weights * (dweights - tl.sum(dweights * weights, 1)[:, None])
    tl.store(dfactors + tl.program_id(0), tl.sum(tl.sum(dscores * products, 1), 0))
    dproducts = (dscores * factor).to(dtype)
    dq = _through_norm(tl.dot(dproducts, k.to(dtype)), q, q_scale, D)
    dk = _through_norm(tl.dot(tl.trans(dproducts), q.to(dtype)), k, k_scale, D)
    tl.store(dpacked + offset, dq.to(dtype), kept)
    tl.store(dpacked + offset + HEADS * D, dk.to(dtype), kept)
    tl.store(dpacked + offset + 2 * HEADS * D, dv.to(dtype), kept)


class TokenAttention(torch.autograd.Function):
    """Attention of each row's tokens to each other.

    Shape: packed queries, keys and values (n, tokens, 3 × width) and one factor per head, to (n, tokens, width).
    """

    @staticmethod
    def forward(ctx: Any, packed: Tensor, factors: Tensor) -> Tensor:
        n, tokens, width = packed.shape
        heads = len(factors)
        in_tile = TILE // tokens * tokens
        if not in_tile:
            raise ValueError(f"a row has at most {TILE} tokens, not {tokens}")
        out = packed.new_empty(n, tokens, width // 3)
        tiles = triton.cdiv(n * tokens, in_tile)
        ctx.sizes = (n * tokens, tokens, in_tile, heads, width // 3 // heads, TILE, EPSILON)
        _tokens_forward[(tiles * heads,)](packed, factors, out, *ctx.sizes)
        ctx.save_for_backward(packed, factors)
        ctx.tiles = tiles
        return out

    @staticmethod
    def backward(ctx: Any, dattended: Tensor) -> tuple[Tensor, Tensor]:
        packed, factors = ctx.saved_tensors
        dpacked = torch.empty_like(packed)
        dfactors = torch.empty(ctx.tiles, len(factors), dtype=torch.float32, device=packed.device)
        _tokens_backward[(dfactors.numel(),)](packed, factors, dattended.contiguous(), dpacked, dfactors, *ctx.sizes)
        return dpacked, dfactors.sum(0)


@triton.jit(do_not_specialize=["total", "n", "m"])
def _split_forward(
    packed, factors, query, key, value, total, n, m,
    HEADS: tl.constexpr, D: tl.constexpr, VECTORS: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    u = tl.program_id(0) * VECTORS + tl.arange(0, VECTORS)
    head, row = u % HEADS, u // HEADS
    kept = u < total
    is_key = kept & (row % n < m)
    d = tl.arange(0, D)[None, :]
    at = packed + (row.to(tl.int64) * (3 * HEADS * D) + head * D)[:, None] + d
    q, _ = _normalized(tl.load(at, kept[:, None], 0.0).to(tl.float32), D, EPS)
    k, _ = _normalized(tl.load(at + HEADS * D, is_key[:, None], 0.0).to(tl.float32), D, EPS)
    v = tl.load(at + 2 * HEADS * D, is_key[:, None], 0.0)
    factor = tl.load(factors + head, kept, 0.0)
    dtype = packed.dtype.element_ty
    tl.store(query + u.to(tl.int64)[:, None] * D + d, (q * factor[:, None]).to(dtype), kept[:, None])
    place = (((row // n).to(tl.int64) * m + row % n) * HEADS + head)[:, None] * D + d
    tl.store(key + place, k.to(dtype), is_key[:, None])
    tl.store(value + place, v, is_key[:, None])


@triton.jit(do_not_specialize=["total", "n", "m"])
def _split_backward(
    packed, factors, dquery, dkey, dvalue, dpacked, dfactors, total, n, m,
    HEADS: tl.constexpr, D: tl.constexpr, VECTORS: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    u = tl.program_id(0) * VECTORS + tl.arange(0, VECTORS)
    head, row = u % HEADS, u // HEADS
    kept = u < total
    is_key = kept & (row % n < m)
    d = tl.arange(0, D)[None, :]
    offset = (row.to(tl.int64) * (3 * HEADS * D) + head * D)[:, None] + d
    q, q_scale = _normalized(tl.load(packed + offset, kept[:, None], 0.0).to(tl.float32), D, EPS)
    k, k_scale = _normalized(tl.load(packed + offset + HEADS * D, is_key[:, None], 0.0).to(tl.float32), D, EPS)
    factor = tl.load(factors + head, kept, 0.0)
    dq = tl.load(dquery + u.to(tl.int64)[:, None] * D + d, kept[:, None], 0.0).to(tl.float32)
    place = (((row // n).to(tl.int64) * m + row % n) * HEADS + head)[:, None] * D + d
    dk = tl.load(dkey + place, is_key[:, None], 0.0).to(tl.float32)
    dv = tl.load(dvalue + place, is_key[:, None], 0.0)
    tl.store(dfactors + u, tl.sum(dq * q, 1), kept)
    dtype = packed.dtype.element_ty
    dq = _through_norm(dq * factor[:, None], q, q_scale, D)
    dk = _through_norm(dk, k, k_scale, D)
    tl.store(dpacked + offset, dq.to(dtype), kept[:, None])
    tl.store(dpacked + offset + HEADS * D, tl.where(is_key[:, None], dk, 0.0).to(dtype), kept[:, None])
    tl.store(dpacked + offset + 2 * HEADS * D, dv, kept[:, None])


class Split(torch.autograd.Function):
    """Normalized queries times the factors of the heads, and normalized keys and values of the first rows.

    Shape: packed (batch, n, 3 × width), to (batch, n, heads, width / heads) and twice (batch, n_keys, heads, width / heads).
    """

    @staticmethod
    def forward(ctx: Any, packed: Tensor, factors: Tensor, n_keys: int) -> tuple[Tensor, Tensor, Tensor]:
        batch, n, width = packed.shape
        heads = len(factors)
        size = width // 3 // heads
        query = packed.new_empty(batch, n, heads, size)
        key, value = packed.new_empty(2, batch, n_keys, heads, size).unbind(0)
        total = batch * n * heads
        ctx.sizes = (total, n, n_keys, heads, size, VECTORS, EPSILON)
        _split_forward[(triton.cdiv(total, VECTORS),)](packed, factors, query, key, value, *ctx.sizes)
        ctx.save_for_backward(packed, factors)
        return query, key, value

    @staticmethod
    def backward(ctx: Any, dquery: Tensor, dkey: Tensor, dvalue: Tensor) -> tuple[Tensor, Tensor, None]:
        packed, factors = ctx.saved_tensors
        dpacked = torch.empty_like(packed)
        total = ctx.sizes[0]
        dfactors = torch.empty(total // len(factors), len(factors), dtype=torch.float32, device=packed.device)
        gradients = (dquery.contiguous(), dkey.contiguous(), dvalue.contiguous())
        _split_backward[(triton.cdiv(total, VECTORS),)](packed, factors, *gradients, dpacked, dfactors, *ctx.sizes)
        return dpacked, dfactors.sum(0), None


@triton.jit(do_not_specialize=["n"])
def _square_forward(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.maximum(tl.load(x + i, i < n, 0.0).to(tl.float32), 0.0)
    tl.store(y + i, (v * v).to(y.dtype.element_ty), i < n)


@triton.jit(do_not_specialize=["n"])
def _square_backward(x, dy, dx, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.maximum(tl.load(x + i, i < n, 0.0).to(tl.float32), 0.0)
    gradient = tl.load(dy + i, i < n, 0.0).to(tl.float32)
    tl.store(dx + i, (2 * v * gradient).to(dx.dtype.element_ty), i < n)


class PositiveSquare(torch.autograd.Function):
    """The square of positive numbers, 0 for others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        _square_forward[(triton.cdiv(x.numel(), ELEMENTS),)](x, y, x.numel(), ELEMENTS)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        _square_backward[(triton.cdiv(x.numel(), ELEMENTS),)](x, dy.contiguous(), dx, x.numel(), ELEMENTS)
        return dx


def fused_layer(layer: Layer, x: Tensor, n_keys: int, *, labels_only: bool) -> Tensor:
    """The tokens after a layer, as `Layer.forward` gives without a memory."""
    tables, rows, tokens, width = x.shape
    size = width / layer.columns.heads
    packed = layer.columns.query_key_value(Norm.apply(x, False)).view(tables * rows, tokens, 3 * width)
    attended = TokenAttention.apply(packed, layer.columns.sharpness * size**-0.25)
    x = x + layer.columns.output(attended).view(x.shape)
    x = x[:, :, -1:].contiguous() if labels_only else x
    packed = layer.rows.query_key_value(Norm.apply(x, True)).view(-1, rows, 3 * width)
    growth = layer.rows.growth
    assert growth is not None
    factors = (layer.rows.sharpness + growth * math.log(n_keys / USUAL_CONTEXT)) * size**0.25
    query, key, value = (part.transpose(1, 2) for part in Split.apply(packed, factors, n_keys))
    attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(-1, rows, width)
    x = x + layer.rows.output(attended).view(tables, -1, rows, width).transpose(1, 2)
    return x + layer.second(PositiveSquare.apply(layer.first(Norm.apply(x, False))))
