"""Moments of new rows whose offsets from UTC are not those of training."""

from __future__ import annotations

import re

import polars as pl

from tabapp.data.forms.missing import strip
from tabapp.data.new_rows.ranges import MOSTLY
from tabapp.data.schema import Column
from tabapp.data.small import SMALL
from tabapp.data.typed import typed_column

_TIME = re.compile(r"\d:\d\d")
_OFFSET = re.compile(r"\d:\d\d(?::\d\d)?(?:[.,]\d+)?\s*(?:([+-]\d\d):?(\d\d)?|Z|UTC|GMT)$", re.ASCII | re.IGNORECASE)


def offset_note(texts: pl.Series, column: Column) -> str | None:
    """The note on the offsets in a column of a text file; None if they are as in training.

    Moments with an offset become UTC, and others stay as they are: a file with other offsets than the training file may be hours
    away from it. The offset Z changes no moment.
    """
    cells = strip(texts[:: max(1, len(texts) // SMALL)]).drop_nulls().to_list()
    timed = [cell for cell in cells if _TIME.search(cell)]
    if not timed or column.zone == "mixed":
        return None
    if column.zone is None:
        shifted = [cell for cell in timed if _hours(cell)]
        if len(shifted) <= MOSTLY * len(timed):
            return None
        read = typed_column(pl.Series("", shifted[:1], dtype=pl.String), column)[0]
        return (
            f"has offsets from UTC, which training did not have: {shifted[0]!r} is read as {read}. Write local times without an "
            "offset if those of training are local"
        )
    naive = [cell for cell in timed if _OFFSET.search(cell) is None]
    if len(naive) <= MOSTLY * len(timed):
        return None
    return (
        f"has no offsets from UTC, which training had: {naive[0]!r} is read as UTC. Add the offset if it is local time"
    )


def _hours(cell: str) -> bool:
    """Whether a moment has an offset other than zero."""
    match = _OFFSET.search(cell)
    return match is not None and bool(int(match[1] or 0) or int(match[2] or 0))
