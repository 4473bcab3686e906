"""Bounds the processor time of what the engine repeats during fitting to a share of the elapsed time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Allowance:
    """Processor time that a part of the engine may spend.

    Attributes:
        share: of the time since it was made.
        first: seconds that may be spent at once.
    """

    share: float
    first: float
    _began: float = field(default_factory=lambda: time.monotonic())
    _spent: float = 0.0

    @property
    def is_left(self) -> bool:
        """Whether more may be spent now."""
        return self._spent <= self.first + self.share * (time.monotonic() - self._began)

    def spend(self, seconds: float) -> None:
        """Record processor time that was spent."""
        self._spent += seconds
