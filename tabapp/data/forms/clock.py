"""Times of day and durations, which are read as seconds."""

from __future__ import annotations

import polars as pl

from tabapp.data.forms.share import share
from tabapp.data.small import contains

_SAMPLE = 2000
CLOCK = "h:m:s"
"""Unit of columns of times and durations such as 1:23:45 or 07:30, which are converted to seconds."""
_CLOCK = r"^(?:(\d+) days?,? )?([+-]?\d{1,4}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?$"
_NUMBER_OF = r"(?:(\d+(?:\.\d+)?)\s*(?:{})\b)?"
_SPELLED = (
    "^"
    + r"\s*".join(map(_NUMBER_OF.format, ("d|days?", "h|hrs?|hours?", "m|mins?|minutes?", "s|secs?|seconds?")))
    + "$"
)
_ISO_DURATION = r"^P(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?$"


def parse_clock(texts: pl.Series) -> pl.Series:
    """Parse times and durations as Float64 seconds; null if a text is neither."""
    frame = pl.DataFrame({"text": texts})
    spelled = pl.col("text").str.to_lowercase()
    result: pl.Expr = pl.lit(None, dtype=pl.Float64)
    for text, pattern in ((pl.col("text"), _CLOCK), (spelled, _SPELLED), (pl.col("text"), _ISO_DURATION)):
        parts = [text.str.extract(pattern, group).cast(pl.Float64, strict=False) for group in (1, 2, 3, 4)]
        negative = pl.when(text.str.starts_with("-")).then(-1.0).otherwise(1.0)
        days, hours, minutes, seconds = (part.fill_null(0.0) for part in parts)
        total = days * 86400 + negative * (hours.abs() * 3600 + minutes * 60 + seconds)
        result = result.fill_null(pl.when(text.str.contains(pattern) & text.str.contains(r"\d")).then(total))
    return frame.select(result.alias(texts.name))[texts.name]


def clock_share(uniques: pl.Series, counts: pl.Series) -> tuple[pl.Series, float]:
    """Parse distinct values as seconds (null if not a time or duration); also returns the share of values that parse."""
    sample = uniques.head(_SAMPLE)
    if not contains(sample, r"^(?:P|[+-]?\d).*[:DHMSdhms]").any():
        return pl.Series(uniques.name, [None] * len(uniques), dtype=pl.Float64), 0.0
    seconds = parse_clock(uniques)
    return seconds, share(seconds.is_not_null(), counts, float(counts.sum() or 0))
