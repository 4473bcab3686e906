"""Prints the protections that hold in a process of this machine, as JSON: `python -m tabapp.bundle.confined.offered_protections`.

It restricts itself like the process that loads a bundle.
"""

from __future__ import annotations

import json
import sys

from tabapp.bundle.confined import sandbox
from tabapp.bundle.confined.call_filter import restrict_calls
from tabapp.protections import CALLS, FILES, LIMITS, NO_DUMPS

_MEMORY, _SECONDS = 2**30, 60


def main() -> None:
    """Restrict this process and print what holds."""
    sandbox.limit_resources(memory=_MEMORY, cpu_seconds=_SECONDS)
    held = [NO_DUMPS, LIMITS]
    if sandbox.restrict_files(sandbox.paths_of_libraries()):
        held.append(FILES)
    if restrict_calls():
        held.append(CALLS)
    sys.stdout.write(json.dumps(held))


if __name__ == "__main__":
    main()
