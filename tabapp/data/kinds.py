"""What each column is: its values counted once, then judged as a whole, with a sentence that says why."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl

from tabapp.data.names import looks_like_id, says_code, says_moment
from tabapp.data.scales import order_of
from tabapp.data.schema import Column, Kind
from tabapp.data.values import (
    CLOCK,
    LEADING_ZERO,
    PLAIN,
    DateFormat,
    NumberFormat,
    clock_share,
    date_format,
    epoch_format,
    is_missing,
    number_format,
    parse_dates,
    strip,
)

MAX_LEVELS = 10_000
_NUMBERS_AGREE = 0.95
"""Share of values that must be numbers for the rest to be taken for further missing spellings rather than levels."""
_MAX_OUTSIDERS = 5
_EXACT_INTEGER = 2**53

TRUE_SPELLINGS = frozenset({"1", "1.0", "true", "t", "yes", "y", "on"})
FALSE_SPELLINGS = frozenset({"0", "0.0", "false", "f", "no", "n", "off"})
_BOOLEAN_PAIRS = (
    {"1", "0"}, {"1.0", "0.0"}, {"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"}, {"on", "off"},
)  # fmt: skip
_MAX_BOOLEAN_SPELLINGS = 6
_MAX_CODES = 1_000
_MOST_ORDERED = 60


@dataclass(frozen=True)
class Values:
    """A column's distinct non-missing values with their counts, the most frequent first, then in the order of the file.

    Attributes:
        texts: the whole column stripped; null where missing.
        uniques, counts: distinct values, and how often each occurs.
        missing_spellings: texts that were read as missing, as found.
    """

    name: str
    texts: pl.Series
    uniques: pl.Series
    counts: pl.Series
    missing_spellings: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        return len(self.texts)

    @property
    def n_present(self) -> int:
        return int(self.counts.sum() or 0)

    @property
    def n_missing(self) -> int:
        return self.n_rows - self.n_present


def count_values(column: pl.Series, null: Collection[str] = (), keep: Collection[str] = ()) -> Values:
    """Strip a text column, set its missing cells to null, and count the rest.

    Args:
        null: further spellings of a missing cell.
        keep: missing spellings, in lower case, that are values in this column.
    """
    texts = strip(column)
    # In the order of the file, so that equally frequent values are told apart the same way in every run.
    table = texts.alias("value").drop_nulls().to_frame().group_by("value", maintain_order=True).len("count")
    table = table.sort("count", descending=True, maintain_order=True)
    uniques, counts = table["value"], table["count"]
    kept = set(keep)
    if uniques.is_in(["+"]).any():
        kept.add("-")
    levels: list[str] = uniques.filter(uniques.str.to_lowercase().is_in(list(kept))).to_list() if kept else []
    gone = is_missing(uniques, levels, [spelling.strip() for spelling in null])
    spellings = tuple(sorted(uniques.filter(gone).to_list()))
    if spellings:
        texts = texts.set(texts.is_in(list(spellings)).fill_null(False), None)
        uniques, counts = uniques.filter(~gone), counts.filter(~gone)
    return Values(column.name, texts, uniques, counts, spellings)


def judge(values: Values, forced: Kind | None = None) -> Column:
    """Decide what a column is.

    Args:
        forced: the kind the user gave, which is taken as it is.

    Raises:
        ValueError: no date format or no number fits a forced kind.
    """
    if forced is not None:
        return _forced(values, forced)
    n, unique = values.n_present, len(values.uniques)
    if n == 0:
        return _column(values, "constant", "Every cell is missing.", role_ignore=True)
    if unique == 1 and values.n_missing == 0:
        return _column(values, "constant", f"Every row says {_show(values.uniques[0])}.", role_ignore=True)
    if unique <= _MAX_BOOLEAN_SPELLINGS and {str(value).casefold() for value in values.uniques} in _BOOLEAN_PAIRS:
        false, true = false_and_true(_boolean_levels(values)[0])
        return _column(values, "boolean", f"It says only {_show(true)} and {_show(false)}.")
    if (epoch := _judge_epoch(values)) is not None:
        return epoch
    compact = unique >= 5 and bool(values.uniques.head(1000).str.contains(r"^(19|20)\d{6}$").all())
    if not compact and (number := _judge_number(values)) is not None:
        return number
    dates = date_format(values.uniques, values.counts)
    if dates is not None:
        return _date_column(values, dates)
    if compact and (number := _judge_number(values)) is not None:
        return number
    return _judge_clock(values) or _judge_text(values)


def _judge_epoch(values: Values) -> Column | None:
    """Moments counted since 1970, which are told from other large integers by the column's name."""
    if not says_moment(values.name) or (form := epoch_format(values.uniques)) is None:
        return None
    what = {"epoch s": "seconds", "epoch ms": "milliseconds", "epoch us": "microseconds"}[form]
    reason = (
        f"Its name says that it is a time, and all {values.n_present:,} values are {what} since 1970 by their size."
    )
    return _column(values, "datetime", reason, dates=form)


def _judge_clock(values: Values) -> Column | None:
    seconds, share = clock_share(values.uniques, values.counts)
    if share < _NUMBERS_AGREE or len(values.uniques) < 3:
        return None
    of_day = bool((seconds.is_between(0, 86_399.999) | seconds.is_null()).all())
    short = values.uniques.str.contains(r"^\d{1,2}:\d\d").mean() == 1
    what = "times of day, read as seconds since midnight" if of_day and short else "durations, read as seconds"
    who = "All" if share == 1 else f"{share:.1%} of"
    reason = f"{who} {values.n_present:,} values are {what}."
    return _column(values, "numeric", reason, support=share, form=NumberFormat(unit=CLOCK), numbers=seconds)


def false_and_true(levels: Sequence[str]) -> tuple[str, str]:
    """The two levels of a boolean column, the false one first; of spellings that are not known, the last by name is true."""
    known = sorted(levels, key=lambda level: (_truth(level), level))
    return known[0], known[-1]


def _truth(level: str) -> int:
    """-1 for a spelling of false, 1 for one of true, 0 for any other."""
    folded = level.casefold()
    return (folded in TRUE_SPELLINGS) - (folded in FALSE_SPELLINGS)


def _boolean_levels(values: Values) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The two values of a boolean column with their counts; Yes, YES and yes are one, spelled as it is most often."""
    spelling: dict[str, str] = {}
    counts: dict[str, int] = {}
    for text, count in zip(values.uniques.to_list(), values.counts.to_list(), strict=True):
        level = spelling.setdefault(text.casefold(), text)
        counts[level] = counts.get(level, 0) + count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(level for level, _ in ordered), tuple(count for _, count in ordered)


def _judge_number(values: Values) -> Column | None:
    n, unique = values.n_present, len(values.uniques)
    form, parsed, share = number_format(values.uniques, values.counts)
    if share < _NUMBERS_AGREE:
        return None
    zeros = values.uniques.filter(values.uniques.str.contains(LEADING_ZERO))
    if len(zeros):
        return _text_of_digits(values, f"Some numbers begin with zeros, such as {_show(zeros[0])}, so they are codes.")
    if share < 1:
        outsiders = values.uniques.filter(parsed.is_null())
        if len(outsiders) > _MAX_OUTSIDERS or unique - len(outsiders) < 20:
            return None
    if form.unit is not None and form.unit.isalpha() and (unique <= 10 or _without(values, form.unit) > 0.05):
        return None
    largest = _extreme(parsed.abs().max())
    if largest > _EXACT_INTEGER and _whole(values):
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
        odd = ", ".join(_show(text) for text in values.uniques.filter(parsed.is_null()).head(3))
        reason = f"{share:.1%} of {n:,} values are numbers{how}; {odd} and the like are read as missing."
    infinite = int(values.counts.filter(parsed.is_infinite().fill_null(False)).sum() or 0)
    if infinite:
        reason += f" {infinite:,} are infinite or too large for a number and count as missing."
    return _column(values, "numeric", reason, support=share, form=form, numbers=parsed)


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
    n, unique = values.n_present, len(values.uniques)
    if not 3 <= unique <= min(_MAX_CODES, n // 2) or not says_code(values.name) or not _whole(values):
        return None
    reason = (
        f"Its {unique:,} whole numbers are codes by its name; --kind {values.name}=numeric takes them for a quantity."
    )
    return _column(values, "categorical", reason)


def _number_identifier(values: Values, parsed: pl.Series) -> Column | None:
    """Integers that number the rows: consecutive, or (nearly) all different under a name that says so. Never floats."""
    n, unique = values.n_present, len(values.uniques)
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
    return _column(values, "identifier", reason, support=unique / n, role_ignore=True)


def _text_of_digits(values: Values, why: str) -> Column:
    n, unique = values.n_present, len(values.uniques)
    if unique == n and n >= 20:
        return _column(values, "identifier", f"{why} All {n:,} are different.", role_ignore=True)
    return _column(values, "categorical", why)


def _date_column(values: Values, dates: DateFormat) -> Column:
    n = values.n_present
    share = "All" if dates.share == 1 else f"{dates.share:.1%} of"
    reason = f"{share} {n:,} values are dates written as {dates.form.replace('%.f', '')}."
    first = {"%m": "the month", "%d": "the day"}.get(dates.form[:2])
    if first is not None and dates.form[3:5] in ("%m", "%d"):
        reason += f" {first[0].upper()}{first[1:]} comes first" + (
            "." if dates.rival else ", as only so all of them are dates."
        )
    if dates.rival is not None:
        reason += f" {dates.rival} would read them just as well: give --kind or rewrite the dates if that is meant."
    return _column(values, "datetime", reason, support=dates.share, dates=dates.form)


def _judge_text(values: Values) -> Column:
    n, unique = values.n_present, len(values.uniques)
    sample = values.uniques.head(5000)
    words = float(sample.str.count_matches(r"\S+").to_numpy().mean())
    length = float(sample.str.len_chars().to_numpy().mean())
    share = unique / n
    if unique > 50 and share > 0.1 and (words >= 3 or (length > 50 and words >= 2)):
        return _column(values, "text", f"{unique:,} of {n:,} values are different, {words:.0f} words long on average.")
    if unique == n and n >= 20:
        if words <= 1.05:
            reason = f"All {n:,} values are different and have no spaces, so they name the rows."
            return _column(values, "identifier", reason, role_ignore=True)
        return _column(values, "text", f"All {n:,} values are different, {words:.1f} words long on average.")
    if share > 0.9 and words <= 1.05 and n >= 20 and looks_like_id(values.name):
        reason = f"Its name says so, and {unique:,} of its {n:,} values are different."
        return _column(values, "identifier", reason, support=share, role_ignore=True)
    missing = f"; {values.n_missing:,} cells are missing" if values.n_missing else ""
    order = order_of(values.uniques.head(_MOST_ORDERED).to_list()) if unique <= _MOST_ORDERED else ()
    ordered = f" They have an order: {' < '.join(order[:12])}{' < …' if len(order) > 12 else ''}." if order else ""
    column = _column(values, "categorical", f"{unique:,} different texts in {n:,} values{missing}.{ordered}")
    return msgspec.structs.replace(column, order=order)


def _forced(values: Values, kind: Kind) -> Column:
    reason = f"Given by the user ({len(values.uniques):,} different values in {values.n_present:,})."
    if kind == "numeric":
        form, parsed, share = number_format(values.uniques, values.counts)
        if share == 0 and (clock := _judge_clock(values)) is not None:
            return msgspec.structs.replace(clock, overridden=True)
        if share == 0:
            raise ValueError("none of its values is a number")
        return _column(values, kind, reason, support=share, form=form, numbers=parsed, overridden=True)
    if kind == "datetime":
        epoch = epoch_format(values.uniques)
        dates = DateFormat(epoch, 1.0) if epoch else date_format(values.uniques, values.counts)
        if dates is None:
            raise ValueError("its values follow no date format that is known")
        return _column(values, kind, reason, support=dates.share, dates=dates.form, overridden=True)
    ignored = kind in ("identifier", "constant")
    return _column(values, kind, reason, overridden=True, role_ignore=ignored)


def _show(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _column(
    values: Values,
    kind: Kind,
    reason: str,
    *,
    support: float = 1.0,
    form: NumberFormat = PLAIN,
    numbers: pl.Series | None = None,
    dates: str | None = None,
    role_ignore: bool = False,
    overridden: bool = False,
) -> Column:
    """A verdict with the facts that screens show: range, levels and a histogram."""
    levels: tuple[str, ...] = ()
    level_counts: tuple[int, ...] = ()
    low = high = None
    low_text = high_text = None
    histogram: tuple[int, ...] = tuple(values.counts.head(10).to_list())
    unique = len(values.uniques)
    if kind == "boolean":
        levels, level_counts = _boolean_levels(values)
        unique, histogram = len(levels), level_counts
    elif kind == "categorical":
        levels = tuple(values.uniques.head(MAX_LEVELS).to_list())
        level_counts = tuple(values.counts.head(MAX_LEVELS).to_list())
    elif numbers is not None:
        low, high, histogram = _range(numbers, values.counts)
    elif kind == "datetime" and dates is not None:
        parsed = parse_dates(values.uniques, dates)
        _, _, histogram = _range(parsed.dt.epoch("us").cast(pl.Float64), values.counts)
        known = parsed.drop_nulls()
        if len(known):
            ordered = known.sort().dt.to_string("%Y-%m-%dT%H:%M:%S")
            low_text, high_text = str(ordered[0]), str(ordered[-1])
    elif kind in ("text", "identifier"):
        histogram = ()
    return Column(
        name=values.name,
        kind=kind,
        role="ignore" if role_ignore else "feature",
        reason=reason,
        support=round(support, 6),
        missing=values.n_missing,
        unique=unique,
        missing_spellings=values.missing_spellings,
        levels=levels,
        level_counts=level_counts,
        low=low,
        high=high,
        low_text=low_text,
        high_text=high_text,
        histogram=histogram,
        datetime_format=dates,
        decimal=form.decimal,
        thousands=form.thousands,
        unit=form.unit,
        overridden=overridden,
    )


def _range(numbers: pl.Series, counts: pl.Series) -> tuple[float | None, float | None, tuple[int, ...]]:
    finite = numbers.is_finite().fill_null(False)
    if not finite.any():
        return None, None, ()
    array = numbers.filter(finite).to_numpy()
    low, high = float(array.min()), float(array.max())
    with np.errstate(over="ignore"):
        spread = high - low
    if not np.isfinite(spread) or spread == 0:
        return low, high, (int(counts.filter(finite).sum() or 0),)
    scaled = np.minimum((array - low) / spread * 10, 9).astype(np.int64)
    bins = np.bincount(scaled, weights=counts.filter(finite).to_numpy(), minlength=10)
    return low, high, tuple(int(count) for count in bins)
