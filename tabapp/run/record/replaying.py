"""Replays the events of a run at a multiple of its speed, with pauses and jumps."""

from __future__ import annotations

import bisect
import itertools
import re
import time
from collections.abc import Callable

from tabapp.errors import UsageError
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder

SLOWEST, FASTEST = 0.1, 10_000.0
LONGEST_PAUSE = 60.0
"""Longest time of the run, in seconds, between two events: time between two sessions is left out."""
LONGEST_WAIT = 3.0
"""The same while the run waits for its user: before its start, and after its end."""


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
        self._next = 0
        self._times = _places(self._events)
        self._place = 0.0
        """Seconds of the replay at the time `_since` of the clock."""
        self._since: float | None = None
        """None before the replay begins, and while it is paused."""
        self._began = False

    @property
    def at_end(self) -> bool:
        """Whether all events have been returned."""
        return self._next == len(self._events)

    @property
    def length(self) -> float:
        """Seconds of the whole replay at normal speed."""
        return self._times[-1]

    @property
    def position(self) -> float:
        """Seconds of the replay that have passed at normal speed."""
        moved = 0.0 if self._since is None else (self._clock() - self._since) * self._speed
        return min(self._place + moved, self.length)

    @property
    def events_seen(self) -> int:
        """Events up to the position."""
        return bisect.bisect_right(self._times, self.position)

    @property
    def n_events(self) -> int:
        """Events of the whole replay."""
        return len(self._events)

    @property
    def speed(self) -> float:
        """Seconds of the run per second."""
        return self._speed

    @property
    def is_paused(self) -> bool:
        """Whether it was paused."""
        return self._began and self._since is None

    @property
    def now(self) -> float:
        """The time of the run, in seconds since the epoch."""
        last = max(0, self._next - 1)
        if not self._began or self.at_end:
            return self._events[last].t
        return self._events[last].t + max(0.0, self.position - self._times[last])

    def pause(self) -> None:
        """Pause, or continue."""
        self._begin()
        self._place, self._since = self.position, None if self._since is not None else self._clock()

    def set_speed(self, speed: float) -> None:
        """Change the speed; a value out of range becomes the nearest."""
        self._place = self.position
        if self._since is not None:
            self._since = self._clock()
        self._speed = min(max(speed, SLOWEST), FASTEST)

    def seek(self, position: float) -> None:
        """Jump to a position in seconds. The next read starts again at the first event if it is an earlier one."""
        self._begin()
        self._place = min(max(0.0, position), self.length)
        if self._since is not None:
            self._since = self._clock()
        if bisect.bisect_right(self._times, self._place) < self._next:
            self._next = 0

    def step(self, events: int) -> None:
        """Jump to the time of the event so many places later, or earlier if negative."""
        times = sorted(set(self._times))
        place = bisect.bisect_right(times, self.position) - 1
        if events < 0 and self.position > times[place]:
            # Between two events, the previous one is the last that was shown.
            events += 1
        self.seek(times[min(max(0, place + events), len(times) - 1)])

    def read_new(self) -> list[ev.AnyEvent]:
        """The events since the last call; after a jump to an earlier place, all events before it."""
        self._begin()
        first = self._next
        self._next = max(first, bisect.bisect_right(self._times, self.position))
        return self._events[first : self._next]

    def _begin(self) -> None:
        """Start the clock at the first use: an app takes a moment to open."""
        if not self._began:
            self._began, self._since = True, self._clock()


def _places(events: list[ev.AnyEvent]) -> list[float]:
    """The place of each event in the replay, in seconds; pauses are shortened to their limits."""
    places, longest = [0.0], LONGEST_PAUSE
    for before, event in itertools.pairwise(events):
        match before:
            case ev.StageChanged():
                longest = LONGEST_WAIT if before.stage == "ready" else LONGEST_PAUSE
            case ev.RunFinished():
                longest = LONGEST_WAIT
            case _:
                pass
        places.append(places[-1] + min(max(0.0, event.t - before.t), longest))
    return places
