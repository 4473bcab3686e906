"""Read one moment from a text: ISO 8601, and the forms that are common in several countries and programs."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime, timedelta
from functools import cache
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from tabapp.data.forms.calendar_names import MONTHS, WEEKDAYS, ZONES

Order = Literal["iso", "day first", "month first", "year first"]
"""Which number comes first in dates such as 03/04/24. With "iso", only dates that allow one order are read."""

NumberForm = Literal["epoch s", "epoch ms", "epoch us", "epoch ns", "excel"]
"""Seconds, milliseconds, microseconds or nanoseconds since 1970; days since 1899-12-30, as spreadsheets count them."""

Precision = Literal["moment", "day", "short", "week", "month", "quarter", "year", "ordinal", "number"]
"""What a text names; "short" is a day with a year of two digits, and "number" is a serial number or a timestamp."""

DAY = 86_400_000_000
"""Microseconds of a day."""
FIRST_YEAR, LAST_YEAR = 1000, 2500
"""Dates in other years are open ends or typing errors."""
_PIVOT = 70
"""Years of two digits from 70 to 99 are 1970 to 1999; the others are 2000 to 2069. chrono, which polars uses, has the same rule."""
_LONGEST = 80
_SERIALS = (10_000.0, 80_000.0)
"""Days since 1899-12-30, as spreadsheets count them: from 1927 to 2119."""
_EPOCHS_BY_DIGITS: dict[int, NumberForm] = {10: "epoch s", 13: "epoch ms", 16: "epoch us", 19: "epoch ns"}
"""Digits of a Unix timestamp between 2001 and 2033."""
_UNIX_DAYS = date(1970, 1, 1).toordinal()
NUMBER_FORMS: dict[NumberForm, tuple[float, int]] = {
    "epoch s": (1_000_000.0, 0),
    "epoch ms": (1_000.0, 0),
    "epoch us": (1.0, 0),
    "epoch ns": (0.001, 0),
    "excel": (float(DAY), (date(1899, 12, 30).toordinal() - _UNIX_DAYS) * DAY),
}
"""Microseconds per unit, and those from 1970 to the start of the count."""
_FIRST = (date(FIRST_YEAR, 1, 1).toordinal() - _UNIX_DAYS) * DAY
_AFTER = (date(LAST_YEAR + 1, 1, 1).toordinal() - _UNIX_DAYS) * DAY
_LAST_DAY = date(9999, 12, 31).toordinal() - _UNIX_DAYS


class Moment(NamedTuple):
    """A moment that was read.

    Attributes:
        microseconds: since 1970 in UTC; None for an open end.
        end: the open end, such as "9999-12-31"; None for any other.
        zoned: whether the text has an offset from UTC or the name of a zone, which is `zone`.
    """

    microseconds: int | None
    end: str | None
    precision: Precision
    zoned: bool = False
    zone: str | None = None


_JOIN = (
    r"(?:,? ?t ?|,? (?:(?:um|at|as|a las?|a|alle(?: ore)?|om) )?"
    r"|(?:,? - | ?-|(?<=\d{4}):)(?=\d{1,2}[:.]\d{2}))"
)
_TIME = (
    r"(?:(?P<H>\d{1,2})(?: ?h ?|[:.])(?P<M>\d{2})(?:[:.](?P<S>\d{2})(?:[.,:](?P<F>\d{1,9}))?)?(?: ?uhr| ?h)?"
    r"|(?P<cH>\d{2})(?:(?P<cM>\d{2})(?:(?P<cS>\d{2})(?:[.,](?P<cF>\d{1,9}))?)?)?"
    r"|(?P<hour>\d{1,2})(?= ?(?:[ap]\.? ?m|uhr|h))(?: ?uhr| ?h)?)"
    r"(?: ?(?P<half>[ap])(?:\.? ?m\.?)?)?"
)
_ZONE = (
    r"(?: ?(?:utc|gmt|ut)? ?(?P<sign>[+\-\u2212])(?P<zone_hours>\d{1,2})(?::?(?P<zone_minutes>\d{2}))?"
    r"(?: [a-z]{2,5})?| ?(?P<zone>[a-z]{1,4})| (?P<place>[a-z]+/[a-z_]+(?:/[a-z_]+)?))?"
    r"(?: ?\([^()]*\)| ?\[[^\[\]]*\])?"
)
_NAME = r"(?P<name>[^\W\d_]{3,12})\.?"
_OF = r"(?:(?:de|del|of) )?"
_YEAR = r"'?(?P<year>\d{4}|\d{2})"
_NTH = r"(?:st|nd|rd|th|er|o|a|°|\.)?"
_DAY_FORMS: tuple[tuple[str, Precision], ...] = (
    (r"(?P<year>[+-]?\d{4,6})(?P<mark>[-/.]) ?(?P<month>\d{1,2})(?P=mark) ?(?P<day>\d{1,2})\.?", "day"),
    (r"(?P<a>\d{1,2})(?P<mark>[-/.]) ?(?P<b>\d{1,2})(?P=mark) ?(?P<c>\d{4}|'?\d{2})", "day"),
    (rf"(?P<day>\d{{1,2}}){_NTH}[-/ ]?{_OF}{_NAME}(?:[-/,]| ,)? ?{_OF}{_YEAR}", "day"),
    (rf"{_NAME}[-/ ]?(?:the )?(?P<day>\d{{1,2}}){_NTH}(?:[-/]|,? ){_YEAR}", "day"),
    (rf"(?P<year>\d{{4}})[-/ .]?{_NAME}[-/ .]?(?P<day>\d{{1,2}})", "day"),
    (r"(?P<year>\d{4})[年년] ?(?P<month>\d{1,2})[月월] ?(?P<day>\d{1,2})[日일]", "day"),
    (r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})", "day"),
    (r"(?P<year>\d{4})[- ]?w(?P<week>\d{2})(?:-?(?P<weekday>[1-7]))?", "week"),
    (r"(?P<year>\d{4})-(?P<ordinal>\d{3})", "ordinal"),
)
_PERIODS: tuple[tuple[str, Precision], ...] = (
    (r"(?P<year>\d{4})[-/](?P<month>\d{2})", "month"),
    (r"(?P<month>\d{1,2})/(?P<year>\d{4})", "month"),
    (r"(?P<month>\d{2})[-.](?P<year>\d{4})", "month"),
    (rf"{_NAME}(?:[-/ ,]|, )?{_OF}(?P<year>\d{{4}})", "month"),
    (rf"{_NAME}(?:[-/]| ?')(?P<year>\d{{2}})", "month"),
    (rf"(?P<year>\d{{4}})[-/ ]?{_NAME}", "month"),
    (r"(?P<year>\d{4})(?:[-/ ]?q|[-/ ]t)(?P<quarter>[1-4])", "quarter"),
    (rf"q(?P<quarter>[1-4])[-/ ]?{_YEAR}", "quarter"),
    (rf"(?P<quarter>[1-4])q[-/ ]?{_YEAR}", "quarter"),
    (r"(?:t(?P<quarter>[1-4])|(?P<trimester>[1-4])t)[-/ ](?P<year>\d{4})", "quarter"),
    (r"(?:kw|w|week)[- ]?(?P<week>\d{1,2})[-/ ](?P<year>\d{4})", "week"),
)
_COMPACT_TIME = r"(?P<cH>\d{2})(?P<cM>\d{2})(?:(?P<cS>\d{2})(?P<cF>\d{3})?)?"
_PATTERNS: tuple[tuple[re.Pattern[str], Precision], ...] = (
    *((re.compile(rf"{form}(?:{_JOIN}{_TIME}{_ZONE}| ?z)?"), precision) for form, precision in _DAY_FORMS),
    *((re.compile(form), precision) for form, precision in _PERIODS),
    (re.compile(rf"(?P<year>\d{{4}})(?P<month>\d{{2}})(?P<day>\d{{2}}){_COMPACT_TIME}{_ZONE}"), "day"),
    (re.compile(rf"{_NAME} (?P<day>\d{{1,2}}),? {_TIME}{_ZONE} (?P<year>\d{{4}})"), "day"),
)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:e[+-]?\d+)?", re.ASCII)
_WEEKDAY = re.compile(r"([^\W\d_]+)(?:-feira)?\.?,? ?(?:(?:den|dem|le|el|il|de|the|o) )?(?=\w)")
_STARTS = re.compile(r"[+-]?\d|[^\W\d_].*\d")
_YEARS = (1500, 2199)
"""Other numbers of four digits are no years."""
_DOT_NET = re.compile(r"/Date\((-?\d+)(?:[+-]\d{4})?\)/", re.ASCII)
_ENDLESS = frozenset({"infinity", "-infinity"})


def read_moment(text: str, order: Order) -> Moment | None:
    """Read a stripped text; None if it is no moment. Parts of days without an offset are taken for UTC.

    A week, a month, a quarter or a year is its first day.
    """
    if len(text) > _LONGEST or not _STARTS.match(text):
        if (match := _DOT_NET.fullmatch(text)) is not None:
            moment = read_number(match[1], "epoch ms")
            return moment and moment._replace(precision="moment", zoned=True)
        return Moment(None, text.lower(), "day") if text.lower() in _ENDLESS else None
    plain = _plain(text)
    if _NUMBER.fullmatch(plain) and (moment := _read_number(plain)) is not None:
        return moment
    found = _read_parts(plain, order)
    if found is None and (weekday := _WEEKDAY.match(plain)) is not None and weekday[1] in WEEKDAYS:
        found = _read_parts(plain[weekday.end() :], order)
    return found


def _plain(text: str) -> str:
    """A text in lower case, with simple spaces, without accents."""
    text = " ".join(text.lower().split())
    if text.isascii():
        return text
    letters = unicodedata.normalize("NFKD", text.replace("’", "'"))
    return unicodedata.normalize("NFC", "".join(letter for letter in letters if not unicodedata.combining(letter)))


def _read_parts(text: str, order: Order) -> Moment | None:
    for pattern, precision in _PATTERNS:
        if (match := pattern.fullmatch(text)) is not None:
            parts = {name: part for name, part in match.groupdict().items() if part is not None}
            if (moment := _moment(parts, precision, order)) is not None:
                return moment
    return None


def _moment(parts: dict[str, str], precision: Precision, order: Order) -> Moment | None:
    triple = "c" in parts
    if triple:
        parts = _in_order(parts, order)
        if "year" not in parts:
            return None
        precision = "short" if len(parts["c"]) < 4 else precision
    name = parts.get("name")
    if name is not None:
        if name not in MONTHS:
            return None
        parts["month"] = str(MONTHS[name])
    year_text = parts["year"].lstrip("'")
    if len(year_text) == 2 and precision == "day":
        precision = "short"
    time = _time(parts)
    if time is None:
        return None
    microseconds, zoned = time
    zoned |= "place" in parts
    year = _full_year(year_text)
    end = _open_end(year, parts, year_text)
    if end is not None:
        return Moment(None, end, precision, zoned)
    days = _days(year, parts, precision) if FIRST_YEAR <= year <= LAST_YEAR else None
    if days is None:
        return None
    if "place" in parts:
        offset = _offset_at(parts["place"], days * DAY + microseconds)
        if offset is None:
            return None
        microseconds -= offset
    if "hour" in parts or "H" in parts or "cH" in parts:
        precision = "moment"
    return Moment(days * DAY + microseconds, None, precision, zoned, parts.get("zone"))


def _full_year(text: str) -> int:
    year = int(text)
    return year if len(text) > 2 else year + (1900 if year >= _PIVOT else 2000)


def _in_order(parts: dict[str, str], order: Order) -> dict[str, str]:
    """Name the three numbers of a date; no year if the order is not known."""
    a, b, c = parts["a"], parts["b"], parts["c"]
    short = len(c) < 4
    if b in ("0", "00", "99"):
        return parts | {"year": c, "month": b, "day": a}
    if order == "iso" or (not short and int(c) > LAST_YEAR):
        order = _only_order(int(a), int(b), short, parts["mark"]) or order
    if order == "year first" and short and len(a) == 2:
        return parts | {"year": a, "month": b, "day": c}
    if order == "month first":
        return parts | {"year": c, "month": a, "day": b}
    return parts | {"year": c, "month": b, "day": a} if order in ("day first", "year first") else parts


def _only_order(a: int, b: int, short: bool, mark: str) -> Order | None:
    """The order of a date that allows only one, and of dates with points, which no country writes with the month first."""
    if a > 31:
        return "year first" if short else None
    if a > 12 >= b and not short:
        return "day first"
    if b > 12:
        return "month first"
    return "day first" if mark == "." or (a == b and not short) else None


def _open_end(year: int, parts: dict[str, str], year_text: str) -> str | None:
    """The name of a date far in the past or future that stands for none, such as 9999-12-31; None for any other."""
    if "month" not in parts or "day" not in parts:
        return None
    month, day = parts["month"], parts["day"]
    for digit in "09":
        if {*(year_text + month + day)} == {digit} and int(month) in (0, 99):
            return "-".join((digit * 4, digit * 2, digit * 2))
    if year_text in ("-0001", "+294247"):
        return f"{year_text}-{month}-{day}"
    if FIRST_YEAR <= year <= LAST_YEAR or len(year_text) != 4:
        return None
    round_days = {(1, 1), (12, 30), (12, 31), (0, 0)}
    return f"{year:04}-{int(month):02}-{int(day):02}" if (int(month), int(day)) in round_days else None


def _days(year: int, parts: dict[str, str], precision: Precision) -> int | None:
    """Days since 1970 of the first day that the parts name; None if there is no such day."""
    try:
        if "week" in parts:
            day = date.fromisocalendar(year, int(parts["week"]), int(parts.get("weekday", 1))).toordinal()
        elif quarter := parts.get("quarter") or parts.get("trimester"):
            day = date(year, 3 * int(quarter) - 2, 1).toordinal()
        elif "ordinal" in parts:
            number = int(parts["ordinal"])
            day = date(year, 1, 1).toordinal() + number - 1
            if not 1 <= number <= date(year, 12, 31).timetuple().tm_yday:
                return None
        else:
            day = date(year, int(parts["month"]), int(parts.get("day", 1))).toordinal()
    except ValueError:
        return None
    return day - _UNIX_DAYS


def _offset_at(place: str, microseconds: int) -> int | None:
    """Microseconds that the clocks of a zone such as europe/berlin are ahead of UTC at a local time; None for other words."""
    name = _places().get(place)
    offset = name and ZoneInfo(name).utcoffset(datetime(1970, 1, 1) + timedelta(microseconds=microseconds))
    return None if not isinstance(offset, timedelta) else offset // timedelta(microseconds=1)


@cache
def _places() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


def _time(parts: dict[str, str]) -> tuple[int, bool] | None:
    """Microseconds since midnight in UTC, and whether there is a zone; None if there is no such time."""
    hour_text = parts.get("H") or parts.get("cH") or parts.get("hour")
    if hour_text is None:
        return 0, False
    hour = int(hour_text)
    minute, second = (int(parts.get(name) or parts.get(f"c{name}") or 0) for name in "MS")
    fraction = int((parts.get("F") or parts.get("cF") or "0").ljust(6, "0")[:6])
    half = parts.get("half")
    if half is not None:
        if (half == "a" and hour > 12) or (hour == 0 and half == "p"):
            return None
        hour = hour % 12 + 12 * (half == "p") if hour <= 12 else hour
    # ISO 8601 allows 24:00 for the end of a day, and a leap second is 60.
    if hour > 24 or minute > 59 or second > 60 or (hour == 24 and (minute or second or fraction)):
        return None
    offset, zoned = 0, False
    if "sign" in parts:
        offset = int(parts["zone_hours"]) * 60 + int(parts.get("zone_minutes", 0))
        offset, zoned = -offset if parts["sign"] != "+" else offset, True
        if abs(offset) > 18 * 60:
            return None
    elif "zone" in parts:
        if parts["zone"] not in ZONES:
            return None
        offset, zoned = ZONES[parts["zone"]], True
    return ((hour * 60 + minute - offset) * 60 + second) * 1_000_000 + fraction, zoned


def _read_number(text: str) -> Moment | None:
    """A number among dates: none, a year, a Unix timestamp by its digits, or the day number of a spreadsheet."""
    if text == "0":
        return Moment(None, "0", "number")
    if len(text) == 4 and text.isdecimal() and _YEARS[0] <= int(text) <= _YEARS[1]:
        return Moment((date(int(text), 1, 1).toordinal() - _UNIX_DAYS) * DAY, None, "year")
    if (unit := _unit_of(text)) is not None:
        return read_number(text, unit)
    digits = text.partition(".")[0]
    if len(digits) == 5 and digits.isdecimal() and _SERIALS[0] <= float(text) <= _SERIALS[1]:
        return read_number(text, "excel")
    return None


def _unit_of(number: str) -> NumberForm | None:
    """The unit of a timestamp of the years 2001 to 2033, by its digits; None for any other number."""
    digits = number.partition(".")[0]
    return _EPOCHS_BY_DIGITS.get(len(digits)) if digits[0] == "1" else None


def read_number(text: str, form: NumberForm) -> Moment | None:
    """Read a text that is a timestamp or a day number of this form; None if it is no number or no moment.

    A timestamp with the digits of another unit is one of that unit.
    """
    if _NUMBER.fullmatch(text) is None:
        return None
    if form != "excel":
        form = _unit_of(text) or form
    factor, start = NUMBER_FORMS[form]
    number = float(text)
    if abs(number) > 1e20:
        return None
    if factor >= 1 and text.lstrip("+-").isdecimal():
        microseconds = int(text) * int(factor) + start
    else:
        microseconds = round(number * factor) + start
    if form == "excel":
        # Day numbers are exact to about a millisecond.
        microseconds = round(microseconds / 1000) * 1000
    if not _FIRST <= microseconds < _AFTER:
        day = microseconds // DAY
        return Moment(None, "9999-12-31", "number") if day == _LAST_DAY else None
    return Moment(microseconds, None, "number")
