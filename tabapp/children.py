"""Command lines of the Python processes that tabapp starts."""

from __future__ import annotations

import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs an installed module in a new Python process.

    `-P` keeps the working directory off `sys.path`: a file `random.py` next to the user's table is data and is never imported.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
