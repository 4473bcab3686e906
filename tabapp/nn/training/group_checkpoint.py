"""Checkpoints of a group of fits that are trained as one stacked network, as safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from tabapp.files import write_bytes

FILE = "group.safetensors"
FORMAT = "2"


class GroupProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The state of a group at the end of an epoch, besides its tensors.

    Attributes:
        fits: folder names of all fits of the group, in order.
        epoch: completed epochs of those that have not ended.
        stacked: numbers of those in the stacked network, of which some may have ended.
        best_epochs: best epoch of each fit.
        epochs: epochs of each fit that has ended; 0 for the others.
    """

    fits: tuple[str, ...]
    epoch: int
    stacked: tuple[int, ...]
    best_epochs: tuple[int, ...]
    epochs: tuple[int, ...]


def save_group(folder: Path, tensors: Mapping[str, Tensor], progress: GroupProgress) -> None:
    """Write the state of a group, and of torch's random numbers, and atomically replace an earlier one."""
    flat = dict(tensors) | {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        flat["random.cuda"] = torch.cuda.get_rng_state()
    flat = {name: t.detach().cpu().clone().contiguous() for name, t in flat.items()}
    metadata = {"format": FORMAT, "progress": msgspec.json.encode(progress).decode()}
    write_bytes(folder / FILE, safetensors.torch.save(flat, metadata))


def load_group(folder: Path) -> tuple[dict[str, Tensor], GroupProgress] | None:
    """Read what `save_group` wrote; None if there is nothing, or nothing valid."""
    try:
        with safetensors.safe_open(folder / FILE, framework="pt") as file:  # pyright: ignore[reportAttributeAccessIssue]
            metadata: dict[str, str] = file.metadata() or {}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.get("format") != FORMAT:
            return None
        return tensors, msgspec.json.decode(metadata["progress"], type=GroupProgress)
    except (OSError, KeyError, SafetensorError, msgspec.MsgspecError):
        return None


def restore_random_numbers(tensors: Mapping[str, Tensor]) -> None:
    """Continue the random numbers of torch where `save_group` found them."""
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random.cuda"])
