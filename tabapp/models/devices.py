"""GPUs by name. torch is imported only when a GPU is asked for."""

from __future__ import annotations

from tabapp.errors import UsageError


def existing_gpu(name: str) -> str:
    """The name of a GPU with its number.

    Args:
        name: "cuda" or "cuda:N".

    Raises:
        UsageError: torch finds no such GPU.
    """
    import torch

    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = name.partition(":")[2] or "0"
    index = int(number) if number.isdigit() else n_devices
    if index < n_devices:
        return f"cuda:{index}"
    raise UsageError(f"The device {name!r} does not exist: torch finds {n_devices} GPUs. Use --device cpu.")
