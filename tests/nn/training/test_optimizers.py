import math

import pytest
import torch
from torch import nn

from tabapp.nn.training.optimizers import (
    Lamb,
    Lookahead,
    clamp_gradients,
    cosine_down,
    cyclic,
    flat_then_anneal,
    warm_then_polynomial,
)


def parameter(*values: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def test_lamb_by_hand() -> None:
    """Two steps of Algorithm 2 without bias correction, and the trust ratio of each tensor."""
    weight = parameter(3.0, 4.0)
    lamb = Lamb([weight], 0.1, weight_decay=0.01)
    expected, first, second = torch.tensor([3.0, 4.0]).double(), torch.zeros(2).double(), torch.zeros(2).double()
    for gradient in (torch.tensor([1.0, -2.0]).double(), torch.tensor([0.5, 0.0]).double()):
        weight.grad = gradient
        lamb.step()
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        update = first / (second.sqrt() + 1e-6) + 0.01 * expected
        expected = expected - 0.1 * expected.norm() / update.norm() * update
        torch.testing.assert_close(weight.detach(), expected)


def test_lamb_clips_norms_at_ten_and_treats_zeros_like_adam() -> None:
    large, zero, still = parameter(300.0, 400.0), parameter(0.0), parameter(1.0)
    lamb = Lamb([large, zero, still], 0.1)
    large.grad, zero.grad = torch.tensor([0.0, 1.0]).double(), torch.ones(1).double()
    lamb.step()
    assert large[1].item() == pytest.approx(400 - 0.1 * 10)
    assert zero[0].item() == pytest.approx(-0.1 * 0.1 / (math.sqrt(0.001) + 1e-6))
    assert still[0].item() == 1.0


def test_lookahead_interpolates_half_way_every_six_steps() -> None:
    def run(n_steps: int, wrapped: bool) -> list[float]:
        weight = parameter(1.0, 2.0)
        lamb = Lamb([weight], 0.05)
        optimizer = Lookahead(lamb) if wrapped else lamb
        seen: list[float] = []
        for _ in range(n_steps):
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()
            seen.append(float(weight[0].detach()))
        return seen

    alone, together = run(6, wrapped=False), run(7, wrapped=True)
    assert together[:5] == alone[:5]
    assert together[5] == pytest.approx(1.0 + 0.5 * (alone[5] - 1.0))
    assert together[6] < together[5]


def test_lookahead_with_lamb_converges_to_a_minimum() -> None:
    weight = parameter(5.0, -3.0)
    optimizer = Lookahead(Lamb([weight], 0.05))
    goal = torch.tensor([1.0, 2.0]).double()
    for step in range(600):
        optimizer.zero_grad()
        (weight - goal).square().sum().backward()
        optimizer.fast.learning_rate = 0.05 * flat_then_anneal(step / 600, 0.5)
        optimizer.step()
    torch.testing.assert_close(weight.detach(), goal, atol=0.02, rtol=0)


def test_gradient_is_clamped_elementwise() -> None:
    one, none = parameter(1.0, 1.0, 1.0), parameter(1.0)
    one.grad = torch.tensor([0.5, -7.0, 3.0]).double()
    clamp_gradients([one, none], 1.0)
    assert one.grad.tolist() == [0.5, -1.0, 1.0]
    assert none.grad is None


def test_schedules() -> None:
    assert [cyclic(p, 2) for p in (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)] == pytest.approx([1e-4, 0.5, 1, 1e-4, 1, 1e-4])
    assert [flat_then_anneal(p, 0.7) for p in (0.0, 0.7)] == [1.0, 1.0]
    assert flat_then_anneal(0.85, 0.7) == pytest.approx(0.5)
    assert flat_then_anneal(1.0, 0.7) == pytest.approx(0.0)
    polynomial = [warm_then_polynomial(p, 0.2, 2.0) for p in (0.0, 0.1, 0.2, 0.6, 1.0)]
    assert polynomial == pytest.approx([0.0, 0.5, 1.0, 0.25, 0.0])
    assert [cosine_down(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.5, 0.0])
