"""GPUs by name, and how many there are. The driver is asked for them, since importing torch takes seconds."""

from __future__ import annotations

import re
import subprocess
import threading
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tabapp.children import module_command
from tabapp.errors import UsageError, option

ASK_SECONDS = 20.0
BUILT_FOR = re.compile(r"^(cuda|hip)\b[^=\n]*= *(?:'(\d+)[^'\n]*'|None)\s*$", re.MULTILINE)
_asking = threading.Lock()


def has_driver() -> bool:
    """Whether the system has a driver of NVIDIA."""
    return Path("/dev/nvidia0").exists() or Path("/dev/nvidiactl").exists()


def existing_gpu(name: str) -> str:
    """The name of a GPU with its number.

    Args:
        name: "cuda" or "cuda:N".

    Raises:
        UsageError: torch finds no such GPU.
    """
    n_devices = n_gpus()
    number = name.partition(":")[2] or "0"
    index = int(number) if number.isdigit() else n_devices
    if index < n_devices:
        return f"cuda:{index}"
    raise UsageError(
        f"The device {name!r} does not exist: torch finds {n_devices} GPUs. Use {option('device', 'cpu')}."
    )


def n_gpus() -> int:
    """The number of GPUs that torch can use. Imports torch only if the answer of the driver does not settle it."""
    with _asking:
        found = n_gpus_of_driver()
    if found is not None:
        return found
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@cache
def n_gpus_of_driver() -> int | None:
    """The number of GPUs with which CUDA starts; None if there is none, or if torch may not use them as it does others: it is built
    for another library, or for a newer driver."""
    built_for = _cuda_of_torch()
    if not built_for:
        return None
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        command = module_command("tabapp.models.cuda_driver")
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=True)
        number, version = map(int, done.stdout.split())
        if number and version // 1000 >= built_for:
            return number
    return None


def _cuda_of_torch() -> int | None:
    """The major version of CUDA that the installed torch is built for; None if it is built without, or that is not known."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    with suppress(OSError):
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
        versions = {match[1]: match[2] for match in BUILT_FOR.finditer(text)}
        if versions.get("cuda") and not versions.get("hip"):
            return int(versions["cuda"])
    return None
