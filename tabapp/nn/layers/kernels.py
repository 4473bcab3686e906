"""Triton kernels of `tabapp.nn.layers.fused`, which describes what they compute. Triton comes with the CUDA builds of torch.

Values are loaded in their own precision and computed in float32. Dropout draws its random numbers from a seed in device memory,
so that a recorded step draws new ones each time, and the backward pass draws them again instead of reading a mask.
"""
# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false, reportIndexIssue=false

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def kept(seed, program, index, threshold):
    """Whether dropout keeps the values of a program: hashes of their index ("lowbias32", github.com/skeeto/hash-prospector) with
    two keys of the program, below 2**24, compared with the dropout rate times 2**24."""
    first, second, _, _ = tl.randint4x(tl.load(seed), program)
    x = index.to(tl.uint32) ^ first
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) ^ second
    x = x * 0x846CA68B
    x = x ^ (x >> 16)
    return (x >> 8).to(tl.int32) >= threshold


@triton.jit
def softmax_of(query, key, scale, n_tokens, BLOCK_T: tl.constexpr):
    """(BLOCK_T, BLOCK_T) attention probabilities, zero for keys beyond the tokens."""
    scores = tl.dot(query, tl.trans(key)) * scale
    scores = tl.where(tl.arange(0, BLOCK_T)[None, :] < n_tokens, scores, float("-inf"))
    exponents = tl.exp(scores - tl.max(scores, 1)[:, None])
    return exponents / tl.sum(exponents, 1)[:, None]


@triton.jit(do_not_specialize=["threshold", "n_tokens", "n_units"])
def attention_forward(
    packed, output, seed, threshold, factor, scale, n_tokens, n_heads, n_units,
    UNIT: tl.constexpr, DROPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One head of one row per program. The width of a head is given as a number of units, whose size divides 8, so that vectors are
    loaded and widths with the same padding share a kernel."""
    program = tl.program_id(0)
    row, head = (program // n_heads).to(tl.int64), program % n_heads
    d_head = n_units * UNIT
    width = n_heads * d_head
    t, c = tl.arange(0, BLOCK_T)[:, None], tl.arange(0, BLOCK_D)[None, :]
    inside = (t < n_tokens) & (c < d_head)
    at = packed + (row * n_tokens + t) * (3 * width) + head * d_head + c
    query = tl.load(at, inside, other=0.0)
    key = tl.load(at + width, inside, other=0.0)
    value = tl.load(at + 2 * width, inside, other=0.0)
    weights = softmax_of(query, key, scale, n_tokens, BLOCK_T)
    if DROPS:
        index = t * BLOCK_T + tl.arange(0, BLOCK_T)[None, :]
        weights = tl.where(kept(seed, program, index, threshold), weights * factor, 0.0)
    attended = tl.dot(weights.to(value.dtype), value)
    to = output + (row * n_tokens + t) * width + head * d_head + c
    tl.store(to, attended.to(output.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["threshold", "n_tokens", "n_units"])
def attention_backward(
    packed, upstream, gradient, seed, threshold, factor, scale, n_tokens, n_heads, n_units,
    UNIT: tl.constexpr, DROPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """As `attention_forward`; the probabilities are computed again."""
    program = tl.program_id(0)
    row, head = (program // n_heads).to(tl.int64), program % n_heads
    d_head = n_units * UNIT
    width = n_heads * d_head
    t, c = tl.arange(0, BLOCK_T)[:, None], tl.arange(0, BLOCK_D)[None, :]
    inside = (t < n_tokens) & (c < d_head)
    place = (row * n_tokens + t) * (3 * width) + head * d_head + c
    query = tl.load(packed + place, inside, other=0.0)
    key = tl.load(packed + place + width, inside, other=0.0)
    value = tl.load(packed + place + 2 * width, inside, other=0.0)
    to_output = tl.load(upstream + (row * n_tokens + t) * width + head * d_head + c, inside, other=0.0)
    probabilities = softmax_of(query, key, scale, n_tokens, BLOCK_T)
    to_weights = tl.dot(to_output, tl.trans(value))
    weights = probabilities
    if DROPS:
        keeps = kept(seed, program, t * BLOCK_T + tl.arange(0, BLOCK_T)[None, :], threshold)
        weights = tl.where(keeps, probabilities * factor, 0.0)
        to_weights = tl.where(keeps, to_weights * factor, 0.0)
    to_value = tl.dot(tl.trans(weights.to(value.dtype)), to_output)
    to_scores = probabilities * (to_weights - tl.sum(probabilities * to_weights, 1)[:, None]) * scale
    to_scores = to_scores.to(key.dtype)
    to_query = tl.dot(to_scores, key)
    to_key = tl.dot(tl.trans(to_scores), query)
    dtype = gradient.dtype.element_ty
    tl.store(gradient + place, to_query.to(dtype), inside)
    tl.store(gradient + place + width, to_key.to(dtype), inside)
    tl.store(gradient + place + 2 * width, to_value.to(dtype), inside)


@triton.jit(do_not_specialize=["threshold", "n_tokens"])
def pooling_forward(
    queries, tokens, pooled, sums, seed, threshold, factor, scale, n_tokens, width,
    HEADS: tl.constexpr, DROPS: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """All heads of one row per program."""
    program = tl.program_id(0)
    row = program.to(tl.int64)
    h, t, c = tl.arange(0, BLOCK_H)[:, None], tl.arange(0, BLOCK_T)[:, None], tl.arange(0, BLOCK_D)[None, :]
    of_heads, of_tokens = (h < HEADS) & (c < width), (t < n_tokens) & (c < width)
    query = tl.load(queries + (row * HEADS + h) * width + c, of_heads, other=0.0)
    x = tl.load(tokens + (row * n_tokens + t) * width + c, of_tokens, other=0.0)
    weights = softmax_of(query, x, scale, n_tokens, BLOCK_T)
    if DROPS:
        index = h * BLOCK_T + tl.arange(0, BLOCK_T)[None, :]
        weights = tl.where(kept(seed, program, index, threshold), weights * factor, 0.0)
    head = tl.arange(0, BLOCK_H)
    tl.store(sums + row * HEADS + head, tl.sum(weights, 1).to(sums.dtype.element_ty), head < HEADS)
    found = tl.dot(weights.to(x.dtype), x)
    tl.store(pooled + (row * HEADS + h) * width + c, found.to(pooled.dtype.element_ty), of_heads)


@triton.jit(do_not_specialize=["threshold", "n_tokens"])
def pooling_backward(
    queries, tokens, to_pooled, to_sums, to_queries, to_tokens, seed, threshold, factor, scale, n_tokens, width,
    HEADS: tl.constexpr, DROPS: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """All heads of one row per program; the probabilities are computed again."""
    program = tl.program_id(0)
    row = program.to(tl.int64)
    h, t, c = tl.arange(0, BLOCK_H)[:, None], tl.arange(0, BLOCK_T)[:, None], tl.arange(0, BLOCK_D)[None, :]
    of_heads, of_tokens = (h < HEADS) & (c < width), (t < n_tokens) & (c < width)
    place, at = (row * HEADS + h) * width + c, (row * n_tokens + t) * width + c
    query = tl.load(queries + place, of_heads, other=0.0)
    x = tl.load(tokens + at, of_tokens, other=0.0)
    upstream = tl.load(to_pooled + place, of_heads, other=0.0)
    head = tl.arange(0, BLOCK_H)
    of_sum = tl.load(to_sums + row * HEADS + head, head < HEADS, other=0.0).to(tl.float32)
    probabilities = softmax_of(query, x, scale, n_tokens, BLOCK_T)
    to_weights = tl.dot(upstream, tl.trans(x)) + of_sum[:, None]
    weights = probabilities
    if DROPS:
        keeps = kept(seed, program, h * BLOCK_T + tl.arange(0, BLOCK_T)[None, :], threshold)
        weights = tl.where(keeps, probabilities * factor, 0.0)
        to_weights = tl.where(keeps, to_weights * factor, 0.0)
    to_scores = probabilities * (to_weights - tl.sum(probabilities * to_weights, 1)[:, None]) * scale
    to_scores = to_scores.to(x.dtype)
    tl.store(to_queries + place, tl.dot(to_scores, x).to(to_queries.dtype.element_ty), of_heads)
    found = tl.dot(tl.trans(weights.to(x.dtype)), upstream)
    found = tl.dot(tl.trans(to_scores), query, found)
    tl.store(to_tokens + at, found.to(to_tokens.dtype.element_ty), of_tokens)


@triton.jit(do_not_specialize=["n_rows"])
def normalization_forward(
    tokens,
    update,
    weight,
    bias,
    total,
    normalized,
    n_rows,
    width,
    epsilon,
    BLOCK_R: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """`BLOCK_R` rows per program."""
    rows, c = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None], tl.arange(0, BLOCK_D)[None, :]
    inside = (rows < n_rows) & (c < width)
    place = rows.to(tl.int64) * width + c
    x = tl.load(tokens + place, inside, other=0.0).to(tl.float32)
    x += tl.load(update + place, inside, other=0.0).to(tl.float32)
    rounded = x.to(total.dtype.element_ty)
    tl.store(total + place, rounded, inside)
    # The backward pass has only the rounded sum.
    x = rounded.to(tl.float32)
    x = tl.where(inside, x - tl.sum(x, 1)[:, None] / width, 0.0)
    x *= tl.rsqrt(tl.sum(x * x, 1)[:, None] / width + epsilon)
    x = x * tl.load(weight + c, c < width, other=0.0).to(tl.float32)
    x += tl.load(bias + c, c < width, other=0.0).to(tl.float32)
    tl.store(normalized + place, x.to(normalized.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["n_rows"])
def normalization_backward(
    total, weight, to_total, to_normalized, gradient, sums, n_rows, width, epsilon,
    BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Every program takes many blocks of rows and writes its part of the gradients of weight and bias to `sums`."""
    c = tl.arange(0, BLOCK_D)[None, :]
    scale = tl.load(weight + c, c < width, other=0.0).to(tl.float32)
    to_weight = tl.zeros([BLOCK_D], tl.float32)
    to_bias = tl.zeros([BLOCK_D], tl.float32)
    for start in range(tl.program_id(0) * BLOCK_R, n_rows, tl.num_programs(0) * BLOCK_R):
        rows = start + tl.arange(0, BLOCK_R)[:, None]
        inside = (rows < n_rows) & (c < width)
        place = rows.to(tl.int64) * width + c
        x = tl.load(total + place, inside, other=0.0).to(tl.float32)
        x = tl.where(inside, x - tl.sum(x, 1)[:, None] / width, 0.0)
        deviation = tl.rsqrt(tl.sum(x * x, 1)[:, None] / width + epsilon)
        x *= deviation
        upstream = tl.load(to_normalized + place, inside, other=0.0).to(tl.float32)
        to_weight += tl.sum(upstream * x, 0)
        to_bias += tl.sum(upstream, 0)
        upstream *= scale
        centered = upstream - tl.sum(upstream, 1)[:, None] / width - x * (tl.sum(upstream * x, 1)[:, None] / width)
        found = tl.load(to_total + place, inside, other=0.0).to(tl.float32) + deviation * centered
        tl.store(gradient + place, found.to(gradient.dtype.element_ty), inside)
    column = tl.arange(0, BLOCK_D)
    to = sums + tl.program_id(0) * 2 * width + column
    tl.store(to, to_weight, column < width)
    tl.store(to + width, to_bias, column < width)


@triton.jit(do_not_specialize=["threshold", "n_rows"])
def gate_forward(
    x, output, seed, threshold, factor, n_rows, width,
    DROPS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """A block of rows and columns of the output per program."""
    r, c = tl.arange(0, BLOCK_R)[:, None], tl.arange(0, BLOCK_D)[None, :]
    rows, columns = tl.program_id(0) * BLOCK_R + r, tl.program_id(1) * BLOCK_D + c
    inside = (rows < n_rows) & (columns < width)
    at = x + rows.to(tl.int64) * (2 * width) + columns
    a = tl.load(at, inside, other=0.0).to(tl.float32)
    gate = tl.load(at + width, inside, other=0.0).to(tl.float32)
    y = a * tl.maximum(gate, 0.0)
    if DROPS:
        program = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        y = tl.where(kept(seed, program, r * BLOCK_D + c, threshold), y * factor, 0.0)
    tl.store(output + rows.to(tl.int64) * width + columns, y.to(output.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["threshold", "n_rows"])
def gate_backward(
    x, upstream, gradient, seed, threshold, factor, n_rows, width,
    DROPS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The same blocks as `gate_forward`."""
    r, c = tl.arange(0, BLOCK_R)[:, None], tl.arange(0, BLOCK_D)[None, :]
    rows, columns = tl.program_id(0) * BLOCK_R + r, tl.program_id(1) * BLOCK_D + c
    inside = (rows < n_rows) & (columns < width)
    place = rows.to(tl.int64) * (2 * width) + columns
    a = tl.load(x + place, inside, other=0.0).to(tl.float32)
    gate = tl.load(x + place + width, inside, other=0.0).to(tl.float32)
    g = tl.load(upstream + rows.to(tl.int64) * width + columns, inside, other=0.0).to(tl.float32)
    if DROPS:
        program = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        g = tl.where(kept(seed, program, r * BLOCK_D + c, threshold), g * factor, 0.0)
    dtype = gradient.dtype.element_ty
    tl.store(gradient + place, (g * tl.maximum(gate, 0.0)).to(dtype), inside)
    tl.store(gradient + place + width, tl.where(gate > 0, g * a, 0.0).to(dtype), inside)


@triton.jit(do_not_specialize=["n_rows", "n_tokens"])
def tokens_forward(x, slope, offset, output, n_rows, n_tokens, width, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr):
    """`BLOCK_R` rows of one token per program."""
    token = tl.program_id(1)
    rows, c = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None], tl.program_id(2) * BLOCK_D
    c = c + tl.arange(0, BLOCK_D)[None, :]
    value = tl.load(x + rows * n_tokens + token, rows < n_rows, other=0.0)
    scale = tl.load(slope + token * width + c, c < width, other=0.0).to(tl.float32)
    y = tl.load(offset + token * width + c, c < width, other=0.0).to(tl.float32) + value * scale
    place = (rows.to(tl.int64) * n_tokens + token) * width + c
    tl.store(output + place, y.to(output.dtype.element_ty), (rows < n_rows) & (c < width))
