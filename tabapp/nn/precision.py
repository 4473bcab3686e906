"""When the matrix products of a training step may run in bfloat16."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware.

    Read from capability flags, not timed: the answer, and with it the result of a fit, is the same whenever the machine
    is asked.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def autocast(device: torch.device, enabled: bool) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16 if enabled; weights, normalisations, softmax and losses stay in float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if enabled else nullcontext()
