"""AdamW for several networks whose weights are rows of one tensor."""

from __future__ import annotations

import torch
from torch import Tensor

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Of `torch.optim.AdamW`, which separate fits use."""


class StackedAdamW:
    """AdamW (Loshchilov and Hutter 2019, Algorithm 2) on (members, n) weights, with a learning rate, a weight decay and a number of
    steps for each member.

    Args:
        weights: (members, n), changed in place.
        rates, decays: (members, 1).
        is_decayed: (n,) 1 where weight decay applies, else 0.
    """

    def __init__(self, weights: Tensor, rates: Tensor, decays: Tensor, is_decayed: Tensor) -> None:
        self._rates, self._decays, self._is_decayed = rates, decays, is_decayed
        self._first, self._second = torch.zeros_like(weights), torch.zeros_like(weights)
        self.n_steps = torch.zeros_like(rates)

    @torch.no_grad()
    def step(self, weights: Tensor, gradient: Tensor, active: Tensor) -> None:
        """Take a step of the members whose `active`, (members, 1), is 1; those with 0 stay unchanged."""
        self.n_steps += active
        weights.mul_(1 - active * self._rates * self._decays * self._is_decayed)
        self._first.lerp_(gradient, active * (1 - BETAS[0]))
        self._second.lerp_(gradient.square(), active * (1 - BETAS[1]))
        n = self.n_steps.clamp_min(1)
        corrections = 1 - BETAS[0] ** n, (1 - BETAS[1] ** n).sqrt()
        scale = (self._second.sqrt() / corrections[1]).add_(EPSILON)
        weights.sub_(active * self._rates / corrections[0] * self._first / scale)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint contains."""
        return {"first": self._first, "second": self._second, "n_steps": self.n_steps}

    def keep(self, kept: Tensor) -> None:
        """Keep only some members."""
        for name in ("_rates", "_decays", "_first", "_second", "n_steps"):
            setattr(self, name, getattr(self, name)[kept])
