"""Dates and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tabapp.data.forms.share import share
from tabapp.data.small import contains

_TIMES = (
    " %H:%M:%S%.f", " %H:%M", "T%H:%M:%S%.f", "T%H:%M", "T%H:%M:%S%.fZ", "T%H:%M:%S%.f%z", " %H:%M:%S%.f%z", " %H:%M:%S%.fZ",
    " %H:%M:%S%.f UTC", " %I:%M %p", " %I:%M:%S %p", " %I:%M%p",
)  # fmt: skip
"""Time formats after a date. `%.f` also matches a time without a fraction."""

_SHAPES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"^\d{4}([-/.])\d{1,2}[-/.]\d{1,2}(?:\D|$)", ("%Y{0}%m{0}%d",)),
    (r"^\d{1,2}([-/.])\d{1,2}[-/.]\d{4}(?:\D|$)", ("%m{0}%d{0}%Y", "%d{0}%m{0}%Y")),
    (r"^\d{1,2}([-/.])\d{1,2}[-/.]\d{2}(?:\D|$)", ("%m{0}%d{0}%y", "%d{0}%m{0}%y")),
    (r"^\d{1,2}([-/ .])[A-Za-z]{3,9}[-/ .]\d{4}(?:\D|$)", ("%d{0}%B{0}%Y",)),
    (r"^\d{1,2}([-/ .])[A-Za-z]{3,9}[-/ .]\d{2}(?:\D|$)", ("%d{0}%B{0}%y",)),
    (r"^[A-Za-z]{3,9}( )\d{1,2},? \d{4}(?:\D|$)", ("%B %d, %Y", "%B %d %Y")),
    (r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*(,? )\d{1,2} [A-Za-z]{3,9} \d{4}", ("%a{0}%d %B %Y", "%A{0}%d %B %Y")),
)
_COMPACT = r"^(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$"
_SAMPLE = 200
DATES_AGREE = 0.95
"""Minimum share of values that match one date format; the others become missing."""


_EPOCHS: dict[str, tuple[str, int]] = {
    "epoch s": (r"^1\d{9}(?:\.\d+)?$", 1_000_000),
    "epoch ms": (r"^1\d{12}$", 1_000),
    "epoch us": (r"^1\d{15}$", 1),
}
"""Unix timestamps between 2001 and 2033: the pattern, and the number of microseconds per unit."""

_FORMATS = frozenset(
    {
        *_EPOCHS,
        "%Y%m%d",
        *(
            date.format(mark) + time
            for _, dates in _SHAPES
            for date in dates
            for mark in ("-", "/", ".", " ", ", ")
            for time in ("", *_TIMES)
        ),
    }
)


def is_date_format(form: str) -> bool:
    """Whether `date_format` or `epoch_format` can have found a format. Others may not even be valid for polars."""
    return form in _FORMATS


def _from_epoch(texts: pl.Series, form: str) -> pl.Series:
    pattern, microseconds = _EPOCHS[form]
    moments = texts.cast(pl.Float64, strict=False) if "." in pattern else texts.cast(pl.Int64, strict=False)
    return (moments.set(~texts.str.contains(pattern), None) * microseconds).cast(pl.Int64).cast(pl.Datetime("us"))


def epoch_format(uniques: pl.Series) -> str | None:
    """The format of Unix timestamps that all values match, or None."""
    return next((form for form, (pattern, _) in _EPOCHS.items() if contains(uniques, pattern).all()), None)


def parse_dates(texts: pl.Series, form: str) -> pl.Series:
    """Parse stripped texts as naive Datetime in µs (UTC if they have an offset); null if a text does not match the format."""
    if form in _EPOCHS:
        return _from_epoch(texts, form)
    if "%z" in form:
        return texts.str.to_datetime(form, time_unit="us", strict=False).dt.replace_time_zone(None)
    return texts.str.strptime(pl.Datetime("us"), form, strict=False)


@dataclass(frozen=True)
class DateFormat:
    """A strptime format, the share of values that match it, and another format that matches as many, if any."""

    form: str
    share: float
    rival: str | None = None


def date_format(uniques: pl.Series, counts: pl.Series) -> DateFormat | None:
    """Find the date format of a column; None if fewer than `DATES_AGREE` of the values match one.

    Values that match only one order determine whether the day or the month comes first. Without such values, "/" means month
    first and "-" or "." means day first, and the other format is returned as `rival`.
    """
    total = float(counts.sum() or 0)
    step = max(1, len(uniques) // _SAMPLE)
    sample = uniques[::step].head(2 * _SAMPLE)
    if not contains(sample, r"\d").any():
        return None
    best: DateFormat | None = None
    for form in _candidates(sample):
        if parses_as_date(sample, form).mean() < DATES_AGREE - 0.1:  # pyright: ignore[reportOperatorIssue]
            continue
        found = DateFormat(form, share(parses_as_date(uniques, form), counts, total))
        if best is None or found.share > best.share:
            best = found
        elif found.share == best.share and {found.form[:2], best.form[:2]} == {"%m", "%d"}:
            month_first = best.form.startswith("%m") and "/" in best.form
            best = (
                DateFormat(best.form, best.share, found.form)
                if month_first
                else DateFormat(found.form, found.share, best.form)
            )
    return best if best is not None and best.share >= DATES_AGREE else None


def parses_as_date(texts: pl.Series, form: str) -> pl.Series:
    """Which texts parse as a date between the years 1000 and 2500."""
    parsed = parse_dates(texts, form)
    return (parsed.is_not_null() & parsed.dt.year().is_between(1000, 2500)).fill_null(False)


def _candidates(sample: pl.Series) -> Sequence[str]:
    if contains(sample, _COMPACT).all():
        return ("%Y%m%d",)
    for shape, dates in _SHAPES:
        if contains(sample, shape).sum() >= (DATES_AGREE - 0.1) * len(sample):
            separator = sample.str.extract(shape).drop_nulls()
            mark = str(separator.mode()[0])
            with_time = sample.str.contains(r"\d:\d\d").sum() > len(sample) // 2
            times = _TIMES if with_time else ("",)
            return [date.format(mark) + time for date in dates for time in times]
    return ()
