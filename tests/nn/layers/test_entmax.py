from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tabapp.nn.layers import entmax
from tabapp.nn.layers.entmax import entmax15, entmoid15, sparsemax
from tabapp.nn.layers.ghost_norm import GhostBatchNorm


def threshold_by_bisection(x: Tensor, power: float) -> Tensor:
    """The definition: p = max(x - t, 0)^power, with t such that p sums to 1."""
    low, high = x.amax(-1, keepdim=True) - 1, x.amax(-1, keepdim=True)
    for _ in range(100):
        middle = (low + high) / 2
        too_low = ((x - middle).clamp(min=0) ** power).sum(-1, keepdim=True) > 1
        low, high = torch.where(too_low, middle, low), torch.where(too_low, high, middle)
    return (x - low).clamp(min=0) ** power


def test_values_by_hand() -> None:
    torch.testing.assert_close(sparsemax(torch.tensor([1.0, 0.5, 0.0])), torch.tensor([0.75, 0.25, 0.0]))
    torch.testing.assert_close(sparsemax(torch.tensor([7.0])), torch.tensor([1.0]))
    torch.testing.assert_close(entmax15(torch.tensor([0.0, 0.0])), torch.tensor([0.5, 0.5]))
    z = torch.tensor([-9.0, -2.0, -1.0, 0.0, 1.0, 2.0, 9.0])
    expected = torch.tensor([0.0, 0.0, 0.16928, 0.5, 0.83072, 1.0, 1.0])
    torch.testing.assert_close(entmoid15(z), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("n", [1, 2, 8, 200])
def test_values_equal_the_definitions(n: int) -> None:
    torch.manual_seed(0)
    x = 2 * torch.randn(300, n)
    for function, scale, power in ((sparsemax, 1.0, 1.0), (entmax15, 0.5, 2.0)):
        p = function(x)
        torch.testing.assert_close(p.double(), threshold_by_bisection(scale * x.double(), power), atol=2e-6, rtol=0)
        torch.testing.assert_close(p.sum(-1), torch.ones(300))
        assert n < 8 or ((p == 0).sum(-1) > 0).float().mean() > 0.9
        torch.testing.assert_close(function(x + 100), p, atol=3e-5, rtol=0)


def test_entmoid_is_entmax_of_two() -> None:
    z = torch.linspace(-3, 3, 301)
    torch.testing.assert_close(entmoid15(z), entmax15(torch.stack([z, 0 * z], -1))[:, 0], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("name", "shape"), [("_Sparsemax", (5, 7)), ("_Entmax15", (2, 3, 6)), ("_Entmoid15", (4, 9))])
def test_gradients_are_exact(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    function: Callable[[Tensor], Tensor] = getattr(entmax, name).apply
    x = (1.5 * torch.randn(shape, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(function, (x,))


def test_inputs_are_unchanged_and_one_choice_is_supported() -> None:
    x = torch.randn(3, 1, 1, requires_grad=True)
    before = x.detach().clone()
    for function in (sparsemax, entmax15, entmoid15):
        function(x).sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape
        assert torch.equal(x.detach(), before)
    assert entmoid15(torch.tensor([0.0, 3.0]).bfloat16()).dtype == torch.float32


@pytest.mark.parametrize(("n_rows", "sizes"), [(100, [100]), (256, [128, 128]), (257, [86, 86, 85]), (2, [2])])
def test_ghost_norm_equals_batch_norm_of_equal_parts(n_rows: int, sizes: list[int]) -> None:
    torch.manual_seed(0)
    ours, oracle = GhostBatchNorm(6, 128, 0.02), nn.BatchNorm1d(6, momentum=0.02)
    with torch.no_grad():
        for norm in (ours, oracle):
            norm.weight.copy_(torch.linspace(0.5, 2, 6))
            norm.bias.copy_(torch.linspace(-1, 1, 6))
    x = 3 + 2 * torch.randn(n_rows, 6)
    torch.testing.assert_close(ours(x), torch.cat([oracle(part) for part in x.split(sizes)]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.running_mean, oracle.running_mean)
    torch.testing.assert_close(ours.running_var, oracle.running_var)
    torch.testing.assert_close(ours.eval()(x), oracle.eval()(x), atol=1e-5, rtol=1e-5)


def test_ghost_norm_has_no_part_of_one_row() -> None:
    norm = GhostBatchNorm(2, 2, 0.1)
    for n_rows in range(2, 12):
        x = torch.randn(n_rows, 2)
        assert norm(x).isfinite().all()
        assert norm(x).abs().max() > 0.1
