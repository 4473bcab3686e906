"""Wait for conditions. The time limit only ends a hang; it is not an assertion about speed."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG_SECONDS = 600.0
"""Longer than any operation takes, even on a busy machine."""


def wait_until(condition: Callable[[], object], description: str | Callable[[], str] = "the condition") -> None:
    """Wait until a condition holds.

    Args:
        condition: evaluated every 50 ms.
        description: name of the condition, or a function that describes the state after the time limit.

    Raises:
        AssertionError: the condition did not hold within `HANG_SECONDS`.
    """
    end = time.monotonic() + HANG_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"still waiting for {description if isinstance(description, str) else description()}")
        time.sleep(0.05)
