"""Events as lines of JSON, as the log of a run holds them."""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from typing import get_args

import msgspec

from tabapp.run.record import events as ev
from tabapp.run.record.analysis import any_result
from tabapp.run.record.undefined import Decoder

_encoder = msgspec.json.Encoder()


class _AnyEvent(msgspec.Struct):
    ev: str


_any_event = msgspec.json.Decoder(_AnyEvent)


@cache
def all_kinds() -> tuple[type[ev.Event], ...]:
    """Every type of event."""
    return tuple(kind for kind in get_args(ev.AnyEvent | any_result()) if kind is not ev.AnalysisEvent)


@cache
def _decoder() -> Decoder[ev.AnyEvent]:
    return Decoder(reduce(or_, all_kinds()))


def encode(event: ev.Event) -> bytes:
    """One event as a line of JSON with its newline. NaN and infinity become null, which `decode` reads as NaN."""
    return _encoder.encode(event) + b"\n"


def decode(line: bytes | str) -> ev.AnyEvent | None:
    """Read one line; None for an unknown event or a damaged line."""
    try:
        return _decoder().decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_damaged(line: bytes) -> bool:
    """Whether a line is not an event of any version: it is not a JSON object with a name."""
    try:
        _any_event.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return False
