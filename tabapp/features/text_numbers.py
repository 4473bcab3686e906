"""Numbers inside texts: "190Nm@ 2000rpm", "120/80", "Full HD 1920x1080", "Rated 4.7 out of 5 stars"."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.forms.numbers import NumberFormat, number_format, parse_numbers
from tabapp.features.shift import LARGEST
from tabapp.features.text import MAX_CHARACTERS

Float64 = npt.NDArray[np.float64]

MOST_NUMBERS = 4
"""Numbers of a text that are features, from its beginning on; the last number may be another."""
_LEAST_WITH, _LEAST_WITH_MORE = 0.75, 0.05
"""Shares of the texts that have so many numbers, and that have more."""
_DASH = r"([\p{L}\d)])(?:[-–—]|\s+[-–—]\s+)"
"""A dash that is no sign, because a letter or a digit is before it."""
_NUMBER = r"[-−]?\d(?:[\d.,]*\d)?"


def find_inner_numbers(texts: pl.Series) -> tuple[int, bool, NumberFormat]:
    """How many numbers most of the texts have, whether the last number is worth a feature of its own, and how they are written."""
    lists = _numbers_of(texts.drop_nulls())
    if not len(lists):
        return 0, False, NumberFormat()
    n_numbers = lists.list.len().to_numpy()
    most = max((n for n in range(1, MOST_NUMBERS + 1) if (n_numbers >= n).mean() >= _LEAST_WITH), default=0)
    if most == 0:
        return 0, False, NumberFormat()
    counted = lists.explode().drop_nulls().alias("value").value_counts(sort=True, name="count")
    form, _, _ = number_format(counted["value"], counted["count"])
    return most, bool((n_numbers > most).mean() >= _LEAST_WITH_MORE), NumberFormat(form.decimal, form.thousands)


def read_inner_numbers(texts: pl.Series, n_numbers: int, last: bool, form: NumberFormat) -> Float64:
    """The first numbers of each text, and its last one if `last`: (rows, `n_numbers` + `last`) float64, NaN where there is none."""
    lists = _numbers_of(texts)
    read = [lists.list.get(place, null_on_oob=True) for place in range(n_numbers)]
    read += [lists.list.last()] * last
    numbers = [parse_numbers(each, form).to_numpy() for each in read]
    return np.clip(np.column_stack(numbers), -LARGEST, LARGEST)


def _numbers_of(texts: pl.Series) -> pl.Series:
    """The numbers of each text, as texts."""
    return texts.str.slice(0, MAX_CHARACTERS).str.replace_all(_DASH, "${1} ").str.extract_all(_NUMBER)
