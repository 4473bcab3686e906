"""Sparse relatives of softmax and sigmoid: exact values and exact gradients, in float32 or wider.

Sparsemax: Martins & Astudillo 2016, algorithm 1. 1.5-entmax: Peters, Niculae & Martins 2019, algorithm 2. The two-class
form of the latter: Popov et al. 2020 (NODE), section 3.1.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tabapp.nn.layers.precision import at_least_float32


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x - x.amax(-1, keepdim=True)
        ranked = x.sort(-1, descending=True).values
        rank = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
        above = ranked.cumsum(-1) - 1
        n_kept = (rank * ranked > above).sum(-1, keepdim=True)
        threshold = above.gather(-1, n_kept - 1) / n_kept
        p = (x - threshold).clamp_(min=0)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        kept = (p > 0).to(p.dtype)
        gradient = grad_outputs[0] * kept
        mean = gradient.sum(-1, keepdim=True) / kept.sum(-1, keepdim=True)
        return gradient.sub_(kept.mul_(mean))


class _Entmax15(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = (x - x.amax(-1, keepdim=True)) / 2
        ranked = x.sort(-1, descending=True).values
        rank = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
        mean = ranked.cumsum(-1) / rank
        # What is left of 1 when each of the first k values pays for its distance from their mean.
        spread = ranked.square().cumsum(-1) - rank * mean.square()
        threshold = mean - ((1 - spread) / rank).clamp(min=0).sqrt()
        n_kept = (threshold <= ranked).sum(-1, keepdim=True)
        root = (x - threshold.gather(-1, n_kept - 1)).clamp_(min=0)
        ctx.save_for_backward(root)
        return root.square()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        gradient = grad_outputs[0] * root
        mean = gradient.sum(-1, keepdim=True) / root.sum(-1, keepdim=True)
        return gradient.sub_(root * mean)


class _Entmoid15(torch.autograd.Function):
    """½ + z √(8 - z²) / 8, which is entmax's root of the root, squared out."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        # Beyond 2 all weight is on one side, which the bound says as well as the formula without it.
        z = z.clamp(-2, 2)
        root = torch.addcmul(z.new_full((), 8), z, z, value=-1).sqrt_()
        ctx.save_for_backward(z, root)
        return torch.addcmul(z.new_full((), 0.5), z, root, value=0.125)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        z, root = ctx.saved_tensors
        return torch.addcmul(z.new_full((), 1), z, z, value=-0.25).div_(root).mul_(grad_outputs[0])


def sparsemax(x: Tensor) -> Tensor:
    """The point of the simplex nearest to x, along the last dimension. Shape: (..., n) to itself."""
    return _Sparsemax.apply(at_least_float32(x))  # pyright: ignore[reportReturnType]


def entmax15(x: Tensor) -> Tensor:
    """1.5-entmax along the last dimension: between softmax and sparsemax. Shape: (..., n) to itself."""
    return _Entmax15.apply(at_least_float32(x))  # pyright: ignore[reportReturnType]


def entmoid15(z: Tensor) -> Tensor:
    """The first of the two values of 1.5-entmax over [z, 0]: a sigmoid that is 0 below -2 and 1 above 2. Shape: any to
    itself.
    """
    return _Entmoid15.apply(at_least_float32(z))  # pyright: ignore[reportReturnType]
