"""Ghost batch normalization (Hoffer et al. 2017), as TabNet uses it."""

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor, nn

from tabapp.nn.layers.precision import at_least_float32


class GhostBatchNorm(nn.Module):
    """Batch normalization with the statistics of small virtual batches, each of which moves the running ones.

    A batch is cut into ⌈rows / virtual_batch_size⌉ parts whose sizes differ by one at most, and never into single rows,
    which have no variance. In evaluation mode it is ordinary batch normalization.

    Shape: (rows, width) to itself.
    """

    def __init__(self, width: int, virtual_batch_size: int, momentum: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.virtual_batch_size = virtual_batch_size
        self.momentum = momentum
        self.epsilon = 1e-5

    def forward(self, x: Tensor) -> Tensor:
        x = at_least_float32(x)
        if not self.training:
            scale = self.weight * (self.running_var + self.epsilon).rsqrt()
            return torch.addcmul(self.bias - self.running_mean * scale, x, scale)
        n_parts = max(1, min(ceil(len(x) / self.virtual_batch_size), len(x) // 2))
        n_larger, size = len(x) % n_parts, len(x) // n_parts
        # Parts of one size are normalized together: the larger ones come first.
        cut = n_larger * (size + 1)
        pieces = [(x[:cut], n_larger, size + 1), (x[cut:], n_parts - n_larger, size)]
        return torch.cat([self._normalize(rows, n, size) for rows, n, size in pieces if n])

    def _normalize(self, x: Tensor, n_parts: int, size: int) -> Tensor:
        """Normalize (n_parts · size, width) rows part by part, and move the running statistics as often."""
        parts = x.view(n_parts, size, -1)
        mean = parts.mean(1, keepdim=True)
        centered = parts - mean
        var = centered.square().mean(1, keepdim=True)
        self._track(mean.detach()[:, 0], var.detach()[:, 0] * (size / max(size - 1, 1)))
        return torch.addcmul(self.bias, centered, self.weight * (var + self.epsilon).rsqrt()).view_as(x)

    @torch.no_grad()
    def _track(self, means: Tensor, variances: Tensor) -> None:
        """Take in (n_parts, width) statistics one after the other."""
        keep = 1 - self.momentum
        age = torch.arange(len(means) - 1, -1, -1, device=means.device, dtype=means.dtype)
        share = (self.momentum * keep**age).unsqueeze(1)
        for running, values in ((self.running_mean, means), (self.running_var, variances)):
            running.mul_(keep ** len(means)).add_((share * values).sum(0))
