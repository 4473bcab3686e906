"""A verdict on a column, with the facts that screens show next to it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.counts import Values, quartiles_of, spread
from tabapp.data.forms.missing import show as show
from tabapp.data.forms.moments import Dates
from tabapp.data.forms.numbers import PLAIN, NumberFormat
from tabapp.data.kinds.booleans import boolean_levels
from tabapp.data.schema import Column, Kind
from tabapp.data.small import first

_MAX_LEVELS = 10_000


def verdict(
    values: Values,
    kind: Kind,
    reason: str,
    *,
    support: float = 1.0,
    form: NumberFormat = PLAIN,
    numbers: pl.Series | None = None,
    dates: Dates | None = None,
    role_ignore: bool = False,
    overridden: bool = False,
) -> Column:
    """Build a `Column` with its range, levels and histogram."""
    levels: tuple[str, ...] = ()
    level_counts: tuple[int, ...] = ()
    low = high = None
    low_text = high_text = None
    quartiles: tuple[float, ...] = ()
    histogram: tuple[int, ...] = ()
    unique = values.n_unique
    if kind == "numeric" and values.plain is not None:
        plain = values.plain
        low, high, quartiles, histogram = plain.low, plain.high, plain.quartiles, plain.histogram
    elif kind == "boolean":
        levels, level_counts = boolean_levels(values)
        unique, histogram = len(levels), level_counts
    elif kind == "categorical":
        levels = tuple(first(values.distinct, _MAX_LEVELS))
        level_counts = tuple(values.first_counts(_MAX_LEVELS))
        histogram = level_counts[:10]
    elif numbers is not None:
        low, high, quartiles, histogram = _range(numbers, values.count_array)
    elif kind == "datetime" and dates is not None:
        _, _, _, histogram = _range(dates.moments.dt.epoch("us").cast(pl.Float64), values.count_array)
        known = dates.moments.drop_nulls()
        if len(known):
            ordered = known.sort().dt.to_string("%Y-%m-%dT%H:%M:%S")
            low_text, high_text = str(ordered[0]), str(ordered[-1])
    elif kind == "constant":
        histogram = tuple(values.first_counts(10))
    return Column(
        name=values.name,
        kind=kind,
        role="ignore" if role_ignore else "feature",
        reason=reason,
        support=round(support, 6),
        missing=values.n_missing,
        unique=unique,
        missing_spellings=values.missing_spellings,
        missing_counts=values.missing_counts,
        kept_spellings=tuple(values.kept),
        levels=levels,
        level_counts=level_counts,
        low=low,
        high=high,
        low_text=low_text,
        high_text=high_text,
        quartiles=quartiles,
        histogram=histogram,
        datetime_format=None if dates is None else dates.form,
        zone=None if dates is None else dates.zone,
        open_ends=() if dates is None else dates.open_ends,
        decimal=form.decimal,
        thousands=form.thousands,
        unit=form.unit,
        notation="open" if kind == "numeric" and form.notation == "exact" else form.notation,
        overridden=overridden,
    )


def _range(
    numbers: pl.Series, counts: npt.NDArray[np.integer]
) -> tuple[float | None, float | None, tuple[float, ...], tuple[int, ...]]:
    """The range, the quartiles and the histogram of the finite ones of distinct numbers."""
    known = numbers.to_numpy()
    finite = np.isfinite(known)
    if not finite.any():
        return None, None, (), ()
    known, counts = known[finite], counts[finite]
    order = np.argsort(known)
    low, high, histogram = spread(known, counts)
    return low, high, quartiles_of(known[order], counts[order]), histogram
