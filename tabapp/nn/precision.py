"""Floating-point precision: bfloat16 for matrix products where it is fast, at least float32 everywhere else."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor


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
