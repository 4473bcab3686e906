"""The time of a run: a hard deadline with a reserve, which a user can halt and move."""

from __future__ import annotations

import time

SHORTEST_RESERVE, RESERVE_SHARE, LONGEST_RESERVE = 2.5, 0.06, 60.0


class Clock:
    """The run's hard deadline, with a reserve for ensembling, importances and export. It stands still while the run is paused.

    Args:
        budget: seconds of the whole run, or None for no clock.
        used: seconds that are gone already.
    """

    def __init__(self, budget: float | None, used: float) -> None:
        self.budget = budget
        now = time.monotonic()
        self.end = None if budget is None else now + max(0.0, budget - used)
        reserve = 0.0 if budget is None else min(max(SHORTEST_RESERVE, RESERVE_SHARE * budget), LONGEST_RESERVE)
        self.fitting_end = None if self.end is None else self.end - min(reserve, 0.5 * (budget or 0.0))
        self._paused_at: float | None = None

    @property
    def paused(self) -> bool:
        return self._paused_at is not None

    def pause(self) -> None:
        """Stop the clock."""
        self._paused_at = self._paused_at or time.monotonic()

    def go_on(self) -> None:
        """Let the clock run again; what was paused is added to the deadlines."""
        if self._paused_at is None:
            return
        stood = time.monotonic() - self._paused_at
        self._paused_at = None
        if self.end is not None and self.fitting_end is not None:
            self.end += stood
            self.fitting_end += stood

    def extend(self, seconds: float) -> float:
        """Move the end by so many seconds, back too, but never before now; returns by how many. Without a clock it is 0."""
        if self.end is None or self.fitting_end is None or self.budget is None:
            return 0.0
        moved = max(seconds, -max(0.0, self.fitting_left()))
        self.end, self.fitting_end, self.budget = self.end + moved, self.fitting_end + moved, self.budget + moved
        return moved

    def fitting_left(self) -> float:
        """Seconds until fitting must be over; infinite without a clock."""
        return float("inf") if self.fitting_end is None else self.fitting_end - self._now()

    def left(self) -> float:
        """Seconds until the run must be over; infinite without a clock."""
        return float("inf") if self.end is None else self.end - self._now()

    def _now(self) -> float:
        return time.monotonic() if self._paused_at is None else self._paused_at

    def wall_deadline(self) -> float | None:
        """The end as seconds since the epoch, for showing."""
        return None if self.end is None else time.time() + self.left()
