"""Numbers: decimal mark, thousands separator, a unit or currency, and marks."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
import polars as pl

from tabapp.data.forms.cells import CREDIT, FLAGS, LETTERS, MORE_FLAGS, Cell, parts_of
from tabapp.data.forms.clock import CLOCKS, MINUTES, parse_clock
from tabapp.data.forms.share import share
from tabapp.data.forms.units import RATINGS, is_rating, is_unit, unit_factor
from tabapp.data.small import SMALL, WHITE_SPACE, contains

_CURRENCIES = r"US\$|CA\$|A\$|\$|€|£|¥|₹|₩|₽|USD|EUR|GBP|CHF|JPY|INR|CNY|SEK|NOK|DKK|Rs\.?|R\$|kr\.?|zł"
_UNITS = rf"%|‰|{RATINGS}|{_CURRENCIES}|[A-Za-zµ°][A-Za-zµ°²³/]{{0,6}}"
_PREFIX = rf"^[+-]?\(?\s*({_CURRENCIES})\s*[+-]?[0-9.]"
_SUFFIX = rf"[0-9.]\s*({_UNITS})\)?$"
_IN_PARENTHESES = re.compile(r"^\(([^()-]*)\)$")
_THIN_SPACES = re.compile("[\u00a0\u202f\u2009]")
_FORMAT_SAMPLE = 2000
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
EXACT_INTEGER = 2**53
"""The largest integer up to which float64 represents every integer."""
LEADING_ZERO = r"^[+-]?0\d+$"
NOTATIONS = ("exact", "open", "marks", "flags", "magnitude", "CR", "DR", "share")


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Attributes:
        decimal, thousands: separators.
        unit: the unit or currency before or after a number, or one of `CLOCKS`. Other units of its dimension are converted.
        notation: what else may be beside a number. "exact": nothing, as in columns of earlier versions. "open": marks, fractions,
            powers of ten and words such as "million"; "marks" says that training had some. The others also read letters, which
            are ambiguous without the column:
            "flags" are marks (225p is provisional), "magnitude" multiplies (12K), "CR" or "DR" after a number makes it negative,
            and with "share", numbers without a percent sign are shares.
    """

    decimal: str = "."
    thousands: str | None = None
    unit: str | None = None
    notation: str = "exact"


PLAIN = NumberFormat()

_SEPARATORS: tuple[tuple[str, str | None], ...] = (
    (".", None), (".", ","), (",", None), (",", "."), (".", " "), (",", " "), (".", "'"), (".", "_"),
)  # fmt: skip


def is_number_format(form: NumberFormat) -> bool:
    """Whether `number_format` or `clock_share` can have found a format."""
    separators = (form.decimal, form.thousands)
    return (
        separators in _SEPARATORS
        and form.notation in NOTATIONS
        and (form.unit is None or form.unit in CLOCKS or is_unit(form.unit))
    )


def parse_numbers(texts: pl.Series, form: NumberFormat) -> pl.Series:
    """Parse stripped texts as Float64; null if a text is not a number in this format. Infinities are kept."""
    if form.unit in CLOCKS:
        numbers = parse_clock(texts, form.unit)
    else:
        numbers = _cast(texts) if form.decimal == "." else pl.Series(texts.name, [None] * len(texts), dtype=pl.Float64)
        if form.notation == "share":
            numbers = numbers * PERCENT
        if numbers.null_count() == texts.null_count():
            return numbers
        rest = texts.is_not_null() & numbers.is_null()
        numbers = numbers.scatter(rest.arg_true(), _cast(_rewrite(texts.filter(rest), form)))
    if form.notation == "exact" or numbers.null_count() == texts.null_count():
        return numbers
    rest = texts.is_not_null() & numbers.is_null()
    return numbers.scatter(rest.arg_true(), _read_distinct(texts.filter(rest), form, 0, pl.Float64()))


def parse_marks(texts: pl.Series, form: NumberFormat) -> pl.Series:
    """The mark of each stripped text: what is beside its number, or the whole text if it is no number; null for no mark."""
    marks = pl.Series(texts.name, [None] * len(texts), dtype=pl.String)
    if form.notation == "exact":
        return marks
    rest = texts.is_not_null() & texts.cast(pl.Float64, strict=False).is_null()
    if not rest.any():
        return marks
    others = texts.filter(rest)
    found = _read_distinct(others, form, 1, pl.String())
    unread = parse_numbers(others, form).is_null()
    return marks.scatter(rest.arg_true(), found.set(unread, None).zip_with(~unread, others))


def _read_distinct(texts: pl.Series, form: NumberFormat, part: int, kind: pl.DataType) -> pl.Series:
    """The value (part 0) or the mark (part 1) of each text, read once for each distinct text."""
    known = {text: read_cell(text, form)[part] for text in texts.unique().to_list()}
    return pl.Series(texts.name, [known[text] for text in texts.to_list()], dtype=kind)


def read_cell(text: str, form: NumberFormat) -> tuple[float | None, str | None]:
    """The value and the mark of a stripped text; both are None if it is no number."""
    cell = parts_of(text)
    return (None, None) if cell is None else value_of(cell, form)


def value_of(cell: Cell, form: NumberFormat) -> tuple[float | None, str | None]:
    """The value of a cell and its mark in a column of this format; both are None if it does not follow the format."""
    number, letter = _core_value(cell, form), letter_of(cell, form)
    factor, unit = cell.scale * letter.factor, f"{cell.unit} {letter.unit}".strip()
    mark = "".join(filter(None, (cell.mark, letter.mark))) or None
    negative = cell.negative ^ letter.negative
    if is_rating(unit) and cell.fraction is not None and not is_rating(form.unit or ""):
        unit = ""
    if unit:
        times = None if form.unit is None else unit_factor(unit, form.unit)
        if times is None:
            return None, None
        factor *= times
    elif form.notation == "share":
        factor *= PERCENT
    if number is None or not math.isfinite(number * factor):
        return None, None
    return (-number if negative else number) * factor, mark


_CRORE = 1e7
PERCENT = 100.0


@dataclass(frozen=True)
class Letter:
    """What a letter after a number means: a factor, a minus sign, a mark, or a unit."""

    factor: float = 1.0
    negative: bool = False
    mark: str | None = None
    unit: str = ""


def letter_of(cell: Cell, form: NumberFormat) -> Letter:
    """The meaning of the letter of a cell in a column of this format."""
    letter, lower = cell.letter, cell.letter.lower().rstrip(".")
    if not letter:
        return Letter()
    if form.notation == "magnitude" and (times := LETTERS.get(letter, _CRORE if lower == "cr" else None)):
        return Letter(factor=times)
    if form.notation == "flags" and (lower in FLAGS or letter in MORE_FLAGS):
        return Letter(mark=FLAGS.get(lower, letter))
    if form.notation in ("CR", "DR") and lower in CREDIT:
        return Letter(negative=CREDIT[lower] == form.notation)
    if len(lower) > 1 and lower in FLAGS:
        return Letter(mark=FLAGS[lower])
    return Letter(unit=letter)


def _core_value(cell: Cell, form: NumberFormat) -> float | None:
    """The number of a cell without sign, unit and factor."""
    if cell.is_clock:
        return parse_clock(pl.Series([cell.core]), form.unit)[0] if form.unit in CLOCKS else None
    if form.unit in CLOCKS and form.unit != MINUTES:
        return None
    if cell.fraction is not None and not is_rating(form.unit or ""):
        return cell.fraction
    if re.fullmatch(_number_pattern(form), cell.core) or re.fullmatch("[0-9]+", cell.core):
        text = cell.core.replace(form.thousands, "") if form.thousands is not None else cell.core
        return float(text.replace(form.decimal, "."))
    # The other decimal mark, where it cannot be a thousands separator.
    if re.fullmatch(r"[0-9]+[.,](?:[0-9]{1,2}|[0-9]{4,})", cell.core):
        return float(cell.core.replace(",", "."))
    return None


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
    whole = r"[0-9]+"
    if form.thousands is not None:
        mark = re.escape(form.thousands)
        # Groups of three, or as in India of two before the last three.
        whole = (
            rf"(?:[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+|[1-9][0-9]?(?:{mark}[0-9]{{2}})+{mark}[0-9]{{3}}|[0-9]{{1,3}})"
        )
    return rf"^[+-]?(?:{whole}(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE][+-]?[0-9]+)?$"


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
        part = share(_parse_grouped(uniques, form).is_not_null(), counts, total)
        if part > best_share:
            best, best_share = form, part
    return best, _parse_grouped(uniques, best), best_share


def _parse_grouped(texts: pl.Series, form: NumberFormat) -> pl.Series:
    """Parse numbers some of which may lack the thousands separator of the others."""
    numbers = parse_numbers(texts, form)
    return numbers if form.thousands is None else numbers.fill_null(parse_numbers(texts, replace(form, thousands=None)))


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
