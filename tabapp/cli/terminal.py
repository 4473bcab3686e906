"""Whether a screen can be drawn."""

from __future__ import annotations

import os
import sys


def picture_is_possible() -> bool:
    """Whether stderr, on which screens are drawn, is a terminal that can move its cursor."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def is_interactive() -> bool:
    """Whether a user is at all three streams: keys, screen, and what is printed at the end."""
    return sys.stdin.isatty() and sys.stdout.isatty() and picture_is_possible()
