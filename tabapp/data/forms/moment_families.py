"""Read long columns of moments with strptime of polars, a family of texts at a time."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.forms.moment_text import FIRST_YEAR, LAST_YEAR, Order

_SAMPLE = 200
_MOST = 8
_TEXT = re.compile(
    r"(?:[0-9]{4}(?P<first>[-/.])[0-9]{1,2}(?P=first)[0-9]{1,2}"
    r"|[0-9]{1,2}(?P<mark>[-/.])[0-9]{1,2}(?P=mark)(?P<year>[0-9]{4}|[0-9]{2})"
    r"|[0-9]{1,2}(?P<around>[-/ ])[A-Za-z]{3,9}(?P=around)[0-9]{4})"
    r"(?:(?P<join>[T ]|(?<=[0-9]{4}):)[0-9]{1,2}:[0-9]{2}(?P<second>:[0-9]{2}(?P<fraction>\.[0-9]{1,9})?)?"
    r"(?P<half> ?[AaPp][Mm])?(?P<zone> ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)


class _Family(NamedTuple):
    """Texts that strptime reads: a pattern of them, their format, and whether they have an offset."""

    pattern: str
    form: str
    zoned: bool


def read_families(texts: pl.Series, order: Order) -> tuple[pl.Series, npt.NDArray[np.bool_]]:
    """The moments of frequent families, as naive Datetime in UTC, and which of them have an offset; null for any other text."""
    moments, zoned = pl.Series("", [None] * len(texts), dtype=pl.Datetime("us")), np.zeros(len(texts), dtype=np.bool_)
    left = texts
    for _ in range(_MOST):
        present = left.drop_nulls()
        step = max(1, len(present) // _SAMPLE)
        families = Counter(_family(text, order) for text in present.gather_every(step).to_list())
        families.pop(None, None)
        if not families:
            break
        family = families.most_common(1)[0][0]
        assert family is not None
        matches = left.str.contains(family.pattern).fill_null(False)
        matching = left.filter(matches)
        if family.zoned:
            read = matching.str.to_datetime(family.form, time_unit="us", strict=False).dt.replace_time_zone(None)
            zoned |= matches.to_numpy()
        else:
            read = matching.str.strptime(pl.Datetime("us"), family.form, strict=False)
        read = of_known_years(read)
        moments = read if len(read) == len(moments) else moments.scatter(matches.arg_true(), read)
        left = left.set(matches, None)
    return moments, zoned


def of_known_years(moments: pl.Series) -> pl.Series:
    """Moments of which those in other years are null."""
    known = moments.dt.year().is_between(FIRST_YEAR, LAST_YEAR)
    return moments if known.all() else moments.set(~known, None)


def _family(text: str, order: Order) -> _Family | None:
    """The family of a text; None if strptime does not read it."""
    match = _TEXT.fullmatch(text)
    if match is None or (match["mark"] and order == "iso"):
        return None
    if mark := match["first"]:
        pattern, form = f"[0-9]{{4}}[{mark}][0-9]{{1,2}}[{mark}][0-9]{{1,2}}", f"%Y{mark}%m{mark}%d"
    elif mark := match["around"]:
        pattern, form = f"[0-9]{{1,2}}[{mark}][A-Za-z]{{3,9}}[{mark}][0-9]{{4}}", f"%d{mark}%b{mark}%Y"
    else:
        mark, digits = match["mark"], len(match["year"])
        pattern = f"[0-9]{{1,2}}[{mark}][0-9]{{1,2}}[{mark}][0-9]{{{digits}}}"
        form = _three_numbers(order, digits == 2).format(mark)
    if join := match["join"]:
        hours = "%I" if match["half"] else "%H"
        pattern, form = f"{pattern}{join}[0-9]{{1,2}}:[0-9]{{2}}", f"{form}{join}{hours}:%M"
    if match["second"]:
        pattern, form = f"{pattern}:[0-5][0-9]", f"{form}:%S"
    if match["fraction"]:
        pattern, form = rf"{pattern}\.[0-9]{{1,9}}", f"{form}%.f"
    if half := match["half"]:
        space = half[:-2]
        pattern, form = f"{pattern}{space}[AaPp][Mm]", f"{form}{space}%p"
    if zone := match["zone"]:
        space = " " * zone.startswith(" ")
        pattern, form = f"{pattern}{space}(?:Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)", f"{form}{space}%#z"
    return _Family(f"^{pattern}$", form, zone is not None)


def _three_numbers(order: Order, short: bool) -> str:
    if order == "year first" and short:
        return "%y{0}%m{0}%d"
    year = "%y" if short else "%Y"
    return f"%m{{0}}%d{{0}}{year}" if order == "month first" else f"%d{{0}}%m{{0}}{year}"
