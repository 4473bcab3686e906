"""Columns of numbers: quantities, times, durations, codes and row numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl

from tabapp.data.counts import Values
from tabapp.data.forms.cells import POWER_LETTERS
from tabapp.data.forms.clock import CLOCK, CLOCKS, clock_share
from tabapp.data.forms.moments import are_timestamps
from tabapp.data.forms.numbers import EXACT_INTEGER, LEADING_ZERO, PLAIN, NumberFormat, number_format
from tabapp.data.forms.units import MAGNITUDES
from tabapp.data.kinds.booleans import is_boolean
from tabapp.data.kinds.marked import Found, find_numbers, is_convincing, with_ascii_digits, without_odd
from tabapp.data.kinds.names import looks_like_id, names_code
from tabapp.data.kinds.verdict import show, verdict
from tabapp.data.schema import FEWEST_MARKED, Column
from tabapp.data.small import all_contain, any_contains, contains
from tabapp.errors import option

_NUMBERS_AGREE = 0.95
"""Share of values that must be times for the others to be read as missing."""
_LETTERS = {
    "flags": "with letters as marks",
    "magnitude": "K, M and B as powers of ten",
    "CR": "CR as a minus sign",
    "DR": "DR as a minus sign",
    "share": "numbers without % as shares",
}
_MAX_CODES = 1_000
_EXPECTED_REPEATS = 8.0
"""Repeats that make a column of distinct integers a code. Without a reason, the chance of none is exp(-8), or 0.03 %."""
_FEWEST_CODES = 50
_CODE_DIGITS = 9
"""Measurements hardly ever have as many significant digits."""
_NEARLY_DISTINCT = 0.9
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def judge_number(values: Values) -> Column | None:
    """Judge a column whose values are numbers, codes written as numbers, or row numbers; None for any other."""
    if values.plain is not None:
        reason = f"Numbers: {values.n_unique:,} distinct among {values.n_present:,} values."
        return verdict(values, "numeric", reason)
    n, unique = values.n_present, values.n_unique
    form, parsed, share = _short_numbers(values) or number_format(values.uniques, values.counts)
    if share < 1 or _needs_marks(values, form):
        return None
    if any_contains(values.distinct, LEADING_ZERO):
        zeros = contains(values.uniques, LEADING_ZERO)
        example = show(values.uniques[int(zeros.argmax())])
        return _text_of_digits(values, f"Codes: some have leading zeros, such as {example}.")
    if form.unit is not None and form.unit.isalpha() and (unique <= 10 or _without(values, form.unit) > 0.05):
        return None
    largest = max(abs(_extreme(parsed.min())), abs(_extreme(parsed.max())))
    if largest > EXACT_INTEGER and _whole(values):
        digits = len(f"{largest:.0f}")
        return _text_of_digits(
            values, f"Codes: integers of up to {digits} digits, more than a number can hold exactly."
        )
    identifier = _number_identifier(values, parsed)
    if identifier is not None:
        return identifier
    code = _number_code(values)
    if code is not None:
        return code
    reason = f"Numbers{_format_words(form)}: {unique:,} distinct among {n:,} values."
    infinite = int(values.count_array[np.isinf(parsed.to_numpy())].sum())
    if infinite:
        reason += f" {infinite:,} are infinite or too large, and count as missing."
    return verdict(values, "numeric", reason, support=1 - infinite / n, form=form, numbers=parsed)


def _needs_marks(values: Values, form: NumberFormat) -> bool:
    """Whether the unit of a format is a power of ten, or a percent sign beside numbers that may be shares."""
    if form.unit == "%":
        return _without(values, "%") > 0
    return form.unit in POWER_LETTERS or (form.unit or "").lower() in MAGNITUDES


def judge_marked(values: Values) -> Column | None:
    """Judge a column in which only some numbers have marks or units, or some texts are no numbers; None for any other."""
    found = find_numbers(values)
    if found is None:
        return None
    plain = with_ascii_digits(values)
    other = None if plain is None else judge_number(plain)
    if other is not None and other.kind != "numeric":
        return verdict(values, other.kind, other.reason, role_ignore=other.role == "ignore")
    if (rest := without_odd(values, found)) is not None:
        # A few odd cells do not change the kind of the column.
        other = None if is_boolean(rest) else judge_number(rest) or judge_clock(rest)
        if other is not None and other.kind != "numeric":
            return verdict(values, other.kind, other.reason, support=found.share, role_ignore=other.role == "ignore")
        return None if other is None else marked_column(values, found)
    return marked_column(values, found) if is_convincing(values, found) else None


def marked_column(values: Values, found: Found) -> Column:
    """The verdict on a column as numbers with marks."""
    n, unread = values.n_present, found.numbers.is_null()
    frequent = int(values.count_array[unread.to_numpy()].max(initial=0))
    form = found.form if found.n_marked or frequent >= FEWEST_MARKED else replace(found.form, notation="open")
    how = _format_words(form)
    if found.share == 1:
        reason = f"Numbers{how}: {values.n_unique:,} distinct among {n:,} values."
    else:
        odd = ", ".join(show(text) for text in values.uniques.filter(unread).head(3))
        reason = f"Numbers{how}: {found.share:.1%} of {n:,} values; texts such as {odd} are read as missing."
    return verdict(values, "numeric", reason, support=found.share, form=form, numbers=found.numbers)


def _short_numbers(values: Values) -> tuple[NumberFormat, pl.Series, float] | None:
    """What `number_format` finds in a short column of plain numbers, in a third of the time; None for any other column."""
    distinct = values.distinct
    if not isinstance(distinct, list) or not all(map(_PLAIN_NUMBER.fullmatch, distinct)):
        return None
    return PLAIN, pl.Series("value", np.array(list(map(float, distinct)))), 1.0


def judge_clock(values: Values) -> Column | None:
    """Judge a column of times of day or durations; None for any other."""
    seconds, share, unit = clock_share(values.uniques, values.counts)
    if share < _NUMBERS_AGREE or values.n_unique < 3:
        return None
    of_day = bool((seconds.is_between(0, 86_399.999) | seconds.is_null()).all())
    short = contains(values.uniques, r"^\d{1,2}(?::\d\d|\s?[APap])").all()
    is_time = of_day and short and unit == CLOCK
    what = "Times of day, read as seconds since midnight" if is_time else "Durations, read as seconds"
    reason = f"{what}: {'all' if share == 1 else f'{share:.1%} of'} {values.n_present:,} values."
    return verdict(values, "numeric", reason, support=share, form=NumberFormat(unit=unit), numbers=seconds)


def _extreme(value: object) -> float:
    """The minimum or maximum of a column of numbers; NaN where it has none."""
    return float(value) if isinstance(value, int | float) else float("nan")


def _without(values: Values, unit: str) -> float:
    lacking = ~contains(values.uniques, re.escape(unit))
    return float(values.count_array[lacking].sum()) / values.n_present


def _format_words(form: NumberFormat) -> str:
    words: list[str] = []
    if form.unit in CLOCKS:
        words.append("as seconds")
    elif form.unit:
        words.append(f"with {form.unit!r}")
    if form.thousands:
        words.append(f"thousands separated by {form.thousands!r}")
    if form.decimal != ".":
        words.append("decimal comma")
    if (letters := _LETTERS.get(form.notation)) is not None:
        words.append(letters)
    return f" ({', '.join(words)})" if words else ""


def _whole(values: Values) -> bool:
    integer = r"^[+-]?\d+$"
    return all_contain(values.distinct[:1000], integer) and all_contain(values.distinct, integer)


def _number_code(values: Values) -> Column | None:
    """Judge whole numbers whose name implies labels, such as types, regions or occupations; None for any other."""
    n, unique = values.n_present, values.n_unique
    if not 3 <= unique <= min(_MAX_CODES, n // 2) or not names_code(values.name) or not _whole(values):
        return None
    reason = (
        f"Codes by the name: {unique:,} distinct whole numbers. {option('kind', {values.name: 'numeric'})} makes them a "
        "quantity."
    )
    return verdict(values, "categorical", reason)


def _number_identifier(values: Values, parsed: pl.Series) -> Column | None:
    """Judge integers that identify rows; None for any other, and for all floats.

    They are row numbers if they are consecutive, and identifiers if they are (nearly) distinct and either the name implies it,
    or they have more digits than a measurement, or so many integers in their range would repeat if they were measured.
    """
    n, unique = values.n_present, values.n_unique
    if n < 3 or unique < _NEARLY_DISTINCT * n or not _whole(values):
        return None
    low, high = _extreme(parsed.min()), _extreme(parsed.max())
    among = "" if unique == n else f" among {n:,} values"
    if unique == n and high - low + 1 == n:
        reason = f"Row number: {n:,} distinct integers from {low:.0f} to {high:.0f}."
    elif looks_like_id(values.name):
        reason = f"Identifier by the name: {unique:,} distinct integers{among}."
    elif n < _FEWEST_CODES:
        return None
    elif unique == n and n * n / (2 * (high - low + 1)) >= _EXPECTED_REPEATS:
        # The birthday problem: n values drawn evenly from a range have n² / 2 range repeats; from any other distribution, more.
        reason = f"Identifier: {n:,} distinct integers from {low:.0f} to {high:.0f}, where measurements would repeat."
    elif low >= 10 ** (_CODE_DIGITS - 1) and not are_timestamps(values.uniques) and _not_round(values):
        reason = f"Identifier: {unique:,} distinct integers of {_digits(low, high)} digits{among}."
    else:
        return None
    return verdict(values, "identifier", reason, support=unique / n, role_ignore=True)


def _not_round(values: Values) -> bool:
    """Whether about a tenth of the integers at most end in 0, as those of codes do."""
    return int(contains(values.uniques, "0$").sum()) < 0.2 * len(values.uniques)


def _digits(low: float, high: float) -> str:
    fewest, most = len(f"{low:.0f}"), len(f"{high:.0f}")
    return f"{fewest}" if fewest == most else f"{fewest} to {most}"


def _text_of_digits(values: Values, why: str) -> Column:
    n, unique = values.n_present, values.n_unique
    if unique == n and n >= 20:
        return verdict(values, "identifier", f"{why} All {n:,} are distinct.", role_ignore=True)
    return verdict(values, "categorical", why)
