"""Downloads published weights from the Hugging Face Hub. Nothing else in tabapp connects to it."""

from __future__ import annotations

import os
from pathlib import Path

from tabapp.errors import UsageError
from tabapp.weights.pretrained import Pretrained

OFFLINE = "HF_HUB_OFFLINE"


def cached(wanted: Pretrained) -> Path | None:
    """The file of weights in the user's Hugging Face cache; None if it, or its configuration, is not there. Connects to nothing."""
    _without_telemetry()
    from huggingface_hub import try_to_load_from_cache

    found = [try_to_load_from_cache(wanted.repository, file, revision=wanted.revision) for file in wanted.files]
    return Path(str(found[0])) if all(isinstance(path, str) for path in found) else None


def download(wanted: Pretrained) -> Path:
    """The file of weights, downloaded to the user's Hugging Face cache unless it is there. An interrupted download continues.

    Raises:
        UsageError: the file cannot be downloaded.
    """
    present = cached(wanted)
    if present is not None:
        return present
    if os.environ.get(OFFLINE, "").upper() in ("1", "ON", "YES", "TRUE"):
        raise UsageError(
            f"{wanted.name} is not in the Hugging Face cache, and {OFFLINE} forbids downloads. Use `tabapp weights add PATH`."
        )
    from huggingface_hub import hf_hub_download

    try:
        paths = [hf_hub_download(wanted.repository, file, revision=wanted.revision) for file in wanted.files]
    except Exception as error:
        # The library raises those of its HTTP client, of the file system and its own.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(
            f"{wanted.files[0]} of {wanted.repository} cannot be downloaded ({reason}). Try again, or download the file yourself "
            f"and use `tabapp weights add PATH`."
        ) from None
    return Path(paths[0])


def _without_telemetry() -> None:
    """Keep the library from sending what it knows of the machine; it reads the variable when it is imported."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
