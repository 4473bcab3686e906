"""Numbers: decimal mark, thousands separator, and a unit or currency."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import polars as pl

from tabapp.data.forms.clock import CLOCK, parse_clock
from tabapp.data.forms.share import share
from tabapp.data.small import SMALL, WHITE_SPACE, contains

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

_SEPARATORS: tuple[tuple[str, str | None], ...] = (
    (".", None), (".", ","), (",", None), (",", "."), (".", " "), (",", " "), (".", "'"), (".", "_"),
)  # fmt: skip


def is_number_format(form: NumberFormat) -> bool:
    """Whether `number_format` or `clock_share` can have found a format."""
    separators = (form.decimal, form.thousands)
    return separators in _SEPARATORS and (
        form.unit in (None, CLOCK) or re.fullmatch(_UNITS, form.unit or "") is not None
    )


def parse_numbers(texts: pl.Series, form: NumberFormat) -> pl.Series:
    """Parse stripped texts as Float64; null if a text is not a number in this format. Infinities are kept."""
    if form.unit == CLOCK:
        return parse_clock(texts)
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
    plain_share = share(plain, counts, total)
    rest = uniques.filter(~plain)
    if not contains(rest.head(1000), r"\d").any():
        return PLAIN, numbers, plain_share
    best, best_share = PLAIN, plain_share
    for (decimal, thousands), unit in product(_SEPARATORS, dict.fromkeys((None, _unit(rest)))):
        form = NumberFormat(decimal, thousands, unit)
        if _rewrite(uniques.head(_FORMAT_SAMPLE), form).count() < len(uniques.head(_FORMAT_SAMPLE)) / 2:
            continue
        # Include plain values: a long number without separators contradicts a thousands separator.
        part = share(_rewrite(uniques, form).is_not_null(), counts, total)
        if part > best_share:
            best, best_share = form, part
    return best, parse_numbers(uniques, best), best_share


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
