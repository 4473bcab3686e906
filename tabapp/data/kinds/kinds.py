"""The kind of each column, judged by all of its values, with the reason in one sentence."""

from __future__ import annotations

import re

import msgspec

from tabapp.data.counts import Values
from tabapp.data.forms.moments import Dates, describe_format, find_dates, is_compact, number_dates, stored_dates
from tabapp.data.forms.numbers import number_format
from tabapp.data.kinds.booleans import boolean_levels, false_and_true, is_boolean
from tabapp.data.kinds.marked import find_numbers
from tabapp.data.kinds.names import looks_like_id, names_date, names_day, names_index
from tabapp.data.kinds.numeric import judge_clock, judge_marked, judge_number, marked_column
from tabapp.data.kinds.scales import order_of
from tabapp.data.kinds.verdict import show, verdict
from tabapp.data.schema import Column, Kind
from tabapp.data.small import all_contain, contains, first, words_and_characters
from tabapp.data.stored import StoredType

_FEWEST_ORDERED, _MOST_ORDERED = 3, 60
_MOST_NAMED = 3
_FEWEST_RARE, _RARE, _LEAST_WITH_DIGITS = 20, 50, 0.5
"""Levels are rare if there are at least so many, each in fewer rows than this on average."""
_LEAST_FORCED = 0.01
"""Share of dates that suffices if the user set the kind."""
_QUANTITIES = r"^[(\[]?[+-]?\d+(\.\d+)?([x×*,;][+-]?\d+(\.\d+)?)+[)\]]?$"
"""Quantities beside each other, which never identify a row: 1920x1080, (40.71,-74.01)."""
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DIGIT = re.compile(r"\d")
UNSEARCHED = "The table has too many such columns to search all of them for dates and units."


def needs_search(values: Values) -> bool:
    """Whether a short column has texts with digits that are not plain numbers, so that they may be dates or have units."""
    return any(not _PLAIN_NUMBER.fullmatch(text) and _DIGIT.search(text) is not None for text in values.distinct)


def judge(
    values: Values, forced: Kind | None = None, stored: StoredType | None = None, *, search: bool = True
) -> Column:
    """Judge what a column is.

    Args:
        search: look for units, dates and times; without, a column that `needs_search` is text or categories.
        forced: the kind that the user set, which overrules the judgment.
        stored: type of the column in a typed file, which decides unless every row is equal or the user set a kind.

    Raises:
        ValueError: the forced kind is numeric or datetime and no value can be read as such.
    """
    if forced is not None:
        return _forced(values, forced)
    column = _judge(values, stored, search=search)
    learns_texts = column.kind == "categorical" and _has_rare_composites(values)
    return msgspec.structs.replace(column, learns_texts=True) if learns_texts else column


def _judge(values: Values, stored: StoredType | None, *, search: bool) -> Column:
    n, unique = values.n_present, values.n_unique
    if n == 0:
        return verdict(values, "constant", "Empty: every cell is missing.", role_ignore=True)
    if unique == 1 and values.n_missing == 0:
        return verdict(values, "constant", f"Constant: every row is {show(values.uniques[0])}.", role_ignore=True)
    if stored is not None and (column := _judge_stored(values, stored)) is not None:
        return column
    if names_index(values.name):
        return verdict(values, "identifier", "Row labels of a pandas table.", role_ignore=True)
    if is_boolean(values):
        false, true = false_and_true(boolean_levels(values)[0])
        return verdict(values, "boolean", f"Two values: {show(true)} and {show(false)}.")
    if not search:
        column = _judge_text(values)
        reason = f"{column.reason} {UNSEARCHED}"
        return msgspec.structs.replace(column, reason=reason)
    if (numbered := _judge_numbered(values)) is not None:
        return numbered
    if values.plain is not None and (number := judge_number(values)) is not None:
        return number
    compact = unique >= 5 and is_compact(values.distinct, only_days=looks_like_id(values.name))
    if not compact and (number := judge_number(values)) is not None:
        return number
    dates = find_dates(values.distinct, values.count_array, by_name=names_date(values.name))
    if dates is not None:
        return verdict(values, "datetime", _date_reason(values, dates), support=dates.share, dates=dates)
    if compact and (number := judge_number(values)) is not None:
        return number
    return judge_clock(values) or judge_marked(values) or _judge_text(values)


def _has_rare_composites(values: Values) -> bool:
    """Whether categories have many levels with digits, each in a few rows: `G/734/S`, `Intel Core i5 2.5GHz`, `A/5 21171`."""
    if values.n_unique < _FEWEST_RARE or values.n_present >= _RARE * values.n_unique:
        return False
    with_digits = values.count_array[contains(values.uniques, "[0-9]")]
    return bool(with_digits.sum() >= _LEAST_WITH_DIGITS * values.n_present)


def _judge_stored(values: Values, stored: StoredType) -> Column | None:
    """Judge a column by its type in the file; None for dates most of which are outside of the years that can be read."""
    if stored.kind == "datetime":
        dates = stored_dates(values.distinct, values.count_array)
        if dates is None:
            return None
        reason = f"Dates stored as {stored.title}.{_end_words(dates)}"
        return verdict(values, "datetime", reason, support=dates.share, dates=dates)
    present = values.uniques.to_list()
    order: tuple[str, ...] = ()
    if _FEWEST_ORDERED <= len(present) <= _MOST_ORDERED:
        known = set(present)
        order = tuple(level for level in stored.order if level in known) or order_of(present)
    reason = f"Categories stored as {stored.title}: {values.n_unique:,} distinct among {values.n_present:,} values."
    return msgspec.structs.replace(verdict(values, "categorical", reason), order=order)


def _judge_numbered(values: Values) -> Column | None:
    """Judge timestamps and the day numbers of spreadsheets; only the name distinguishes them from other large numbers."""
    if not names_date(values.name) or (dates := number_dates(values.distinct, values.count_array)) is None:
        return None
    if dates.form == "excel" and not names_day(values.name):
        return None
    reason = f"{_date_reason(values, dates)} The name and the size of the numbers show it."
    return verdict(values, "datetime", reason, support=dates.share, dates=dates)


def _date_reason(values: Values, dates: Dates) -> str:
    share = "all" if dates.share == 1 else f"{dates.share:.1%} of"
    words, example = describe_format(dates.form), values.uniques[int(dates.moments.is_not_null().arg_max() or 0)]
    reason = f"{words[0].upper()}{words[1:]}: {share} {values.n_present:,} values, such as {show(example)}."
    if dates.zone == "UTC":
        reason += " Moments are converted to UTC."
    elif dates.zone == "mixed":
        reason += " Moments with an offset are converted to UTC; those without are taken for UTC."
    if dates.short:
        reason += " Years 70 to 99 are 1970 to 1999, and 00 to 69 are 2000 to 2069."
    if dates.rival is not None:
        reason += f" All of them also fit {dates.rival}: if that is meant, rewrite the dates as YYYY-MM-DD."
    return reason + _end_words(dates)


def _end_words(dates: Dates) -> str:
    if not dates.open_ends:
        return ""
    more = " …" if len(dates.open_ends) > _MOST_NAMED else ""
    return f" Open ends, whose dates are missing: {', '.join(map(show, dates.open_ends[:_MOST_NAMED]))}{more}."


def _judge_text(values: Values) -> Column:
    n, unique = values.n_present, values.n_unique
    words, length = words_and_characters(values.distinct)
    share = unique / n
    if unique > 50 and share > 0.1 and (words >= 3 or (length > 50 and words >= 2)):
        return verdict(values, "text", f"Text: {unique:,} distinct among {n:,} values, {words:.0f} words on average.")
    if unique == n and n >= 20:
        if words <= 1.05 and not all_contain(values.distinct, _QUANTITIES):
            reason = f"Identifier: {n:,} distinct values without spaces."
            return verdict(values, "identifier", reason, role_ignore=True)
        return verdict(values, "text", f"Text: {n:,} distinct values, {words:.1f} words on average.")
    if share > 0.9 and words <= 1.05 and n >= 20 and looks_like_id(values.name):
        reason = f"Identifier by the name: {unique:,} distinct among {n:,} values."
        return verdict(values, "identifier", reason, support=share, role_ignore=True)
    missing = f"; {values.n_missing:,} cells are missing" if values.n_missing else ""
    order = order_of(first(values.distinct, _MOST_ORDERED)) if unique <= _MOST_ORDERED else ()
    ordered = f" Ordered: {' < '.join(order[:12])}{' < …' if len(order) > 12 else ''}." if order else ""
    column = verdict(values, "categorical", f"Categories: {unique:,} distinct among {n:,} values{missing}.{ordered}")
    return msgspec.structs.replace(column, order=order)


def _forced(values: Values, kind: Kind) -> Column:
    reason = f"Set by --kind: {values.n_unique:,} distinct among {values.n_present:,} values."
    if kind == "numeric":
        form, parsed, share = number_format(values.uniques, values.counts)
        if share == 0 and (clock := judge_clock(values)) is not None:
            return msgspec.structs.replace(clock, overridden=True)
        found = find_numbers(values) if share < 1 else None
        if found is not None and found.share > share:
            marked = marked_column(values, found)
            return msgspec.structs.replace(marked, reason=reason, overridden=True)
        if share == 0:
            raise ValueError("none of its values is a number")
        return verdict(values, kind, reason, support=share, form=form, numbers=parsed, overridden=True)
    if kind == "datetime":
        dates = number_dates(values.distinct, values.count_array)
        dates = dates or find_dates(values.distinct, values.count_array, least=_LEAST_FORCED, by_name=True)
        if dates is None:
            raise ValueError("its values follow no known date format")
        reason = f"Set by --kind. {_date_reason(values, dates)}"
        return verdict(values, kind, reason, support=dates.share, dates=dates, overridden=True)
    ignored = kind in ("identifier", "constant")
    return verdict(values, kind, reason, overridden=True, role_ignore=ignored)
