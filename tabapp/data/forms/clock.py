"""Times of day and durations, which are read as seconds."""

from __future__ import annotations

import polars as pl

from tabapp.data.forms.share import share
from tabapp.data.small import contains

_SAMPLE = 2000
CLOCK = "h:m:s"
"""Unit of columns of times and durations such as 1:23:45 or 07:30, which are converted to seconds."""
MINUTES = "m:s"
"""The same where two parts are minutes and seconds, as in the lap time 1:27.452; numbers without a colon are seconds."""
CLOCKS = (CLOCK, MINUTES)
_CLOCK = r"^(?:([0-9]+) days?,? )?([+-]?[0-9]{1,4}):([0-5][0-9])(?::([0-5][0-9](?:[.,][0-9]+)?))?$"
_MINUTES = r"^()()([+-]?[0-9]{1,4}):([0-5][0-9](?:[.,][0-9]+)?)$"
_NUMBER_OF = r"(?:([0-9]+(?:\.[0-9]+)?)\s*(?:{})\b)?"
_SPELLED = (
    "^"
    + r"\s*".join(map(_NUMBER_OF.format, ("d|days?", "h|hrs?|hours?", "m|mins?|minutes?", "s|secs?|seconds?")))
    + "$"
)
_HALF_DAY = r"(?i)^(0?[0-9]|1[0-2])(?::([0-5][0-9]))?(?::([0-5][0-9](?:[.,][0-9]+)?))?\s?([ap])\.?\s?m\.?$"
_PART = r"([0-9]+(?:\.[0-9]+)?)"
_ISO_DURATION = rf"^P(?:{_PART}D)?(?:T(?:{_PART}H)?(?:{_PART}M)?(?:{_PART}S)?)?$"


def parse_clock(texts: pl.Series, unit: str = CLOCK) -> pl.Series:
    """Parse times and durations as Float64 seconds; null if a text is neither.

    Args:
        unit: one of `CLOCKS`.
    """
    frame = pl.DataFrame({"text": texts})
    result: pl.Expr = pl.lit(None, dtype=pl.Float64)
    spelled = pl.col("text").str.to_lowercase()
    forms = [(pl.col("text"), _CLOCK), (spelled, _SPELLED), (pl.col("text"), _ISO_DURATION)]
    if unit == MINUTES:
        result = pl.col("text").cast(pl.Float64, strict=False)
        forms.insert(0, (pl.col("text"), _MINUTES))
    for text, pattern in forms:
        negative = pl.when(text.str.starts_with("-")).then(-1.0).otherwise(1.0)
        days, hours, minutes, seconds = (_number(text, pattern, group).abs() for group in (1, 2, 3, 4))
        total = days * 86400 + negative * (hours * 3600 + minutes * 60 + seconds)
        result = result.fill_null(pl.when(text.str.contains(pattern) & text.str.contains("[0-9]")).then(total))
    hours, minutes, seconds = (_number(pl.col("text"), _HALF_DAY, group) for group in (1, 2, 3))
    in_afternoon = pl.col("text").str.extract(_HALF_DAY, 4).str.to_lowercase() == "p"
    of_day = (hours % 12 + 12 * in_afternoon.cast(pl.Float64)) * 3600 + minutes * 60 + seconds
    result = result.fill_null(pl.when(pl.col("text").str.contains(_HALF_DAY)).then(of_day))
    return frame.select(result.alias(texts.name))[texts.name]


def _number(text: pl.Expr, pattern: str, group: int) -> pl.Expr:
    """A part of a text as a number; 0 where it is absent."""
    part = text.str.extract(pattern, group).str.replace(",", ".", literal=True)
    return part.cast(pl.Float64, strict=False).fill_null(0.0)


def clock_share(uniques: pl.Series, counts: pl.Series) -> tuple[pl.Series, float, str]:
    """Parse distinct values as seconds (null if not a time or duration).

    Returns:
        The seconds, the share of values that parse, and the unit of them, one of `CLOCKS`.
    """
    sample = uniques.head(_SAMPLE)
    if not contains(sample, r"^(?:P|[+-]?[0-9]).*[:DHMSdhms]").any():
        return pl.Series(uniques.name, [None] * len(uniques), dtype=pl.Float64), 0.0, CLOCK
    unit = MINUTES if contains(sample, r"^[+-]?[0-9]{1,4}:[0-5][0-9][.,][0-9]+$").any() else CLOCK
    seconds = parse_clock(uniques, unit)
    return seconds, share(seconds.is_not_null(), counts, float(counts.sum() or 0)), unit
