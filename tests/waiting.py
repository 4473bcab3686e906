"""Waiting for what happens. Limits end a hang; none of them is an assertion about speed."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG_SECONDS = 600.0
"""Longer than anything here takes, even on a machine that is busy with other work."""


def wait_until(condition: Callable[[], object], description: str | Callable[[], str] = "the condition") -> None:
    """Wait until a condition holds.

    Args:
        condition: asked every 50 ms.
        description: what is waited for, or a function that describes the state once waiting has failed.

    Raises:
        AssertionError: it did not hold within `HANG_SECONDS`.
    """
    end = time.monotonic() + HANG_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"still waiting for {description if isinstance(description, str) else description()}")
        time.sleep(0.05)
