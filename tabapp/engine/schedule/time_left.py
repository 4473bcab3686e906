"""The time that is left of a run with a time limit, and what still fits in it."""

from __future__ import annotations

from dataclasses import dataclass

SAFETY = 1.05
"""Factor on expected times, since fits that do not end in time are lost."""


@dataclass(frozen=True)
class TimeLeft:
    """The time that a decision depends on.

    Attributes:
        seconds: until fitting ends.
        limit: seconds that one fit may take.
        committed: expected seconds of the missing folds of candidates that are being completed, or are to be.
        begun: of those of which more than the first fold was begun.
    """

    workers: int
    seconds: float
    limit: float
    committed: float
    begun: float = 0.0

    @property
    def of_workers(self) -> float:
        """Seconds that all workers have left."""
        return self.workers * self.seconds

    def fits(self, n_folds: int, each: float, committed: float = 0.0) -> bool:
        """Whether that many fits end in time, beside others that take `committed` seconds."""
        rounds = -(-n_folds // self.workers)
        return SAFETY * max(rounds * each, (committed + n_folds * each) / self.workers) <= self.seconds
