"""The Triton kernels, compared with torch's operations in float64. Without a GPU, Triton's interpreter runs them:

TRITON_INTERPRET=1 pytest tests/nn/layers/test_fused.py
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tabapp.nn.layers import fused

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark: list[pytest.MarkDecorator] = [] if INTERPRETED else [pytest.mark.gpu]
DEVICE = "cpu" if INTERPRETED else "cuda:0"
DTYPE = torch.float32 if INTERPRETED else torch.bfloat16
"""The interpreter truncates bfloat16 instead of rounding."""
ROUNDING = torch.finfo(DTYPE).eps
DRAWS = 4096


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape).to(DEVICE, DTYPE).requires_grad_()


def gradients(output: Tensor, upstream: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    return [g.double().cpu() for g in torch.autograd.grad(output, leaves, upstream)]


def assert_close(found: Tensor, expected: Tensor, n_roundings: float = 2) -> None:
    """As norms: rounded values and their products have errors of some half spacings."""
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    assert found.shape == expected.shape
    assert torch.isfinite(found).all()
    error = torch.linalg.vector_norm(found - expected) / torch.linalg.vector_norm(expected)
    assert error < n_roundings * ROUNDING / 2


def compare(
    found: Callable[..., Tensor], expected: Callable[..., Tensor], leaves: list[Tensor], n_roundings: float = 2
) -> None:
    """Compare outputs and gradients with those in float64."""
    output = found(*leaves)
    upstream = torch.randn(output.shape).to(output)
    wide = [leaf.detach().double().cpu().requires_grad_() for leaf in leaves]
    exact = expected(*wide)
    assert_close(output, exact, n_roundings)
    for g, e in zip(gradients(output, upstream, leaves), gradients(exact, upstream.double().cpu(), wide), strict=True):
        assert_close(g, e, n_roundings)


def exact_attention(packed: Tensor, n_heads: int) -> Tensor:
    query, key, value = packed.unflatten(2, (3, n_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("n_tokens", "d_head", "n_heads"), [(51, 24, 8), (2, 4, 1), (17, 40, 2), (100, 64, 2)])
def test_attention(n_tokens: int, d_head: int, n_heads: int) -> None:
    torch.manual_seed(0)
    packed = drawn(3, n_tokens, 3 * n_heads * d_head)
    # Probabilities, scores and their gradients are rounded, too.
    compare(lambda x: fused.attention(x, n_heads, 0.0), lambda x: exact_attention(x, n_heads), [packed], n_roundings=8)


def test_attention_drops_the_same_weights_backward() -> None:
    torch.manual_seed(0)
    n_tokens = d_head = 16
    n_rows, n_heads, rate = DRAWS // n_tokens**2, 2, 0.25
    packed = drawn(n_rows, n_tokens, 3 * n_heads * d_head)
    with torch.no_grad():
        # The output is then the weights.
        packed[:, :, 2 * n_heads * d_head :] = torch.eye(n_tokens).repeat(1, n_heads)
    output = fused.attention(packed, n_heads, rate)
    kept = (output != 0).double().cpu().unflatten(2, (n_heads, n_tokens)).transpose(1, 2)
    # Six standard errors of a share.
    assert kept.mean().item() == pytest.approx(1 - rate, abs=6 * (rate * (1 - rate) / kept.numel()) ** 0.5)
    assert not torch.equal(kept[0, 0], kept[0, 1])
    assert not torch.equal(kept[0], kept[1])

    def exact(x: Tensor) -> Tensor:
        query, key, value = x.unflatten(2, (3, n_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(query @ key.transpose(2, 3) / d_head**0.5, 3) * kept / (1 - rate)
        return (weights @ value).transpose(1, 2).flatten(2)

    upstream = torch.randn(output.shape).to(output)
    wide = packed.detach().double().cpu().requires_grad_()
    (found,) = gradients(output, upstream, [packed])
    (expected,) = gradients(exact(wide), upstream.double().cpu(), [wide])
    assert_close(found, expected, n_roundings=5)
    assert not torch.equal(fused.attention(packed, n_heads, rate), output)


def exact_pooling(queries: Tensor, tokens: Tensor, kept: Tensor | float = 1.0) -> Tensor:
    """The means and the sums of `fused.pooled_attention`, joined."""
    weights = torch.softmax(queries @ tokens.transpose(1, 2) * 0.3, 2) * kept
    return torch.cat([weights @ tokens, weights.sum(2, keepdim=True)], dim=2)


def pooling(queries: Tensor, tokens: Tensor, rate: float = 0.0) -> Tensor:
    pooled, sums = fused.pooled_attention(queries, tokens, 0.3, rate)
    return torch.cat([pooled, sums.unsqueeze(2).to(pooled.dtype)], dim=2)


@pytest.mark.parametrize(("n_tokens", "width", "n_heads"), [(51, 192, 8), (2, 16, 1), (100, 40, 16)])
def test_pooled_attention(n_tokens: int, width: int, n_heads: int) -> None:
    torch.manual_seed(0)
    leaves = [drawn(3, n_heads, width), drawn(3, n_tokens, width)]
    compare(pooling, exact_pooling, leaves, n_roundings=8)


def test_pooled_attention_drops_the_same_weights_backward() -> None:
    torch.manual_seed(0)
    n_rows, n_tokens, n_heads, rate = 16, 16, 16, 0.25
    tokens = torch.eye(n_tokens).repeat(n_rows, 1, 1).to(DEVICE, DTYPE).requires_grad_()
    queries = drawn(n_rows, n_heads, n_tokens)
    output = pooling(queries, tokens, rate)
    # The means of unit vectors are the weights.
    kept = (output[:, :, :n_tokens] != 0).double().cpu()
    assert kept.mean().item() == pytest.approx(1 - rate, abs=6 * (rate * (1 - rate) / kept.numel()) ** 0.5)
    assert not torch.equal(kept[0], kept[1])
    upstream = torch.randn(output.shape).to(output)
    wide = [leaf.detach().double().cpu().requires_grad_() for leaf in (queries, tokens)]
    exact = exact_pooling(*wide, kept / (1 - rate))
    assert_close(output, exact, n_roundings=8)
    found = gradients(output, upstream, [queries, tokens])
    for g, e in zip(found, gradients(exact, upstream.double().cpu(), wide), strict=True):
        assert_close(g, e, n_roundings=8)


@pytest.mark.parametrize(("shape", "width"), [((7, 5), 192), ((1,), 16), ((600, 9), 24)])
def test_sum_and_normalization(shape: tuple[int, ...], width: int) -> None:
    torch.manual_seed(0)
    leaves = [drawn(*shape, width), drawn(*shape, width), drawn(width), drawn(width)]

    def both(normalize: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Tensor]:
        return lambda *x: torch.cat(normalize(*x), dim=-1)

    def exact(tokens: Tensor, update: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        total = tokens + update
        return total, F.layer_norm(total, (width,), weight, bias, 1e-5)

    compare(both(lambda *x: fused.AddNormalized.apply(*x, 1e-5)), both(exact), leaves, n_roundings=4)


@pytest.mark.parametrize(("shape", "width"), [((30, 3), 256), ((5,), 20)])
def test_gate(shape: tuple[int, ...], width: int) -> None:
    torch.manual_seed(0)

    def exact(x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return a * torch.relu(b)

    compare(lambda x: fused.gate(x, 0.0), exact, [drawn(*shape, 2 * width)])


def test_gate_drops_the_same_values_backward() -> None:
    torch.manual_seed(0)
    rate, width = 0.4, 128
    x = drawn(DRAWS // width, 2 * width)
    with torch.no_grad():
        x.abs_().add_(0.1)
    output = fused.gate(x, rate)
    kept = (output != 0).double().cpu()
    assert kept.mean().item() == pytest.approx(1 - rate, abs=6 * (rate * (1 - rate) / kept.numel()) ** 0.5)
    assert not torch.equal(kept[:16], kept[16:])
    upstream = torch.randn(output.shape).to(output)
    wide = x.detach().double().cpu().requires_grad_()
    a, b = wide.chunk(2, dim=-1)
    exact = a * torch.relu(b) * kept / (1 - rate)
    assert_close(output, exact)
    assert_close(gradients(output, upstream, [x])[0], gradients(exact, upstream.double().cpu(), [wide])[0])
    assert not torch.equal(fused.gate(x, rate), output)


@pytest.mark.parametrize(("n_rows", "n_tokens", "width"), [(40, 3, 72), (1, 1, 8)])
def test_affine_tokens(n_rows: int, n_tokens: int, width: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(n_rows, n_tokens, device=DEVICE)
    leaves = [drawn(n_tokens, width), drawn(n_tokens, width)]
    compare(
        lambda slope, offset: fused.affine_tokens(x, slope, offset),
        lambda slope, offset: x.double().cpu().unsqueeze(2) * slope + offset,
        leaves,
    )
