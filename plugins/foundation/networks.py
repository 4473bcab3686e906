"""Pre-trained networks in memory: one for each file of weights and device, shared by all models of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabapp.errors import UsageError
from tabapp.weights import store
from tabapp.weights.pretrained import UsedWeights

_networks: dict[tuple[str, str], Any] = {}
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
            if path is None:
                other = " Other weights of this name are installed." if store.find(weights.name) else ""
                raise UsageError(
                    f"The weights {weights.name} (SHA-256 {weights.sha256[:12]}…) are not installed.{other} "
                    f"Install them with `{command}`."
                )
            _networks[key] = build(path, device)
        return _networks[key]


def forget() -> None:
    """Load networks again that are in memory."""
    with _lock:
        _networks.clear()
