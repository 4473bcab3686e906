"""Dropout (Srivastava et al. 2014) with a fast implementation for CPUs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.nn.layers.mapped import is_mapped

SATURATED = -1.7580993408473766
"""The value of SELU for large negative inputs, -λα, to which `AlphaDropout` sets values."""


class Dropout(nn.Module):
    """Zeroes each value with probability `rate` in training and scales the others up. Shape: any to itself.

    NOTE[DIFF]: on a CPU, the rate is rounded to a multiple of 1/256, because one random byte per value is drawn. torch
    draws 32 bits per value one by one, which takes five times as long and was a quarter of a training step.

    Attributes:
        rate: a tensor without dimensions where networks with different rates compute as one.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate: float | Tensor = rate

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate) if self.training else x


class AlphaDropout(Dropout):
    """Dropout that keeps the mean and the variance of SELU activations (Klambauer et al. 2017). Shape: any to itself."""

    def forward(self, x: Tensor) -> Tensor:
        rate = self.rate
        if not isinstance(rate, Tensor):
            return F.alpha_dropout(x, rate, self.training)
        if not self.training:
            return x
        kept = torch.rand_like(x, dtype=torch.float32) >= rate
        scale = ((1 - rate) * (1 + rate * SATURATED**2)).rsqrt()
        return (torch.where(kept, x, SATURATED) - rate * SATURATED) * scale


def dropout(x: Tensor, rate: float | Tensor) -> Tensor:
    """`Dropout` in training mode, as a function. A rate that changes between recorded steps is a tensor without dimensions."""
    if isinstance(rate, Tensor):
        kept = torch.rand_like(x, dtype=torch.float32) >= rate
        return x * (kept / (1 - rate)).to(x.dtype)
    if not rate:
        return x
    if x.device.type != "cpu" or is_mapped():
        return F.dropout(x, rate)
    kept = kept_values(x, rate)
    return x if kept is None else x * kept


def kept_values(x: Tensor, rate: float) -> Tensor | None:
    """The factors of dropout for a CPU tensor: zeros, and a constant above one. None if the rate rounds to zero."""
    n_dropped = round(rate * 256)
    if not n_dropped:
        return None
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64)
    # From the lowest int64, with no upper bound, is torch's way to ask for all 64 bits.
    random_bytes = words.random_(torch.iinfo(torch.int64).min, None).view(torch.uint8)[: x.numel()].view(x.shape)
    # A comparison takes three times as long as this ramp, which has no value between its ends.
    ramp = random_bytes.to(x.dtype).sub_(n_dropped - 0.5).mul_(4096.0)
    return ramp.clamp_(0.0, 256 / (256 - n_dropped))
