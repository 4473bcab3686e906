"""AdamW for several networks whose weights are rows of one tensor."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Of `torch.optim.AdamW`, which separate fits use."""
STILL = 1e-30
"""Learning rate of a step that a network does not take: no float32 weight notices it, and its reciprocal is finite."""


class Coefficients(NamedTuple):
    """Numbers of a step, each (members, 1): all that depends on the number of steps is computed for many steps at once.

    Attributes:
        kept: factor of weight decay.
        first_share, second_share: shares of the gradient in both averages.
        slowness: reciprocal of the learning rate, with the corrections of both averages for their start at zero.
        floor: the term of the denominator that avoids a division by zero, times `slowness`.
    """

    kept: Tensor
    first_share: Tensor
    second_share: Tensor
    slowness: Tensor
    floor: Tensor


class StackedAdamW:
    """AdamW (Loshchilov and Hutter 2019, Algorithm 2) on (members, n) weights, with a learning rate, a weight decay and a number of
    steps for each member.

    Args:
        weights: (members, n), changed in place.
        rates, decays: (members,) float64.
        is_decayed: (n,) 1 where weight decay applies, else 0; None if it applies everywhere.
    """

    def __init__(self, weights: Tensor, rates: Tensor, decays: Tensor, is_decayed: Tensor | None) -> None:
        self._rates, self._decays, self._is_decayed = rates, decays, is_decayed
        self._first, self._second = torch.zeros_like(weights), torch.zeros_like(weights)

    def coefficients(self, n_steps: Tensor, active: Tensor) -> Coefficients:
        """Numbers of several steps.

        Args:
            n_steps: (steps, members) float64, number of steps that each member has taken after each step.
            active: (steps, members) 1 where a member takes the step, 0 where it stays unchanged.

        Returns:
            (steps, members) float64 each.
        """
        n_steps = n_steps.clamp_min(1)
        root = (1 - BETAS[1] ** n_steps).sqrt()
        rates = active * self._rates
        slowness = (1 - BETAS[0] ** n_steps) / (rates * root).clamp_min(STILL)
        return Coefficients(
            kept=1 - rates * self._decays,
            first_share=active * (1 - BETAS[0]),
            second_share=active * (1 - BETAS[1]),
            slowness=slowness,
            floor=EPSILON * root * slowness,
        )

    @torch.no_grad()
    def step(self, weights: Tensor, gradient: Tensor, numbers: Coefficients) -> None:
        """Take a step; the gradient is overwritten. Each operation reads and writes all weights, which takes most of its time."""
        kept = numbers.kept
        if self._is_decayed is not None:
            kept = 1 - (1 - kept) * self._is_decayed
        weights.mul_(kept)
        self._first.lerp_(gradient, numbers.first_share)
        self._second.lerp_(gradient.square_(), numbers.second_share)
        # (√v / √c₂ + ε) c₁ / rate, with the corrections c₁ and c₂
        denominator = torch.addcmul(numbers.floor, self._second.sqrt(), numbers.slowness)
        weights.addcdiv_(self._first, denominator, value=-1)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint contains."""
        return {"first": self._first, "second": self._second}

    def keep(self, kept: Tensor) -> None:
        """Keep only some members."""
        for name in ("_rates", "_decays", "_first", "_second"):
            setattr(self, name, getattr(self, name)[kept])
