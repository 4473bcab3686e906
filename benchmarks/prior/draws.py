"""Random tensors of one generator, on its device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Draws:
    """Distributions of a seed. The same seed and device give the same tensors."""

    def __init__(self, seed: int, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.generator = torch.Generator(self.device)
        self.generator.manual_seed(seed)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return torch.rand(shape, generator=self.generator, device=self.device).mul_(high - low).add_(low)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=self.device)

    def log_uniform(self, *shape: int, low: float, high: float) -> Tensor:
        return self.uniform(*shape, low=math.log(low), high=math.log(high)).exp_()

    def integers(self, *shape: int, low: int, high: int) -> Tensor:
        """Integers in [low, high]."""
        return torch.randint(low, high + 1, shape, generator=self.generator, device=self.device)

    def log_integers(self, *shape: int, low: int, high: int) -> Tensor:
        """Integers in [low, high] whose logarithms are about uniform."""
        return self.log_uniform(*shape, low=low, high=high + 1).long().clamp_(low, high)

    def chance(self, probability: float | Tensor, *shape: int) -> Tensor:
        """True with a probability, which may differ between elements."""
        return self.uniform(*shape) < probability

    def choice(self, weights: Sequence[float], *shape: int) -> Tensor:
        """Indices of `weights`, with probabilities in proportion to them."""
        limits = torch.tensor(weights, device=self.device).cumsum(0)
        return torch.bucketize(self.uniform(*shape) * limits[-1], limits[:-1], right=True)

    def permutations(self, *shape: int) -> Tensor:
        """Random permutations of the last dimension's indices."""
        return self.uniform(*shape).argsort(-1)


def standardized(values: Tensor, dim: int = 1) -> Tensor:
    """Values with mean 0 and standard deviation 1 along a dimension; constants become 0."""
    centered = values - values.mean(dim, keepdim=True)
    return centered / centered.square().mean(dim, keepdim=True).sqrt().add_(1e-6)


def rows_of(flags: Tensor) -> Tensor:
    """(tables, columns) as (tables, 1, columns), to apply to the rows of tables."""
    return flags.unsqueeze(1)
