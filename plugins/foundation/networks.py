"""Pre-trained networks in memory: one for each file of weights and device, shared by all models of the process, and what they
have read for these models."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from tabapp.errors import UsageError
from tabapp.weights import store
from tabapp.weights.pretrained import UsedWeights

MOST_KEPT = 2 * 2**30
"""Bytes that networks have read of contexts and keep for the next prediction, of all models of a process together; a quarter of the
machine's memory if that is less."""

_networks: dict[tuple[str, str], Any] = {}
_kept: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def network(weights: UsedWeights, device: str, command: str, build: Callable[[Path, str], Any]) -> Any:
    """The network with some weights on a device; its file is verified before it is read.

    Args:
        command: installs the weights.
        build: makes the network from the file of the weights and a device.

    Raises:
        UsageError: the weights are not installed, or were changed.
    """
    key = (weights.sha256, device)
    with _lock:
        if key not in _networks:
            path = store.verified_with_hash(weights.sha256)
            if path is None and store.is_shipped(weights.name):
                raise UsageError(
                    f"It was made with other weights {weights.name} (SHA-256 {weights.sha256[:12]}…) than those of this version of "
                    "tabapp. Use the version that made it, or a bundle, which contains its weights."
                )
            if path is None:
                other = " Other weights of this name are installed." if store.find(weights.name) else ""
                raise UsageError(
                    f"The weights {weights.name} (SHA-256 {weights.sha256[:12]}…) are not installed.{other} "
                    f"Install them with `{command}`."
                )
            _networks[key] = build(path, device)
        return _networks[key]


def may_keep(model: object, n_bytes: int) -> bool:
    """Whether a model may keep what its network has read of its context. The first models that fit keep theirs until they end.

    The fold models of a bundle predict one after another, so that each model would evict the one that is next.
    """
    with _lock:
        others = sum(size for owner, size in _kept.items() if owner is not model)
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        fits = others + n_bytes <= min(MOST_KEPT, machine // 4)
        if fits:
            _kept[model] = n_bytes
        else:
            _kept.pop(model, None)
        return fits


def bytes_of(value: Any) -> int:
    """Memory of the tensors in nested containers and records."""
    if hasattr(value, "untyped_storage"):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        return sum(bytes_of(each) for each in value.values())
    if isinstance(value, list | tuple):
        return sum(bytes_of(each) for each in value)
    return sum(bytes_of(getattr(value, each.name)) for each in fields(value)) if is_dataclass(value) else 0


def kept_bytes() -> dict[object, int]:
    """Memory of what is kept, by model."""
    with _lock:
        return dict(_kept)


def forget() -> None:
    """Load networks again that are in memory, and count anew what models keep."""
    with _lock:
        _networks.clear()
        _kept.clear()
