"""Follows a run: its events folded into a state, and whether the engine is running."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from tabapp.run.protocol.client import cause_of_death
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.state import RunState

EVENTS_PER_BATCH = 400


class Reader(Protocol):
    """Returns the events that have arrived since the last call."""

    def read_new(self) -> list[ev.AnyEvent]: ...


@dataclass
class RunFollower:
    """Folds the events of a run into a state as they arrive.

    Attributes:
        reader: where events come from; by default, the folder.
        trouble: a sentence once the engine has stopped without a result.
        caught_up: all events written before this view opened have been read.
    """

    folder: RunFolder
    state: RunState = field(default_factory=RunState)
    trouble: str | None = None
    caught_up: bool = False
    reader: Reader | None = None

    def __post_init__(self) -> None:
        self._reader = self.reader or EventReader(self.folder.events)

    async def read(self) -> list[ev.AnyEvent]:
        """Fold the new events and return them; large batches yield to the screen in between."""
        events = self._reader.read_new()
        if events and self.reader is not None and events[0].seq < self.state.seq:
            # A replay jumped to an earlier place, and repeats the events before it.
            self.state, self.caught_up = RunState(), False
        for index, event in enumerate(events):
            self.state = reduce(self.state, event)
            if index % EVENTS_PER_BATCH == EVENTS_PER_BATCH - 1:
                await asyncio.sleep(0)
        return events

    async def forget_earlier_plan(self) -> None:
        """Before an engine starts: a run that has not begun is planned again, and no change of its plan is taken until then."""
        await self.read()
        if self.state.fitting_since is None and self.state.finished is None:
            self.state = RunState()

    def engine_ended(self, return_code: int | None) -> None:
        """Record that the engine has ended, which is an error unless the run has a result. None means an unknown exit status."""
        if self.state.finished is not None or self.trouble is not None:
            return
        if return_code is None:
            self.trouble = "No engine is running for this run, and it has no result."
        else:
            self.trouble = cause_of_death(return_code, self.folder)

    def engine_lives(self) -> None:
        """Record that an engine is running, as after a resume elsewhere."""
        self.trouble = None
