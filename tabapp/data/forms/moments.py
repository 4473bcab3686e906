"""Dates and times: one reader of their texts for training and prediction, and what a column of them needs to be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.forms.moment_families import of_known_years, read_families
from tabapp.data.forms.moment_text import (
    DAY,
    NUMBER_FORMS,
    Moment,
    NumberForm,
    Order,
    Precision,
    read_moment,
    read_number,
)
from tabapp.data.small import SMALL, all_contain, any_contains, contains

_SAMPLE, _PROBED = 200, 20
DATES_AGREE = 0.9
"""Minimum share of values that are dates or open ends; the others become missing."""
_SURE = 0.95
"""The same for texts such as 10.02.15 or 2023-02, which may also be versions or ranges."""
_STORED_AGREE = 0.5
"""The same for dates that a typed file stores, of which no other kind is better."""
_WEAK: frozenset[Precision] = frozenset({"short", "month", "ordinal"})
MOST_OPEN_ENDS = 100
_MOST_WORDS, _LEAST_REPEATS = 5, 2
_ROUND_DAYS = frozenset({"01-01", "12-30", "12-31"})
_LIMITS = frozenset({"1677-09-21", "1677-09-22", "2038-01-19", "2079-06-06", "2262-04-11", "2262-04-12"})
"""The first and last days of common types of moments: nanoseconds and seconds since 1970, and smalldatetime of SQL Server."""
_OUTER, _FEWEST_DAYS, _FEWEST_DAYS_AWAY = 3, 5, 20 * 365

_EPOCHS: dict[NumberForm, str] = {
    "epoch s": r"^1\d{9}(?:\.\d+)?$",
    "epoch ms": r"^1\d{12}(?:\.\d+)?$",
    "epoch us": r"^1\d{15}(?:\.\d+)?$",
    "epoch ns": r"^1\d{18}$",
}
"""Unix timestamps between 2001 and 2033."""
_SERIAL = r"^[1-6]\d{4}(?:\.\d+)?$"
"""Day numbers of spreadsheets between 1927 and 2091."""
_NUMBER = r"^[+-]?\d+(?:\.\d+)?$"
_COMPACT_DAY = r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_COMPACT_TIME = r"(?:(?:[01]\d|2[0-3])(?:[0-5]\d){1,2})"
_COMPACT_MONTH = r"(?:0[1-9]|1[0-2])\.(?:19|20)\d{2}"
_COMPACT = r"^\d+$|^\d\d\.\d{4}$"
_TRIPLE = r"(?:[^\W\d]+\.?,? ?)?(\d{1,2})([-/.]) ?(\d{1,2})[-/.] ?'?(\d{4}|\d{2})"
_LEGACY = re.compile(r"(?=.*%[Yy])(?:%[aAbBdHIMmpSYyz]|%\.f|[-/., :TZUC]){1,24}")
"""strptime formats, which earlier versions stored."""


def is_date_format(form: str) -> bool:
    """Whether a schema can have this format."""
    return form in NUMBER_FORMS or form in get_args(Order) or _LEGACY.fullmatch(form) is not None


def is_number_form(form: str) -> bool:
    """Whether a format of a schema reads numbers."""
    return form in NUMBER_FORMS


def describe_format(form: str) -> str:
    """What a format of a schema reads, for a sentence."""
    return _WORDS[form if form in _WORDS else order_of(form)]


def order_of(form: str) -> Order:
    """The order of day, month and year in a format of a schema."""
    for order in get_args(Order):
        if form == order:
            return order
    return {"%d": "day first", "%m": "month first"}.get(form[:2], "iso")  # pyright: ignore[reportReturnType]


_WORDS = {
    "iso": "dates",
    "day first": "dates with the day first",
    "month first": "dates with the month first",
    "year first": "dates with the year first",
    "epoch s": "times in seconds since 1970",
    "epoch ms": "times in milliseconds since 1970",
    "epoch us": "times in microseconds since 1970",
    "epoch ns": "times in nanoseconds since 1970",
    "excel": "dates as day numbers of a spreadsheet",
}


class Reading(NamedTuple):
    """Texts that were read.

    Attributes:
        moments: naive Datetime in µs, in UTC; null for an open end and for any other text.
        ends: the open end of each text, such as 9999-12-31; null for any other.
        zoned: which texts have an offset from UTC or the name of a zone.
    """

    moments: pl.Series
    ends: pl.Series
    zoned: npt.NDArray[np.bool_]


def read_moments(texts: pl.Series, form: str, open_ends: Collection[str] = ()) -> Reading:
    """Read stripped texts.

    Args:
        form: a format of a schema: how numbers are read, and which number of 03/04/24 comes first. With "iso", the texts
            themselves decide, if only one order fits them.
        open_ends: further texts and days that stand for no date in this column.
    """
    reading = _read(texts, form, open_ends)
    if form in NUMBER_FORMS or order_of(form) != "iso":
        return reading
    unread = (texts.is_not_null() & reading.moments.is_null() & reading.ends.is_null()).to_numpy()
    if not unread.any():
        return reading
    order, rival = find_order(texts.drop_nulls().unique())
    return reading if order == "iso" or rival is not None else _read(texts, order, open_ends)


def _read(texts: pl.Series, form: str, open_ends: Collection[str]) -> Reading:
    ends = {end: end for end in open_ends}
    if len(texts) <= SMALL:
        cells: list[str | None] = texts.to_list()
        known = {text: _read_cell(text, form, ends) for text in dict.fromkeys(cells) if text is not None}
        found = [None if text is None else known[text] for text in cells]
        moments = pl.Series("", [None if each is None else each.microseconds for each in found], dtype=pl.Int64)
        return Reading(
            moments.cast(pl.Datetime("us")),
            pl.Series("", [None if each is None else each.end for each in found], dtype=pl.String),
            np.array([each is not None and each.zoned for each in found], dtype=np.bool_),
        )
    moments, zoned = _read_numbers(texts, form) if form in NUMBER_FORMS else read_families(texts, order_of(form))
    if ends:
        moments = moments.set(moments.dt.to_string("%Y-%m-%d").is_in(list(ends)).fill_null(False), None)
    rest = texts.is_not_null() & moments.is_null()
    left = texts.filter(rest)
    if not len(left):
        return Reading(moments, pl.Series("", [None] * len(texts), dtype=pl.String), zoned)
    distinct = left.unique()
    read = [_read_cell(text, form, ends) for text in distinct.to_list()]

    def placed(values: Sequence[object], dtype: type[pl.DataType]) -> pl.Series:
        return left.replace_strict(distinct, pl.Series("", values, dtype=dtype), default=None, return_dtype=dtype)

    places = rest.arg_true()
    microseconds = placed([None if each is None else each.microseconds for each in read], pl.Int64)
    marks = placed([None if each is None else each.end for each in read], pl.String)
    zoned[places.to_numpy()] = placed([each is not None and each.zoned for each in read], pl.Boolean).to_numpy()
    return Reading(
        moments.scatter(places, microseconds.cast(pl.Datetime("us"))),
        pl.Series("", [None] * len(texts), dtype=pl.String).scatter(places, marks),
        zoned,
    )


def parse_ends(texts: pl.Series, form: str, open_ends: Collection[str]) -> pl.Series:
    """The open end of each stripped text; null for any other, and in a column that had none in training."""
    if not open_ends:
        return pl.Series("", [None] * len(texts), dtype=pl.String)
    return read_moments(texts, form, open_ends).ends


def _read_cell(text: str, form: str, ends: dict[str, str]) -> Moment | None:
    if text in ends:
        return Moment(None, text, "day")
    moment = read_number(text, form) if form in NUMBER_FORMS else None  # pyright: ignore[reportArgumentType]
    moment = moment or read_moment(text, order_of(form))
    if ends and moment is not None and moment.microseconds is not None:
        end = ends.get(str(np.datetime64(moment.microseconds // DAY, "D")))
        return moment if end is None else moment._replace(microseconds=None, end=end)
    return moment


def _read_numbers(texts: pl.Series, form: str) -> tuple[pl.Series, npt.NDArray[np.bool_]]:
    """Whole timestamps of the years 2001 to 2033; null for any other text."""
    none = np.zeros(len(texts), dtype=np.bool_)
    if form == "excel":
        return pl.Series("", [None] * len(texts), dtype=pl.Datetime("us")), none
    unit = form.removeprefix("epoch ")
    n_more = {"s": 9, "ms": 12, "us": 15, "ns": 18}[unit]
    numbers = texts.set(~texts.str.contains(f"^1[0-9]{{{n_more}}}$"), None).cast(pl.Int64, strict=False)
    numbers = numbers // 1_000 if unit == "ns" else numbers * {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
    return of_known_years(numbers.cast(pl.Datetime("us"))), none


@dataclass(frozen=True)
class Dates:
    """How the dates of a column are written.

    Attributes:
        form: the format for the schema.
        share: share of the values that are dates or open ends.
        moments: the distinct values as Datetime; null for an open end and for any other text.
        rival: another order that fits all values as well.
        zone: "UTC" if all moments have an offset, "mixed" if only some have one.
        short: whether most years have two digits.
        open_ends: the texts and days that stand for no date.
    """

    form: str
    share: float
    moments: pl.Series
    rival: Order | None = None
    zone: Literal["UTC", "mixed"] | None = None
    short: bool = False
    open_ends: tuple[str, ...] = ()


def find_dates(
    distinct: pl.Series | list[str],
    counts: npt.NDArray[np.integer],
    *,
    least: float = DATES_AGREE,
    by_name: bool = False,
) -> Dates | None:
    """How the dates of a column are written; None if fewer than a share of `least` of the values are dates.

    Dates that allow only one order determine whether the day or the month comes first. Without such dates, "/" means month
    first and "-" or "." means day first, and the other order is returned as `rival`.

    Args:
        distinct: the distinct non-missing texts, stripped.
        counts: number of occurrences of each.
        by_name: the name of the column says that it holds dates, so that 2024-123 is the 123rd day of a year.
    """
    step = max(1, len(distinct) // _SAMPLE)
    sample = distinct[::step] if isinstance(distinct, list) else distinct.gather_every(step).to_list()
    precision = _usual_precision(sample[:: max(1, len(sample) // _PROBED)], least) and _usual_precision(sample, least)
    if precision in (None, "number", "year") or (precision == "ordinal" and not by_name):
        return None
    if precision == "month" and all(map(_is_season, sample)):
        return None
    uniques = _as_series(distinct)
    order, rival = find_order(uniques)
    dates = _dates(uniques, counts, order, rival, max(least, _SURE) if precision in _WEAK and not by_name else least)
    return dates and replace(dates, short=precision == "short")


def stored_dates(distinct: pl.Series | list[str], counts: npt.NDArray[np.integer]) -> Dates | None:
    """As `find_dates`, for dates that a typed file stores."""
    return _dates(_as_series(distinct), counts, "iso", None, _STORED_AGREE)


def is_compact(distinct: pl.Series | list[str], only_days: bool = False) -> bool:
    """Whether most of a sample of distinct texts are numbers that may be dates, such as 20240131, and the others are whole numbers.

    Args:
        only_days: not also moments such as 202401312359, and months such as 01.2024.
    """
    pattern = f"^{_COMPACT_DAY}$" if only_days else f"^(?:{_COMPACT_DAY}{_COMPACT_TIME}?|{_COMPACT_MONTH})$"
    if contains(distinct[:_PROBED], pattern).mean() < 0.5:
        return False
    sample = distinct[:1000]
    return float(contains(sample, pattern).mean()) >= DATES_AGREE and all_contain(sample, _COMPACT)


def number_dates(distinct: pl.Series | list[str], counts: npt.NDArray[np.integer]) -> Dates | None:
    """As `find_dates`, for Unix timestamps and the day numbers of spreadsheets, all of which are numbers."""
    forms: dict[NumberForm, str] = {**_EPOCHS, "excel": _SERIAL}
    for form, pattern in forms.items():
        if not any_contains(distinct, pattern) or not all_contain(distinct, _NUMBER):
            continue
        if contains(distinct, pattern).mean() >= DATES_AGREE:
            return _dates(_as_series(distinct), counts, form, None, DATES_AGREE)
    return None


def are_timestamps(uniques: pl.Series) -> bool:
    """Whether all values may be Unix timestamps."""
    return any(contains(uniques, pattern).all() for pattern in _EPOCHS.values())


def _as_series(distinct: pl.Series | list[str]) -> pl.Series:
    return distinct if isinstance(distinct, pl.Series) else pl.Series("", distinct, dtype=pl.String)


def _usual_precision(sample: Sequence[str], least: float) -> Precision | None:
    """What most of the texts name; None if too few of them are dates."""
    found = [read_moment(text, "day first") or read_moment(text, "month first") for text in sample]
    kinds: Counter[Precision] = Counter(each.precision for each in found if each is not None)
    return kinds.most_common(1)[0][0] if kinds and kinds.total() >= least / 2 * len(sample) else None


def _is_season(text: str) -> bool:
    """Whether a text such as 2010-11 may be the season from one year to the next."""
    match = re.fullmatch(r"\d\d(\d\d)[-/](\d\d)", text)
    return match is not None and int(match[2]) == (int(match[1]) + 1) % 100


def find_order(uniques: pl.Series) -> tuple[Order, Order | None]:
    """The order of day, month and year that fits most dates of three numbers, and another one that fits as many."""
    if len(uniques) > SMALL:
        order, rival = find_order(uniques.gather_every(len(uniques) // SMALL + 1))
        if order != "iso" and rival is None:
            return order, None
        uniques = uniques.str.extract(rf"^({_TRIPLE})(?:\D|$)").drop_nulls().unique()
    texts: list[str] = uniques.to_list()
    triples = [match.groups() for text in texts if (match := re.match(rf"{_TRIPLE}(?!\d)", text)) is not None]
    numbers = [(int(a), int(b), int(c), len(c) == 2) for a, _, b, c in triples]
    fits: dict[Order, int] = {
        "month first": sum(0 < a <= 12 and 0 < b <= 31 for a, b, _, _ in numbers),
        "day first": sum(0 < a <= 31 and 0 < b <= 12 for a, b, _, _ in numbers),
        "year first": sum(short and 0 < b <= 12 and 0 < c <= 31 for _, b, c, short in numbers),
    }
    most = max(fits.values())
    if most == 0:
        return "iso", None
    best: list[Order] = [order for order, count in fits.items() if count == most]
    if "year first" in best and len(best) > 1:
        # Years are few, days are many, and no country writes the year first with points.
        firsts, lasts = len({a for a, *_ in numbers}), len({c for _, _, c, _ in numbers})
        if lasts > 12 and 2 * firsts <= lasts:
            return "year first", best[0]
        best.remove("year first")
        is_clear = (firsts > 12 and 2 * lasts <= firsts) or all(mark == "." for _, mark, *_ in triples)
        if len(best) == 1 and not is_clear:
            return best[0], "year first"
    if len(best) == 1:
        return best[0], None
    slashes = sum(mark == "/" for _, mark, *_ in triples)
    first, second = best if 2 * slashes > len(triples) else best[::-1]
    return first, None if all(a == b for a, b, *_ in numbers) else second


def _dates(
    uniques: pl.Series, counts: npt.NDArray[np.integer], form: str, rival: Order | None, least: float
) -> Dates | None:
    reading = read_moments(uniques, form)
    moments = reading.moments
    days = _far_days(moments, counts)
    ends = tuple(sorted({*reading.ends.drop_nulls().to_list(), *days}))[: MOST_OPEN_ENDS - _MOST_WORDS]
    words = _words(uniques, counts, (moments.is_null() & reading.ends.is_null()).to_numpy(), moments.n_unique())
    if ends or words:
        reading = read_moments(uniques, form, (*ends, *words))
        moments = reading.moments
    known = moments.is_not_null().to_numpy()
    total, agreeing = int(counts.sum()), int(counts[known | reading.ends.is_not_null().to_numpy()].sum())
    if not known.any() or agreeing < least * total:
        return None
    zoned = reading.zoned[known]
    zone = "UTC" if zoned.all() else "mixed" if zoned.any() else None
    return Dates(form, agreeing / total, moments, rival, zone, open_ends=(*ends, *words))


def _words(
    uniques: pl.Series, counts: npt.NDArray[np.integer], odd: npt.NDArray[np.bool_], n_moments: int
) -> tuple[str, ...]:
    """Words that stand for no date in a column of dates, such as "ongoing": few distinct ones, each of which is repeated."""
    places = np.flatnonzero(odd & (counts >= _LEAST_REPEATS))
    if len(places) > _MOST_WORDS:
        return ()
    words = [text for text in (str(uniques[int(place)]) for place in places) if not re.search(r"\d", text)]
    return tuple(words) if 4 * len(words) <= n_moments else ()


def _far_days(moments: pl.Series, counts: npt.NDArray[np.integer]) -> list[str]:
    """Repeated first and last days of a year far from all other dates, such as 1900-01-01, which stand for no date."""
    known = moments.is_not_null().to_numpy()
    micro = moments.drop_nulls().dt.epoch("us").to_numpy()
    days, place = np.unique(micro // DAY, return_inverse=True)
    repeats = np.bincount(place, weights=counts[known])
    outer = [i for i in range(len(days)) if (i < _OUTER or i >= len(days) - _OUTER) and repeats[i] >= _LEAST_REPEATS]
    names = {i: str(np.datetime64(int(days[i]), "D")) for i in outer}
    candidates = {i: name for i, name in names.items() if name[5:] in _ROUND_DAYS or name in _LIMITS}
    inner = np.delete(days, list(candidates))
    if not candidates or len(inner) < _FEWEST_DAYS:
        return []
    reach = max(2 * int(inner[-1] - inner[0]), _FEWEST_DAYS_AWAY)
    return [name for i, name in candidates.items() if not inner[0] - reach <= days[i] <= inner[-1] + reach]
