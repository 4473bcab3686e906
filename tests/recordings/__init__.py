"""Real runs, as `tools/record_run.py` recorded them; see there for what happens in each."""

from __future__ import annotations

from pathlib import Path

from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import decode

FOLDER = Path(__file__).parent
START = 1_790_000_000.0
NAMES = ("cancer", "prices", "wine", "tuned")
HOPELESS = "noise"
"""A run on a target that no column explains."""


def lines_of(name: str) -> list[bytes]:
    """The lines of a recording."""
    return (FOLDER / f"{name}.jsonl").read_bytes().splitlines()


def events_of(name: str) -> list[ev.AnyEvent]:
    """The events of a recording; each is one that this version knows."""
    decoded = [decode(line) for line in lines_of(name)]
    events = [event for event in decoded if event is not None]
    assert len(events) == len(decoded)
    return events
