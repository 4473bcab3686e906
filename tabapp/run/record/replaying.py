"""Replays the events of a run at a multiple of its speed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from tabapp.errors import UsageError
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder

SLOWEST, FASTEST = 0.1, 10_000.0
LONGEST_PAUSE = 60.0
"""Longest time of the run, in seconds, between two events: time between two sessions is left out."""


def parse_speed(text: str) -> float:
    """Read a speed such as 20x.

    Raises:
        UsageError: it is not a speed, or out of range.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x?", text.strip().lower())
    speed = float(match[1]) if match is not None and len(text) < 20 else 0.0
    if not SLOWEST <= speed <= FASTEST:
        raise UsageError(f"--replay {text!r} is not a speed from {SLOWEST:g}x to {FASTEST:,.0f}x. Write it like 20x.")
    return speed


class ReplayReader:
    """Returns the events of a run when their time has come; takes the place of an `EventReader`.

    Args:
        speed: seconds of the run per second.
        clock: a monotonic clock.

    Raises:
        UsageError: the run has no events.
    """

    def __init__(self, folder: RunFolder, speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = EventReader(folder.events).read_new()
        if not self._events:
            raise UsageError(f"The run {folder.run} has no events to replay.")
        self._speed, self._clock = speed, clock
        self._started: float | None = None
        self._next = 0
        self._times = [0.0]
        for before, event in zip(self._events, self._events[1:], strict=False):
            self._times.append(self._times[-1] + min(max(0.0, event.t - before.t), LONGEST_PAUSE))

    @property
    def at_end(self) -> bool:
        """Whether all events have been returned."""
        return self._next == len(self._events)

    @property
    def now(self) -> float:
        """The time of the run, in seconds since the epoch."""
        last = self._events[max(0, self._next - 1)].t
        if self._started is None or self.at_end:
            return last
        return last + self._passed() - self._times[max(0, self._next - 1)]

    def _passed(self) -> float:
        if self._started is None:
            self._started = self._clock()
        return (self._clock() - self._started) * self._speed

    def read_new(self) -> list[ev.AnyEvent]:
        """The events since the last call."""
        passed, first = self._passed(), self._next
        while self._next < len(self._events) and self._times[self._next] <= passed:
            self._next += 1
        return self._events[first : self._next]
