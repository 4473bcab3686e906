"""Time zones in the files and tables of others.

Arrow stores a moment in UTC, beside the name of a zone: an offset such as +05:30, or what the writing program calls its zone.
Polars refuses a table whose zone is not in its database, although reading needs no zone.
"""

from __future__ import annotations

import os

_POLARS_ACCEPTS_ZONES = "POLARS_IGNORE_TIMEZONE_PARSE_ERROR"


def accept_any_zone() -> None:
    """Let polars read moments of any zone in this process. Their stored values are moments in UTC."""
    os.environ.setdefault(_POLARS_ACCEPTS_ZONES, "1")
