"""Which protections this machine gives a process that loads a bundle, and the sentence about those that are missing."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Sequence

from tabapp.children import module_command
from tabapp.errors import UnconfinedWarning

FILES, CALLS, LIMITS, NO_DUMPS = "Landlock", "seccomp", "resource limits", "no core dumps"
_RISKS = {FILES: ("read your files",), CALLS: ("start programs", "use the network")}
"""What a malicious bundle can do without a protection."""
_SECONDS = 60


def sentence_about(protections: Sequence[str]) -> str:
    """What is missing of the protections that hold, and what follows; empty if nothing is."""
    missing = [name for name in _RISKS if name not in protections]
    if not missing:
        return ""
    *first, last = [risk for name in missing for risk in _RISKS[name]]
    risks = f"{', '.join(first)} and {last}" if first else last
    return (
        f"This system does not provide {' and '.join(missing)}, so the models of a malicious bundle could {risks}. Load only "
        "bundles that you trust."
    )


def warn_about(protections: Sequence[str]) -> None:
    """Warn once if a process that loads a bundle is not fully confined."""
    sentence = sentence_about(protections)
    if sentence:
        warnings.warn(sentence, UnconfinedWarning, stacklevel=2)


def offered() -> tuple[str, ...]:
    """The protections that hold in a process of this machine, tried in one that then ends; none if it does not answer."""
    try:
        done = subprocess.run(
            module_command("tabapp.bundle.confined.offered_protections"),
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        return tuple(str(name) for name in json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()
