"""LAMB (You et al. 2020) and Lookahead (Zhang et al. 2019), the optimizers of NPT."""

# torch exports the operations on many tensors at once under private names only; its own optimizers are made of them.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Iterable
from math import cos, pi

import torch
from torch import Tensor, nn


class Lamb:
    """Adam with the step of each tensor scaled to the norm of the tensor (You et al. 2020, Algorithm 2). As in the code of
    NPT, there is no bias correction, and norms are clipped at `largest_norm`. If a tensor or its update is zero, the step
    is Adam's.

    Attributes:
        learning_rate: can be changed between steps; a tensor for steps that a GPU repeats from a recording.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        learning_rate: float | Tensor,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-6,
        weight_decay: float = 0.0,
        largest_norm: float = 10.0,
    ) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self._betas, self._epsilon, self._weight_decay, self._largest_norm = betas, epsilon, weight_decay, largest_norm
        self._first = [torch.zeros_like(p) for p in self.parameters]
        self._second = [torch.zeros_like(p) for p in self.parameters]

    def state(self) -> dict[str, Tensor]:
        """The moments of the gradients by name."""
        moments = {"first": self._first, "second": self._second}
        return {f"{name}.{i}": t for name, tensors in moments.items() for i, t in enumerate(tensors)}

    @torch.no_grad()
    def step(self) -> None:
        """Take a step against the gradients; a parameter without one counts as having a gradient of zero."""
        weights: list[Tensor] = [p.detach() for p in self.parameters]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        torch._foreach_lerp_(self._first, gradients, 1 - self._betas[0])
        torch._foreach_mul_(self._second, self._betas[1])
        torch._foreach_addcmul_(self._second, gradients, gradients, 1 - self._betas[1])
        scale = torch._foreach_sqrt(self._second)
        torch._foreach_add_(scale, self._epsilon)
        updates = torch._foreach_div(self._first, scale)
        if self._weight_decay:
            torch._foreach_add_(updates, weights, alpha=self._weight_decay)
        weight_norms = torch.stack(torch._foreach_norm(weights)).clamp(max=self._largest_norm)
        update_norms = torch.stack(torch._foreach_norm(updates))
        trust = torch.where((weight_norms > 0) & (update_norms > 0), weight_norms / update_norms, 1.0)
        torch._foreach_mul_(updates, list((-self.learning_rate * trust).unbind()))
        torch._foreach_add_(weights, updates)

    def zero_grad(self) -> None:
        """Set the gradients to None."""
        for parameter in self.parameters:
            parameter.grad = None


class Lookahead:
    """Wrapper around another optimizer: every `n_fast` steps, the slow weights move by the share `rate` toward the current
    weights and replace them (Zhang et al. 2019, Algorithm 1). The slow weights start at the initial weights. Evaluate the
    network after a multiple of `n_fast` steps, when it holds the slow weights.

    Attributes:
        n_steps: number of steps so far.
    """

    def __init__(self, fast: Lamb, *, rate: float = 0.5, n_fast: int = 6) -> None:
        self.fast = fast
        self.n_fast = n_fast
        self._rate = rate
        self.n_steps = 0
        self._slow = [p.detach().clone() for p in fast.parameters]

    def state(self) -> dict[str, Tensor]:
        """The tensors of both optimizers by name. A resumed fit fills them in place, and sets `n_steps`."""
        slow = {f"slow.{i}": t for i, t in enumerate(self._slow)}
        return slow | self.fast.state()

    def step(self) -> None:
        """Take a step of the inner optimizer, and after every `n_fast` steps one of the slow weights."""
        self.fast.step()
        self.after_fast_step()

    @torch.no_grad()
    def after_fast_step(self) -> None:
        """Count a step that the inner optimizer has taken, and move the slow weights if it was the last of `n_fast`."""
        self.n_steps += 1
        if self.n_steps % self.n_fast == 0:
            weights: list[Tensor] = [p.detach() for p in self.fast.parameters]
            torch._foreach_lerp_(self._slow, weights, self._rate)
            torch._foreach_copy_(weights, self._slow)

    def zero_grad(self) -> None:
        """Set the gradients to None."""
        self.fast.zero_grad()


def clamp_gradients(parameters: Iterable[nn.Parameter], limit: float) -> None:
    """Clamp every element of every gradient to [-limit, limit], the "gradient clipping at 1" of NPT's code."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    torch._foreach_clamp_min_(gradients, -limit)
    torch._foreach_clamp_max_(gradients, limit)


def cyclic(progress: float, n_cycles: int) -> float:
    """Factor on the learning rate that rises from almost 0 to 1 and falls back `n_cycles` times, along a cosine.

    The ends of a cycle are 1e-4, as in NPT (Kossen et al. 2021, appendix C.1.2): 1e-7 at a rate of 1e-3.
    """
    return max(1e-4, (1 - cos(2 * pi * n_cycles * progress)) / 2)


def flat_then_anneal(progress: float, flat: float) -> float:
    """Factor of the learning rate: 1 for the first `flat` of the steps, then cosine annealing to 0. `progress` is in [0, 1]."""
    if progress <= flat:
        return 1.0
    return cosine_down((progress - flat) / (1 - flat))


def warm_then_polynomial(progress: float, warmup: float, power: float) -> float:
    """Factor of the learning rate: from 0 to 1 in the first `warmup` of the steps, then (1 - x) ** `power` to 0. `progress` is in
    [0, 1]."""
    if progress < warmup:
        return progress / warmup
    return ((1 - progress) / (1 - warmup)) ** power if warmup < 1 else 1.0


def cosine_down(progress: float) -> float:
    """Half a cosine from 1 to 0. `progress` is in [0, 1]."""
    return 0.5 + 0.5 * cos(pi * progress)
