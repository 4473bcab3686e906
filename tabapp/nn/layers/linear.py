"""Fast linear layers, which nearly all networks use."""

from __future__ import annotations

import functools
import platform
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tabapp.nn.layers.mapped import is_mapped

FEW_PRODUCTS = 2**22
"""Multiplications below which a call of oneDNN costs more than it saves."""


@functools.cache
def onednn_linear() -> Any:
    """oneDNN's linear layer on processors where torch's float32 matrix product uses half of the speed, else None. torch
    calls MKL, which uses only AVX2 on processors of other vendors than Intel, while oneDNN uses AVX-512 (2.2 times as fast
    from 256 rows of 192 features, with the same rounding errors). The choice depends on capability flags, not on timing, so
    that repeated fits give the same result.
    """
    if not torch.backends.mkldnn.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None) if "AuthenticAMD" in _processor() else None


def _processor() -> str:
    """Processor description of the operating system."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b by oneDNN, without a gradient. Shape: (rows, d_in) by (d_out, d_in) to (rows, d_out)."""
    return onednn_linear()(x, weight, bias, "none", [], "")


class OneDNNLinear(torch.autograd.Function):
    """x Wᵀ + b and its gradients, all by oneDNN. Shape: (rows, d_in) by (d_out, d_in) to (rows, d_out)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        (upstream,) = grad_outputs
        to_x = product(upstream, weight.t()) if ctx.needs_input_grad[0] else None
        to_weight = product(upstream.t(), x.t()) if ctx.needs_input_grad[1] else None
        to_bias = upstream.sum(0) if ctx.needs_input_grad[2] else None
        return to_x, to_weight, to_bias


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, with the fastest implementation for this processor.

    Shape: (..., d_in) by (d_out, d_in) to (..., d_out).
    """
    pays = (
        x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32 and x.numel() * len(weight) >= FEW_PRODUCTS
    )
    # An exporter by tracing does not know oneDNN's operator.
    tracing = torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage]
    if not pays or is_mapped() or tracing or onednn_linear() is None or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    # Of a matrix that is neither row after row nor column after column, oneDNN takes fifty times as long.
    plain = weight.is_contiguous() or weight.t().is_contiguous()
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    output: Any = OneDNNLinear.apply(rows, weight if plain else weight.contiguous(), bias)
    return output.view(*x.shape[:-1], len(weight))


class Linear(nn.Linear):
    """`torch.nn.Linear`, by `linear`."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 – torch's name for it
        return linear(input, self.weight, self.bias)
