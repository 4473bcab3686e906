"""The base of all events of a run."""

from __future__ import annotations

import msgspec

VERSION = 1


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="ev"):
    """The base of all events. `EventLog.append` sets `seq`, `t` and `elapsed`: seconds since the engine opened the log, which a
    change of the system's clock does not affect."""

    v: int = VERSION
    seq: int = 0
    t: float = 0.0
    elapsed: float = 0.0
