"""Floating-point precision: bfloat16 for matrix products where it is fast, at least float32 everywhere else."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware. The answer depends on capability flags, not on timing, so that
    repeated fits give the same result.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def at_least_float32(x: Tensor) -> Tensor:
    """Widen bfloat16 and float16 to float32; float64 stays, so that formulas can be checked without rounding errors."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def autocast(device: torch.device, enabled: bool) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16 if enabled; weights, normalizations, softmax and losses stay in float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if enabled else nullcontext()


class _Rounded(torch.autograd.Function):
    """bfloat16 copies of tensors, all by one operation, as are their gradients. Shape: any number of tensors to themselves."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(_copied(tensors, torch.bfloat16))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        # One operation copies only tensors of equal strides.
        widened = iter(_copied([g.contiguous() for g in grad_outputs if g is not None], torch.float32))
        return tuple(None if g is None else next(widened) for g in grad_outputs)


def _copied(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    copies = [torch.empty_like(t, dtype=dtype) for t in tensors]
    if copies:
        torch._foreach_copy_(copies, list(tensors))  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    return copies


def bfloat16_output(network: nn.Module, *inputs: Tensor) -> Tensor:
    """Output of a float32 network from bfloat16 copies of its weights, with gradients for the float32 weights.

    Unlike under autocast, normalizations and sums between the layers write bfloat16, too, which halves the bytes that a step moves,
    and all weights are rounded at once. The optimizer and averages of the weights keep float32.
    """
    names, weights = zip(*network.named_parameters(), strict=True)
    return functional_call(network, dict(zip(names, _Rounded.apply(*weights), strict=True)), inputs)


@contextmanager
def tensor_float32(device: torch.device, enabled: bool) -> Generator[None]:
    """Compute the float32 matrix products of a block in TF32 on a GPU: factors rounded to 10 bits after the point, sums in
    float32. For training only, since predictions of a bundle should not depend on the device. Does nothing on a CPU.
    """
    if not enabled or device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
