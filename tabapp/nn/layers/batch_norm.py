"""Batch normalization whose result does not depend on the number of threads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabapp.nn.layers.precision import at_least_float32


class BatchNorm(nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d`, whose statistics of a batch on a CPU do not depend on the number of threads.

    torch sums up the rows of a batch in as many parts as there are threads. The last bits then depend on the number of workers of a
    run, since it decides the number of threads of a fit, and after a few epochs so do the scores.

    Shape: (rows, width) to itself.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        if not self.training or input.device.type != "cpu" or input.ndim != 2 or len(input) < 2:
            return super().forward(input)
        rows = at_least_float32(input)
        # Each column of a mean over rows is computed by one thread.
        mean = rows.mean(0)
        centered = rows - mean
        variance = centered.square().mean(0)
        self._track(mean.detach(), variance.detach() * (len(input) / (len(input) - 1)))
        return torch.addcmul(self.bias, centered, self.weight * (variance + self.eps).rsqrt()).to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance, self.momentum)
