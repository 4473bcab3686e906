"""The device of a run."""

from __future__ import annotations

from contextlib import suppress

from tabapp.engine.machine.capacity import Machines
from tabapp.engine.machine.devices import CPU
from tabapp.errors import UsageError, option
from tabapp.models.devices import existing_gpu, has_driver
from tabapp.run.options.config import RunConfig

FIRST_GPU = "cuda:0"
"""On a cluster, each fit sees only the GPU that it gets."""


def choose_device(wanted: str) -> str:
    """The device of a run: the one requested, or a GPU if there is one.

    Raises:
        UsageError: the requested GPU does not exist, or the name is not a device.
    """
    if wanted == "cpu":
        return "cpu"
    if wanted != "auto" and not wanted.startswith("cuda"):
        raise UsageError(f"Unknown device {wanted!r}. Use auto, cpu, cuda or cuda:N.")
    if wanted != "auto":
        return existing_gpu(wanted)
    if has_driver():
        with suppress(UsageError):
            return existing_gpu("cuda")
    return "cpu"


def usable_device(device: str) -> str:
    """The device of a plan that was made elsewhere; another GPU, or else "cpu", where there is no such device."""
    for name in (device, "cuda" if device != CPU else CPU):
        with suppress(UsageError):
            return choose_device(name)
    return CPU


def device_of(config: RunConfig, machines: Machines | None = None) -> str:
    """The device of a run.

    Raises:
        UsageError: the requested GPU does not exist.
    """
    if machines is None:
        return choose_device(config.device)
    if config.device == "cpu" or (config.device == "auto" and not machines.gpus):
        return CPU
    if not machines.gpus:
        raise UsageError(
            f"No node of the cluster has a GPU for {option('device', config.device)}. Use {option('device', 'cpu')} or auto."
        )
    return FIRST_GPU
