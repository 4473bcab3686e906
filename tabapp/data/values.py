"""Parse missing cells, numbers and dates in text, with one format for all distinct values of a column."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import polars as pl

from tabapp.data.small import FEW, SMALL, WHITE_SPACE, contains

MISSING = frozenset(
    {
        "", "?", "??", "na", "n/a", "n.a.", "#n/a", "#na", "#n/a n/a", "<na>", "nan", "-nan", "#nan", "nat", "null", "(null)",
        "<null>", "#null!", "nil", "none", "missing", "-", "--", "---", "—", "–", ".", "..", "...", "\\n", "1.#qnan", "-1.#qnan",
        "1.#ind", "-1.#ind", "#value!", "#ref!", "#div/0!",
    }
)  # fmt: skip
"""Spellings of a missing cell, in lower case and stripped of white space."""

DOUBTFUL_MISSING = frozenset({"none", "nil", "missing", "-", "--", "---", "—", "–", ".", "..", "..."})
"""Spellings that are often labels in a target of classes: "none", or "-" next to "+"."""

_CURRENCIES = r"US\$|CA\$|A\$|\$|€|£|¥|₹|₩|₽|USD|EUR|GBP|CHF|JPY|INR|CNY|SEK|NOK|DKK|Rs\.?|R\$|kr\.?|zł"
_UNITS = rf"%|‰|{_CURRENCIES}|[A-Za-zµ°][A-Za-zµ°²³/]{{0,6}}"
_PREFIX = rf"^[+-]?\(?\s*({_CURRENCIES})\s*[+-]?[\d.]"
_SUFFIX = rf"[\d.]\s*({_UNITS})\)?$"
_IN_PARENTHESES = re.compile(r"^\(([^()-]*)\)$")
_THIN_SPACES = re.compile("[\u00a0\u202f\u2009]")
_FORMAT_SAMPLE = 2000
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
EXACT_INTEGER = 2**53
"""The largest integer up to which float64 represents every integer."""
LEADING_ZERO = r"^[+-]?0\d+$"


@dataclass(frozen=True)
class NumberFormat:
    """A number format: decimal mark, thousands separator, and an optional unit or currency before or after the number."""

    decimal: str = "."
    thousands: str | None = None
    unit: str | None = None


PLAIN = NumberFormat()
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
_SEPARATORS: tuple[tuple[str, str | None], ...] = (
    (".", None), (".", ","), (",", None), (",", "."), (".", " "), (",", " "), (".", "'"), (".", "_"),
)  # fmt: skip


def is_number_format(form: NumberFormat) -> bool:
    """Whether `number_format` or `clock_share` can have found a format."""
    separators = (form.decimal, form.thousands)
    return separators in _SEPARATORS and (
        form.unit in (None, CLOCK) or re.fullmatch(_UNITS, form.unit or "") is not None
    )


def strip(texts: pl.Series) -> pl.Series:
    """Strip white space at both ends, including no-break spaces; empty texts become null."""
    if len(texts) <= FEW:
        cells: list[str | None] = texts.to_list()
        short = {cell: cell and (cell.strip(WHITE_SPACE) or None) for cell in dict.fromkeys(cells)}
        if all(cell == kept for cell, kept in short.items()):
            return texts
        return pl.Series(texts.name, [short[cell] for cell in cells], dtype=pl.String)
    stripped = texts.str.strip_chars()
    if (stripped.str.len_bytes() == texts.str.len_bytes()).all():
        # Nothing to strip: keep the original column instead of a copy, to save memory.
        stripped = texts
    return stripped.set(stripped == "", None) if (stripped == "").any() else stripped


def is_missing(texts: pl.Series, levels: Collection[str], spellings: Collection[str]) -> pl.Series:
    """Which stripped texts mean a missing cell: known spellings that are not levels of the column, and `spellings`."""
    if len(texts) <= FEW:
        cells: list[str | None] = texts.to_list()
        values, missing = {*levels} - {*spellings}, {*spellings}
        gone = {
            text
            for text in dict.fromkeys(cells)
            if text is None or text in missing or (text.lower() in MISSING and text not in values)
        }
        return pl.Series(texts.name, [text in gone for text in cells], dtype=pl.Boolean)
    known = texts.str.to_lowercase().is_in(list(MISSING))
    doubtful = [level for level in levels if level.casefold() in MISSING]
    if doubtful:
        known = known & ~texts.is_in(doubtful)
    if spellings:
        known = known | texts.is_in(list(spellings))
    return known.fill_null(True)


def parse_numbers(texts: pl.Series, form: NumberFormat) -> pl.Series:
    """Parse stripped texts as Float64; null if a text is not a number in this format. Infinities are kept."""
    if form.unit == CLOCK:
        return _seconds(texts)
    numbers = _cast(texts) if form.decimal == "." else pl.Series(texts.name, [None] * len(texts), dtype=pl.Float64)
    if numbers.null_count() == texts.null_count():
        return numbers
    rest = texts.is_not_null() & numbers.is_null()
    rewritten = _rewrite(texts.filter(rest), form)
    positions = rest.arg_true()
    return numbers.scatter(positions, _cast(rewritten))


def _cast(texts: pl.Series) -> pl.Series:
    numbers = texts.cast(pl.Float64, strict=False)
    return numbers.fill_nan(None) if np.isnan(numbers.to_numpy()).sum() > numbers.null_count() else numbers


def _seconds(texts: pl.Series) -> pl.Series:
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
    sample = uniques.head(_FORMAT_SAMPLE)
    if not contains(sample, r"^(?:P|[+-]?\d).*[:DHMSdhms]").any():
        return pl.Series(uniques.name, [None] * len(uniques), dtype=pl.Float64), 0.0
    seconds = _seconds(uniques)
    return seconds, _share(seconds.is_not_null(), counts, float(counts.sum() or 0))


def _rewrite(texts: pl.Series, form: NumberFormat) -> pl.Series:
    """Rewrite numbers in a format as plain numbers; null if a text does not match the format."""
    if len(texts) <= SMALL:
        return pl.Series(texts.name, _rewrite_cells(texts.to_list(), form), dtype=pl.String)
    cleaned = texts.str.replace_all("\u2212", "-", literal=True)
    if form.unit is not None:
        unit = re.escape(form.unit)
        cleaned = cleaned.str.replace(rf"^([+-]?\(?)\s*{unit}\s*", "${1}").str.replace(rf"\s*{unit}(\)?)$", "${1}")
    cleaned = cleaned.str.replace(r"^\(([^()-]*)\)$", "-${1}").str.strip_chars()
    if form.thousands == " ":
        cleaned = cleaned.str.replace_all("[\u00a0\u202f\u2009]", " ")
    if form.thousands == "'":
        cleaned = cleaned.str.replace_all("’", "'", literal=True)
    valid = cleaned.str.contains(_number_pattern(form)) | cleaned.str.contains(_INFINITE)
    if form.thousands is not None:
        cleaned = cleaned.str.replace_all(form.thousands, "", literal=True)
    if form.decimal != ".":
        cleaned = cleaned.str.replace_all(form.decimal, ".", literal=True)
    return cleaned.set(~valid, None)


@cache
def _number_pattern(form: NumberFormat) -> str:
    """Matches a number whose unit was removed."""
    decimal = re.escape(form.decimal)
    whole = r"\d+"
    if form.thousands is not None:
        whole = rf"(?:[1-9]\d{{0,2}}(?:{re.escape(form.thousands)}\d{{3}})+|\d{{1,3}})"
    return rf"^[+-]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?$"


@cache
def _unit_patterns(unit: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    escaped = re.escape(unit)
    return re.compile(rf"^([+-]?\(?)\s*{escaped}\s*"), re.compile(rf"\s*{escaped}(\)?)$")


def _rewrite_cells(cells: list[str | None], form: NumberFormat) -> list[str | None]:
    """`_rewrite` for a few texts, in plain Python."""
    number, infinite = re.compile(_number_pattern(form)), re.compile(_INFINITE)
    rewritten: list[str | None] = []
    for cell in cells:
        if cell is None:
            rewritten.append(None)
            continue
        text = cell.replace("\u2212", "-")
        if form.unit is not None:
            before, after = _unit_patterns(form.unit)
            text = after.sub(r"\1", before.sub(r"\1", text, count=1), count=1)
        text = _IN_PARENTHESES.sub(r"-\1", text).strip(WHITE_SPACE)
        if form.thousands == " ":
            text = _THIN_SPACES.sub(" ", text)
        if form.thousands == "'":
            text = text.replace("’", "'")
        if number.search(text) is None and infinite.search(text) is None:
            rewritten.append(None)
            continue
        if form.thousands is not None:
            text = text.replace(form.thousands, "")
        rewritten.append(text.replace(form.decimal, ".") if form.decimal != "." else text)
    return rewritten


def number_format(uniques: pl.Series, counts: pl.Series) -> tuple[NumberFormat, pl.Series, float]:
    """Find the number format that parses the largest share of values.

    Args:
        uniques: distinct non-missing texts, stripped.
        counts: number of occurrences of each.

    Returns:
        The format, the distinct values as Float64 (null if not a number in this format), and the share of values that parse.
    """
    total = float(counts.sum() or 0)
    numbers = _cast(uniques)
    if total and not numbers.has_nulls():
        return PLAIN, numbers, 1.0
    plain = pl.Series(~np.isnan(numbers.to_numpy()))
    plain_share = _share(plain, counts, total)
    rest = uniques.filter(~plain)
    if not contains(rest.head(1000), r"\d").any():
        return PLAIN, numbers, plain_share
    best, best_share = PLAIN, plain_share
    for (decimal, thousands), unit in product(_SEPARATORS, dict.fromkeys((None, _unit(rest)))):
        form = NumberFormat(decimal, thousands, unit)
        if _rewrite(uniques.head(_FORMAT_SAMPLE), form).count() < len(uniques.head(_FORMAT_SAMPLE)) / 2:
            continue
        # Include plain values: a long number without separators contradicts a thousands separator.
        share = _share(_rewrite(uniques, form).is_not_null(), counts, total)
        if share > best_share:
            best, best_share = form, share
    return best, parse_numbers(uniques, best), best_share


def _share(mask: pl.Series, counts: pl.Series, total: float) -> float:
    return float(counts.filter(mask).sum() or 0) / total if total else 0.0


def _unit(texts: pl.Series) -> str | None:
    """The currency or unit before or after the numbers; None if there is none or more than one."""
    sample = texts.head(10_000)
    found: set[str] = set()
    for pattern in (_PREFIX, _SUFFIX):
        if len(sample) <= SMALL:
            units = _extract(sample.to_list(), pattern)
        else:
            units = set(sample.str.extract(pattern).drop_nulls().unique().to_list())
        found |= units - {"e", "E"}
    return found.pop() if len(found) == 1 else None


def _extract(texts: list[str], pattern: str) -> set[str]:
    """The distinct first groups of the matches in a few texts, in plain Python."""
    found = map(_python_pattern(pattern).search, texts)
    return {match[1] for match in found if match is not None}


@cache
def _python_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern for Python whose white space and end of a text are those of polars."""
    return re.compile(re.sub(r"\$$", r"\\Z", pattern.replace(r"\s", f"[{WHITE_SPACE}]")))


# --- dates ---------------------------------------------------------------------------------------------------------------

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
        found = DateFormat(form, _share(parses_as_date(uniques, form), counts, total))
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
