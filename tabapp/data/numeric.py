"""Columns of numbers: quantities, times and durations, and those whose numbers are codes or name the rows."""

from __future__ import annotations

import polars as pl

from tabapp.data.counts import Values
from tabapp.data.names import looks_like_id, says_code
from tabapp.data.schema import Column
from tabapp.data.values import CLOCK, EXACT_INTEGER, LEADING_ZERO, NumberFormat, clock_share, number_format
from tabapp.data.verdict import show, verdict

_NUMBERS_AGREE = 0.95
"""Share of values that must be numbers for the rest to be taken for further missing spellings rather than levels."""
_MAX_OUTSIDERS = 5
_MAX_CODES = 1_000


def judge_number(values: Values) -> Column | None:
    """A column whose values are numbers, or whole numbers that stand for something else; None for any other."""
    if values.plain is not None:
        reason = f"All {values.n_present:,} values are numbers, {values.n_unique:,} of them distinct."
        return verdict(values, "numeric", reason)
    n, unique = values.n_present, values.n_unique
    form, parsed, share = number_format(values.uniques, values.counts)
    if share < _NUMBERS_AGREE:
        return None
    zeros = values.uniques.filter(values.uniques.str.contains(LEADING_ZERO))
    if len(zeros):
        return _text_of_digits(values, f"Some numbers begin with zeros, such as {show(zeros[0])}, so they are codes.")
    if share < 1:
        outsiders = values.uniques.filter(parsed.is_null())
        if len(outsiders) > _MAX_OUTSIDERS or unique - len(outsiders) < 20:
            return None
    if form.unit is not None and form.unit.isalpha() and (unique <= 10 or _without(values, form.unit) > 0.05):
        return None
    largest = _extreme(parsed.abs().max())
    if largest > EXACT_INTEGER and _whole(values):
        digits = len(f"{largest:.0f}")
        return _text_of_digits(values, f"Its integers have up to {digits} digits, more than a number keeps exactly.")
    identifier = _number_identifier(values, parsed)
    if identifier is not None:
        return identifier
    code = _number_code(values)
    if code is not None:
        return code
    how = _format_words(form)
    if share == 1:
        reason = f"All {n:,} values are numbers{how}, {unique:,} of them distinct."
    else:
        odd = ", ".join(show(text) for text in values.uniques.filter(parsed.is_null()).head(3))
        reason = f"{share:.1%} of {n:,} values are numbers{how}; {odd} and the like are read as missing."
    infinite = int(values.counts.filter(parsed.is_infinite().fill_null(False)).sum() or 0)
    if infinite:
        reason += f" {infinite:,} are infinite or too large for a number and count as missing."
    return verdict(values, "numeric", reason, support=share, form=form, numbers=parsed)


def judge_clock(values: Values) -> Column | None:
    """A column of times of day or durations."""
    seconds, share = clock_share(values.uniques, values.counts)
    if share < _NUMBERS_AGREE or values.n_unique < 3:
        return None
    of_day = bool((seconds.is_between(0, 86_399.999) | seconds.is_null()).all())
    short = values.uniques.str.contains(r"^\d{1,2}:\d\d").mean() == 1
    what = "times of day, read as seconds since midnight" if of_day and short else "durations, read as seconds"
    who = "All" if share == 1 else f"{share:.1%} of"
    reason = f"{who} {values.n_present:,} values are {what}."
    return verdict(values, "numeric", reason, support=share, form=NumberFormat(unit=CLOCK), numbers=seconds)


def _extreme(value: object) -> float:
    """The minimum or maximum of a column of numbers; NaN where it has none."""
    return float(value) if isinstance(value, int | float) else float("nan")


def _without(values: Values, unit: str) -> float:
    lacking = ~values.uniques.str.contains(unit, literal=True)
    return float(values.counts.filter(lacking).sum() or 0) / values.n_present


def _format_words(form: NumberFormat) -> str:
    words: list[str] = []
    if form.unit:
        words.append(f"with {form.unit!r}")
    if form.thousands:
        words.append(f"thousands separated by {form.thousands!r}")
    if form.decimal != ".":
        words.append("with a decimal comma")
    return f" ({', '.join(words)})" if words else ""


def _whole(values: Values) -> bool:
    integer = r"^[+-]?\d+$"
    return bool(values.uniques.head(1000).str.contains(integer).all()) and bool(
        values.uniques.str.contains(integer).all()
    )


def _number_code(values: Values) -> Column | None:
    """Whole numbers under a name of things that have no order: types, regions, occupations."""
    n, unique = values.n_present, values.n_unique
    if not 3 <= unique <= min(_MAX_CODES, n // 2) or not says_code(values.name) or not _whole(values):
        return None
    reason = (
        f"Its {unique:,} whole numbers are codes by its name; --kind {values.name}=numeric takes them for a quantity."
    )
    return verdict(values, "categorical", reason)


def _number_identifier(values: Values, parsed: pl.Series) -> Column | None:
    """Integers that number the rows: consecutive, or (nearly) all different under a name that says so. Never floats."""
    n, unique = values.n_present, values.n_unique
    if n < 3 or unique < 0.9 * n or not _whole(values):
        return None
    low, high = _extreme(parsed.min()), _extreme(parsed.max())
    named = looks_like_id(values.name)
    if unique == n and high - low + 1 == n:
        reason = f"Its {n:,} integers are all different and run from {low:.0f} to {high:.0f}: they number the rows."
    elif named and unique == n:
        reason = f"Its name says so, and its {n:,} integers are all different."
    elif named:
        reason = f"Its name says so, and {unique:,} of its {n:,} integers are different."
    else:
        return None
    return verdict(values, "identifier", reason, support=unique / n, role_ignore=True)


def _text_of_digits(values: Values, why: str) -> Column:
    n, unique = values.n_present, values.n_unique
    if unique == n and n >= 20:
        return verdict(values, "identifier", f"{why} All {n:,} are different.", role_ignore=True)
    return verdict(values, "categorical", why)
