"""Dates and times that are read by a rule which a user may have to correct."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.counts import Values
from tabapp.data.forms.calendar_names import DOUBTFUL_ZONES, ZONES
from tabapp.data.forms.moments import Reading, describe_format, find_dates, find_order, is_number_form, read_moments
from tabapp.data.kinds.kinds import UNSEARCHED
from tabapp.data.kinds.names import names_date
from tabapp.data.kinds.verdict import show
from tabapp.data.schema import Column, DataWarning, Remedy, as_kind, read_as
from tabapp.data.small import contains
from tabapp.errors import option

_SHOWN = 3
_MOSTLY, _FEWEST_DATES = 0.5, 20
_READ = ("feature", "time")
_ZONE_NAME = rf"(?i)[0-9 ](?:{'|'.join(sorted(DOUBTFUL_ZONES))})\b"
_NUMBER = r"^[0-9]{5}(?:\.[0-9]+)?$|^1(?:[0-9]{9}|[0-9]{12}|[0-9]{15}|[0-9]{18})(?:\.[0-9]+)?$"


class _Said(NamedTuple):
    """What a warning says, and its remedy."""

    message: str
    action: str
    remedy: Remedy | None = None


@check(
    "moments",
    description="A column of dates has other texts, open ends, another possible order or calendar, or offsets in some cells.",
    remedy="Compare the quoted cells with how they are read; write dates as YYYY-MM-DD and moments with their offset.",
    rank=61,
)
def moments(evidence: Evidence) -> Iterator[DataWarning]:
    """Columns of dates some of which are read by a rule."""
    for column in evidence.columns:
        if column.kind != "datetime" or column.role not in _READ:
            continue
        values, form = evidence.values[column.name], column.datetime_format or "iso"
        found: list[_Said] = []
        if column.open_ends or column.zone == "mixed" or column.support < 1:
            reading = read_moments(values.uniques, form, column.open_ends)
            found += _set_aside(column, values, reading)
            found += _open_ends(column, values, reading, evidence)
            found += _without_offset(values, reading) if column.zone == "mixed" else []
        if form in ("day first", "month first", "year first") and (rival := find_order(values.uniques)[1]) is not None:
            message = f"All dates fit {rival} as well as {form}, such as {_example(values)}."
            action = f"read as {describe_format(form)}; if that is wrong, write them as YYYY-MM-DD"
            found.append(_Said(message, action))
        found += _zone_names(values) if column.zone is not None else []
        found += [] if is_number_form(form) else [*_numbers(values), *_years(values)]
        found += _other_calendar(column)
        for message, action, remedy in found:
            remedies = () if remedy is None else (remedy,)
            yield DataWarning(check="moments", column=column.name, message=message, action=action, remedies=remedies)


def _example(values: Values) -> str:
    """A date with different numbers, which differs between the orders."""
    texts = values.uniques.filter(pl.Series(contains(values.uniques, r"\d[-/.] ?\d")))
    return show(texts[0])


def _set_aside(column: Column, values: Values, reading: Reading) -> list[_Said]:
    unread = values.uniques.set(reading.moments.is_not_null() | reading.ends.is_not_null(), None)
    counted = _counted(unread, values)
    if not counted:
        return []
    shown = ", ".join(f"{show(text)} ({count:,})" for text, count in counted.most_common(_SHOWN))
    more = f" and {len(counted) - _SHOWN:,} more texts" if len(counted) > _SHOWN else ""
    message = f"{counted.total():,} of {values.n_present:,} cells are no dates: {shown}{more}."
    keep = option("kind", {column.name: "categorical"})
    return [
        _Said(
            message,
            f"read as missing; correct them, or keep the texts with {keep}",
            as_kind(column.name, "categorical"),
        )
    ]


def _open_ends(column: Column, values: Values, reading: Reading, evidence: Evidence) -> list[_Said]:
    counted = _counted(reading.ends, values)
    if not counted:
        return []
    shown = ", ".join(f"{show(end)} ({count:,})" for end, count in counted.most_common(_SHOWN))
    more = " …" if len(counted) > _SHOWN else ""
    message = (
        f"{counted.total():,} of {values.n_present:,} cells are open ends, far from all dates or words: {shown}{more}."
    )
    companion = next((each for each in evidence.columns if each.marks_of == column.name), None)
    marks = "" if companion is None else f", and their marks are a feature, {companion.name!r}"
    text = values.uniques.filter(reading.ends.is_not_null())[0]
    gaps = option("null", f"{column.name}={text}")
    action = f"the dates are missing{marks}; {gaps} makes them ordinary gaps"
    return [_Said(message, action, read_as("null", text, column.name))]


def _without_offset(values: Values, reading: Reading) -> list[_Said]:
    plain = reading.moments.is_not_null() & ~pl.Series(reading.zoned)
    n_plain = int(values.counts.filter(plain).sum())
    example = show(values.uniques.filter(plain)[0])
    message = (
        f"{n_plain:,} of {values.n_present:,} moments have no offset from UTC, such as {example}; the others have one."
    )
    return [_Said(message, "those without are taken for UTC; add the offset if they are local times")]


def _zone_names(values: Values) -> list[_Said]:
    doubtful = pl.Series(contains(values.uniques, _ZONE_NAME))
    if not doubtful.any():
        return []
    example = str(values.uniques.filter(doubtful)[0])
    zone = next(name for name in sorted(DOUBTFUL_ZONES) if name in example.lower())
    hours, minutes = divmod(abs(ZONES[zone]), 60)
    offset = f"UTC{'-' if ZONES[zone] < 0 else '+'}{hours:02}:{minutes:02}"
    message = f"The zone {zone.upper()} of {show(example)} has more than one meaning."
    return [_Said(message, f"read as {offset}; write the offset if another one is meant")]


def _numbers(values: Values) -> list[_Said]:
    numbers = pl.Series(contains(values.uniques, _NUMBER))
    if not numbers.any():
        return []
    example = str(values.uniques.filter(numbers)[0])
    count = int(values.counts.filter(numbers).sum())
    read = str(read_moments(pl.Series([example]), "iso").moments[0])
    what = "days since 1899-12-30, as in spreadsheets" if len(example.partition(".")[0]) == 5 else "time since 1970"
    message = f"{count:,} of {values.n_present:,} dates are numbers, such as {show(example)}."
    return [_Said(message, f"read as {what}, here {read}; correct them if they are no dates")]


def _years(values: Values) -> list[_Said]:
    years = pl.Series(contains(values.uniques, "^[0-9]{4}$"))
    if not years.any():
        return []
    example, count = values.uniques.filter(years)[0], int(values.counts.filter(years).sum())
    message = f"{count:,} of {values.n_present:,} dates are years, such as {show(example)}."
    return [_Said(message, f"read as the first day, {example}-01-01")]


def _other_calendar(column: Column) -> list[_Said]:
    low, high = (column.low_text or "")[:4], (column.high_text or "")[:4]
    if not "1300" <= low <= high <= "1500":
        return []
    message = f"All dates are in the years {low} to {high}, as those of the Iranian and the Islamic calendar."
    return [_Said(message, "read as dates of the Gregorian calendar; convert them if they are of another one")]


def _counted(ends: pl.Series, values: Values) -> Counter[str]:
    counted: Counter[str] = Counter()
    for end, count in zip(ends.to_list(), values.counts.to_list(), strict=True):
        if end is not None:
            counted[end] += count
    return counted


@check(
    "mostly_dates",
    description="Most cells of a column that is read as categories or text are dates.",
    remedy="Use --kind COLUMN=datetime; the other texts are then missing.",
    rank=59,
)
def mostly_dates(evidence: Evidence) -> Iterator[DataWarning]:
    """Columns of categories, text or identifiers with many dates and some other texts."""
    for column in evidence.columns:
        if column.kind not in ("categorical", "text", "identifier") or column.overridden:
            continue
        if (
            column.role not in ("feature", "ignore")
            or column.unique < _FEWEST_DATES
            or column.name not in evidence.values
        ):
            continue
        if column.reason.endswith(UNSEARCHED):
            continue
        values = evidence.values[column.name]
        dates = find_dates(values.distinct, values.count_array, least=_MOSTLY, by_name=names_date(column.name))
        if dates is None or dates.moments.n_unique() - 1 < _FEWEST_DATES:
            continue
        odd = values.uniques.filter(dates.moments.is_null())
        texts = ", ".join(map(show, odd.head(_SHOWN)))
        message = f"{dates.share:.0%} of the cells are {describe_format(dates.form)}; texts such as {texts} are not."
        action = (
            f"{'left out' if column.role == 'ignore' else 'read'} as {column.kind}; "
            f"{option('kind', {column.name: 'datetime'})} reads the dates, and the other texts as missing"
        )
        yield DataWarning(
            check="mostly_dates",
            column=column.name,
            message=message,
            action=action,
            remedies=(as_kind(column.name, "datetime"),),
        )
