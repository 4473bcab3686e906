"""Steps of a Transformer over feature tokens as few kernels, for bfloat16 on a GPU.

One such step moves far more bytes than it multiplies, so its time is that of reading and writing tokens. Each function here
reads its inputs and writes its output once, where torch's operations make several passes, and keeps no values for the gradient
except its inputs. Where `is_fused` is false, callers use torch's operations.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import gcd
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.nn.layers.mapped import is_mapped

LEAST_CELLS = 2**20
"""Cells of a training table from which the kernels pay: they are compiled once per machine and size of the network, in seconds."""
MOST_TOKENS = 128
"""Attention of one head is computed in registers."""
MOST_HEAD = 64
MOST_HEADS = 16
MOST_VALUES = 2**14
"""Padded values of a row's tokens that all heads pool: with its copies, they need 80 KB of shared memory, and some GPUs have 99."""
MOST_WIDTH = 2048
"""A row to normalize is in registers, too."""
_STEPS = 2**24
"""Number of levels of a dropout rate, see `kernels.kept`."""
_PROGRAMS = 512
"""Parts of the sums of a normalization's gradient: four for each multiprocessor of an H100."""


_serving: ContextVar[bool] = ContextVar("serving", default=False)


@contextmanager
def serving(enabled: bool) -> Generator[None]:
    """Let the functions of this module serve a block if enabled; outside of such blocks, they do not."""
    token = _serving.set(enabled)
    try:
        yield
    finally:
        _serving.reset(token)


def is_fused(x: Tensor) -> bool:
    """Whether the functions of this module serve a tensor."""
    return _serving.get() and x.is_cuda and x.dtype == torch.bfloat16 and not is_mapped() and has_kernels(x.device)


@functools.cache
def has_kernels(device: torch.device) -> bool:
    """Whether Triton can compile and start kernels on a GPU: it needs a C compiler and a folder to write to."""
    try:
        x = torch.ones(2, 16, dtype=torch.bfloat16, device=device)
        return bool((gate(x, 0.0) == 1).all())
    except Exception:
        return False


def attends(packed: Tensor, n_heads: int) -> bool:
    """Whether `attention` serves (rows, n_tokens, 3 · d_token) queries, keys and values."""
    return is_fused(packed) and packed.shape[1] <= MOST_TOKENS and packed.shape[2] // (3 * n_heads) <= MOST_HEAD


def attention(packed: Tensor, n_heads: int, dropout_rate: float) -> Tensor:
    """Multi-head attention over few tokens with dropout on the probabilities, softmax(Q Kᵀ/√d_head) V.

    Shape: (rows, n_tokens, 3 · d_token) queries, keys and values to (rows, n_tokens, d_token).
    """
    found: Any = _Attention.apply(packed.contiguous(), n_heads, dropout_rate)
    return found


def pools(tokens: Tensor, n_heads: int) -> bool:
    """Whether `pooled_attention` serves (rows, n_tokens, d) tokens."""
    # First, because sizes are tensors where PyTorch traces a network.
    if not is_fused(tokens):
        return False
    n_values = _power(tokens.shape[1]) * _power(tokens.shape[2])
    return n_heads <= MOST_HEADS and tokens.shape[1] <= MOST_TOKENS and n_values <= MOST_VALUES


def pooled_attention(queries: Tensor, tokens: Tensor, scale: float, dropout_rate: float) -> tuple[Tensor, Tensor]:
    """Means of tokens that one query per head attends to, softmax(scale · Q Tᵀ) T with dropout on the probabilities, and the
    sums of the remaining probabilities.

    Shape: (rows, n_heads, d) and (rows, n_tokens, d) to (rows, n_heads, d) and (rows, n_heads).
    """
    found: Any = _PooledAttention.apply(queries.contiguous(), tokens.contiguous(), scale, dropout_rate)
    return found


def add_normalized(tokens: Tensor, update: Tensor, normalization: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """tokens + update, and its normalization over the last dimension; by torch's operations where `is_fused` is false."""
    if not is_fused(tokens) or tokens.shape[-1] > MOST_WIDTH:
        total = tokens + update
        return total, normalization(total)
    parameters = normalization.weight, normalization.bias, normalization.eps
    found: Any = AddNormalized.apply(tokens.contiguous(), update.contiguous(), *parameters)
    return found


def gate(x: Tensor, dropout_rate: float) -> Tensor:
    """Dropout of a ⊙ ReLU(b), for [a, b] along the last dimension. Shape: (..., 2 d) to (..., d)."""
    found: Any = _Gate.apply(x.contiguous(), dropout_rate)
    return found


def affine_tokens(x: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
    """x_j · slope_j + offset_j, computed in float32 and rounded once.

    Shape: (rows, n_tokens) float32 by (n_tokens, d) to (rows, n_tokens, d) in the precision of `slope`.
    """
    found: Any = _AffineTokens.apply(x, slope, offset)
    return found


def _kernels() -> Any:
    # Triton takes half a second to load.
    from tabapp.nn.layers import kernels

    return kernels


def _power(n: int, least: int = 16) -> int:
    return max(least, 1 << (n - 1).bit_length())


def _blocks(n: int, size: int) -> int:
    return -(-n // size)


def _drawn(x: Tensor, dropout_rate: float) -> tuple[Tensor, int, float]:
    """Seed, threshold and factor of dropout, as the kernels take them."""
    seed = torch.empty((), dtype=torch.int64, device=x.device)
    return seed.random_() if dropout_rate else seed, round(dropout_rate * _STEPS), 1 / (1 - dropout_rate)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: Tensor, n_heads: int, dropout_rate: float) -> Tensor:
        rows, n_tokens, width = packed.shape
        d_head = width // (3 * n_heads)
        unit = gcd(d_head, 8)
        output = packed.new_empty(rows, n_tokens, width // 3)
        seed, *drops = _drawn(packed, dropout_rate)
        block = _power(n_tokens)
        ctx.save_for_backward(packed, seed)
        ctx.grid, ctx.settings = (
            (rows * n_heads,),
            {"UNIT": unit, "DROPS": dropout_rate > 0, "BLOCK_T": block, "BLOCK_D": _power(d_head)},
        )
        ctx.numbers = *drops, d_head**-0.5, n_tokens, n_heads, d_head // unit
        ctx.warps = 8 if block > 64 else 4
        _kernels().attention_forward[ctx.grid](packed, output, seed, *ctx.numbers, **ctx.settings, num_warps=ctx.warps)
        return output

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        packed, seed = ctx.saved_tensors
        gradient = torch.empty_like(packed)
        _kernels().attention_backward[ctx.grid](
            packed,
            grad_outputs[0].contiguous(),
            gradient,
            seed,
            *ctx.numbers,
            **ctx.settings,
            num_warps=ctx.warps,
        )
        return gradient, None, None


class _PooledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, tokens: Tensor, scale: float, dropout_rate: float) -> tuple[Tensor, Tensor]:
        rows, n_heads, width = queries.shape
        n_tokens = tokens.shape[1]
        pooled = torch.empty_like(queries)
        sums = queries.new_empty(rows, n_heads)
        seed, *drops = _drawn(tokens, dropout_rate)
        ctx.save_for_backward(queries, tokens, seed)
        blocks = _power(n_heads), _power(n_tokens), _power(width)
        ctx.settings = *drops, scale, n_tokens, width, n_heads, dropout_rate > 0, *blocks
        _kernels().pooling_forward[(rows,)](queries, tokens, pooled, sums, seed, *ctx.settings, num_warps=8)
        return pooled, sums

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None, None]:
        queries, tokens, seed = ctx.saved_tensors
        to_queries, to_tokens = torch.empty_like(queries), torch.empty_like(tokens)
        upstream = (each.contiguous() for each in grad_outputs)
        _kernels().pooling_backward[(len(queries),)](
            queries, tokens, *upstream, to_queries, to_tokens, seed, *ctx.settings, num_warps=8
        )
        return to_queries, to_tokens, None, None


class AddNormalized(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, update: Tensor, weight: Tensor, bias: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        total, normalized = torch.empty_like(tokens), torch.empty_like(tokens)
        width = tokens.shape[-1]
        n_rows, block = tokens.numel() // width, _power(width)
        # About eight values a thread.
        each = max(1, 2048 // block)
        ctx.save_for_backward(total, weight)
        ctx.settings = n_rows, width, epsilon, each, block
        _kernels().normalization_forward[(_blocks(n_rows, each),)](
            tokens, update, weight, bias, total, normalized, *ctx.settings
        )
        return total, normalized

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        total, weight = ctx.saved_tensors
        n_rows, width, _, each, _ = ctx.settings
        n_programs = min(_blocks(n_rows, each), _PROGRAMS)
        gradient = torch.empty_like(total)
        sums = torch.empty(n_programs, 2, width, dtype=torch.float32, device=total.device)
        to_total, to_normalized = (each.contiguous() for each in grad_outputs)
        _kernels().normalization_backward[(n_programs,)](
            total, weight, to_total, to_normalized, gradient, sums, *ctx.settings
        )
        to_weight, to_bias = sums.sum(0).to(weight.dtype)
        return gradient, gradient, to_weight, to_bias, None


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropout_rate: float) -> Tensor:
        width = x.shape[-1] // 2
        output = x.new_empty(*x.shape[:-1], width)
        n_rows = output.numel() // width
        seed, *drops = _drawn(x, dropout_rate)
        ctx.save_for_backward(x, seed)
        ctx.grid = _blocks(n_rows, 16), _blocks(width, 128)
        ctx.settings = *drops, n_rows, width, dropout_rate > 0, 16, 128
        _kernels().gate_forward[ctx.grid](x, output, seed, *ctx.settings)
        return output

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        x, seed = ctx.saved_tensors
        gradient = torch.empty_like(x)
        _kernels().gate_backward[ctx.grid](x, grad_outputs[0].contiguous(), gradient, seed, *ctx.settings)
        return gradient, None


class _AffineTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
        n_rows, n_tokens = x.shape
        width = slope.shape[1]
        output = slope.new_empty(n_rows, n_tokens, width)
        ctx.save_for_backward(x)
        grid = _blocks(n_rows, 32), n_tokens, _blocks(width, 64)
        _kernels().tokens_forward[grid](x, slope, offset, output, n_rows, n_tokens, width, 32, 64)
        return output

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[None, Tensor, Tensor]:
        (x,) = ctx.saved_tensors
        upstream = grad_outputs[0]
        # Both gradients are sums over rows, so that one product reads the tokens once.
        factors = F.pad(x.t().unsqueeze(1), (0, 0, 0, 1), value=1.0).to(upstream.dtype)
        to_slope, to_offset = torch.bmm(factors, upstream.transpose(0, 1)).unbind(1)
        return None, to_slope, to_offset
