"""Checkpoints from which a killed fit resumes, as safetensors and JSON."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from tabapp.files import write_bytes

FILE = "checkpoint.safetensors"
FORMAT = "1"
CHECKPOINT_SECONDS = 20.0
"""Least training seconds between two checkpoints."""
SAVING_SHARE = 0.05
"""Most of the time that goes into writing them. The state of a network with 168 million weights takes 3.4 GB."""


class Saving:
    """When a training loop writes checkpoints: every `CHECKPOINT_SECONDS`, or less often where writing one takes long."""

    def __init__(self) -> None:
        self._ended, self._took = time.monotonic(), 0.0

    def is_due(self) -> bool:
        """Whether the time has come for the next checkpoint."""
        return time.monotonic() - self._ended > max(CHECKPOINT_SECONDS, self._took / SAVING_SHARE)

    @contextmanager
    def timed(self) -> Generator[None]:
        """Around writing a checkpoint."""
        began = time.monotonic()
        yield
        self._ended = time.monotonic()
        self._took = self._ended - began


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Counters of the training loop at the end of an epoch."""

    epoch: int
    best_epoch: int
    best_loss: float
    n_steps: int
    planned_epochs: int
    chunk: int
    seconds: float


def _optimizer_tensors(optimizer: torch.optim.Optimizer | None) -> Iterator[tuple[str, Tensor]]:
    if optimizer is None:
        return
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            yield f"optimizer.{index}.{name}", torch.as_tensor(value)


def save_checkpoint(
    folder: Path, tensors: dict[str, dict[str, Tensor]], optimizer: torch.optim.Optimizer | None, progress: Progress
) -> None:
    """Write the state of training to the folder and atomically replace an earlier checkpoint.

    Args:
        tensors: named groups of tensors, such as the network's state and the best state so far.
        optimizer: an optimizer of torch; None if its state is among the tensors.
    """
    flat = {f"{group}.{name}": t for group, members in tensors.items() for name, t in members.items()}
    flat |= dict(_optimizer_tensors(optimizer))
    flat["random.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        flat["random.cuda"] = torch.cuda.get_rng_state()
    # Safetensors refuses tensors that share memory, as tied weights do.
    flat = {name: t.detach().cpu().clone().contiguous() for name, t in flat.items()}
    metadata = {"format": FORMAT, "progress": msgspec.json.encode(progress).decode()}
    write_bytes(folder / FILE, safetensors.torch.save(flat, metadata))


def load_checkpoint(
    folder: Path, tensors: dict[str, dict[str, Tensor]], optimizer: torch.optim.Optimizer | None
) -> Progress | None:
    """Restore a checkpoint in place. Return None and change nothing if there is none with matching tensors.

    Args:
        tensors: as given to `save_checkpoint`; filled in place.
    """
    try:
        with safetensors.safe_open(folder / FILE, framework="pt") as file:  # pyright: ignore[reportAttributeAccessIssue]
            metadata: dict[str, str] = file.metadata() or {}
            saved: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.get("format") != FORMAT:
            return None
        progress = msgspec.json.decode(metadata["progress"], type=Progress)
    except (OSError, KeyError, SafetensorError, msgspec.MsgspecError):
        return None
    wanted = {f"{group}.{name}": t for group, members in tensors.items() for name, t in members.items()}
    if any(name not in saved or saved[name].shape != t.shape for name, t in wanted.items()):
        return None
    with torch.no_grad():
        for name, t in wanted.items():
            t.copy_(saved[name])
    state: dict[int, dict[str, Any]] = {}
    for name, value in saved.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = value
    if optimizer is not None:
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(saved["random.cpu"])
    if "random.cuda" in saved and torch.cuda.is_available():
        torch.cuda.set_rng_state(saved["random.cuda"])
    return progress
