"""Decide with which decimal mark the numbers of a file are written, where it may not be that of training.

512.250 is a half thousand with a decimal point, and half a million with a point between thousands. Where a column can be read both
ways, the range of training decides, then the other columns of the file; otherwise it is read as in training, and a note says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import polars as pl

from tabapp.data.columns import column_of
from tabapp.data.forms.clock import CLOCKS
from tabapp.data.forms.missing import missing_cells, strip
from tabapp.data.new_rows.ranges import Numbers, power_of_ten, training_quartiles
from tabapp.data.schema import Column
from tabapp.data.small import FEW
from tabapp.data.typed import typed_column
from tabapp.errors import option

MARKS = (".", ",")
AUTO = "auto"
"""The decimal mark of a text file for which the user has given none."""

_AGREE = 0.95
"""Share of the cells that a format must read, and of the numbers that must be in the training range, for it to fit."""
_SEPARATORS: Mapping[str, Sequence[str | None]] = {".": (None, ",", " ", "'"), ",": (None, ".", " ")}

_LENIENT = ("open", "marks", "flags")
"""Notations in which some cells are numbers with either decimal mark."""

_SEPARATED = r"[0-9][.,' \x{a0}\x{202f}][0-9]"

Verdict = Literal["own", "other", "same", "either", "neither"]


@dataclass(frozen=True)
class Reading:
    """Cells of a column read in one format.

    Attributes:
        column: with the marks of the format.
        cells: the cells that are not missing.
        numbers: null where a cell is not a number.
        reads: whether nearly all cells are numbers.
        fits: whether nearly all numbers are on the scale of training; `strays`: whether they are evidently not.
    """

    column: Column
    cells: pl.Series
    numbers: pl.Series
    reads: bool
    fits: bool
    strays: bool


@dataclass(frozen=True)
class Formats:
    """The columns of a file that are not read as in training, and the notes on columns, as predicates; by name."""

    columns: dict[str, Column]
    notes: dict[str, str]


def has_decimal_mark(column: Column) -> bool:
    """Whether the cells of a column are numbers that may have a decimal mark."""
    return column.kind == "numeric" and column.unit not in CLOCKS and column.role != "ignore"


def given_formats(frame: pl.DataFrame, columns: Iterable[Column], decimal: str) -> Formats:
    """The formats of columns in a file with the given decimal mark."""
    found: dict[str, Column] = {}
    for column in columns:
        reading = _best(_cells(column_of(frame, column.name), column), column, decimal)
        if reading.column != column:
            found[column.name] = reading.column
    return Formats(found, {})


def detected_formats(frame: pl.DataFrame, columns: Sequence[Column], typed: pl.DataFrame) -> Formats:
    """The formats of columns in a file whose decimal mark is not given.

    Args:
        frame: the cells as text.
        columns: those of `has_decimal_mark` that the file has.
        typed: the columns as they are read in the formats of training.
    """
    found = Formats({}, {})
    doubtful: list[tuple[Reading, Reading]] = []
    seen: set[str] = set()
    has_other = has_own = False
    for column in columns:
        texts = column_of(frame, column.name)
        if not _is_suspect(texts, column_of(typed, column.name), column):
            continue
        seen.add(column.name)
        own, other, verdict = _both(texts, column)
        has_other, has_own = has_other or verdict == "other", has_own or verdict == "own"
        if verdict == "either":
            doubtful.append((own, other))
        elif verdict == "other":
            found.columns[column.name] = other.column
            found.notes[column.name] = _changed(own, other)
        elif verdict in ("own", "same") and own.column != column:
            # Other marks between thousands change no number.
            found.columns[column.name] = own.column
    if not doubtful and not has_other:
        return found
    for column in columns:
        if column.name in seen:
            continue
        own, other, verdict = _both(column_of(frame, column.name), column)
        has_own = has_own or verdict == "own"
        if verdict == "either" and has_other:
            doubtful.append((own, other))
    for own, other in doubtful:
        name = own.column.name
        if has_other and not has_own:
            found.columns[name] = other.column
            found.notes[name] = _changed(own, other)
            continue
        if own.column not in columns:
            found.columns[name] = own.column
        if not has_own or own.strays:
            found.notes[name] = _undecided(own, other)
    return found


def _cells(texts: pl.Series, column: Column) -> pl.Series:
    """The cells of a column that are not missing, at most `FEW`, evenly spaced."""
    texts = strip(texts[:: max(1, len(texts) // FEW)])
    return texts.filter(~missing_cells(texts, column))


def _is_suspect(texts: pl.Series, numbers: pl.Series, column: Column) -> bool:
    """Whether a column may be written in another format than in training."""
    if numbers.null_count() > texts.null_count():
        lost = _cells(texts.filter(numbers.is_null() & texts.is_not_null()), column)
        if lost.str.contains(_SEPARATED).any():
            return True
    tally = _tally(numbers, texts, column)
    if tally is not None and (tally.is_strange() or power_of_ten(tally.sample, column)):
        return True
    return column.thousands in MARKS and _lacks_fractions(_cells(texts, column), column)


def _exact(column: Column) -> Column:
    """The column without what may be beside its numbers, and without cells that are read with either mark."""
    return msgspec.structs.replace(column, notation="exact") if column.notation in _LENIENT else column


def _written_exactly(cells: pl.Series, column: Column) -> pl.Series:
    """The cells that are numbers with one of the decimal marks and nothing beside them."""
    pattern = r"^[+-]?[0-9][0-9.,' \x{a0}\x{202f}]*$" if column.unit is None else r"[0-9]"
    return cells.filter(cells.str.contains(pattern))


def _lacks_fractions(cells: pl.Series, column: Column) -> bool:
    """Whether there are marks between thousands and no decimal mark, although training had fractions."""
    known = (*training_quartiles(column), column.low or 0.0, column.high or 0.0)
    if column.thousands is None or not len(cells) or any(number == int(number) for number in known):
        return False
    has_thousands = cells.str.contains(column.thousands, literal=True).any()
    return bool(has_thousands) and not cells.str.contains(column.decimal, literal=True).any()


def _both(texts: pl.Series, column: Column) -> tuple[Reading, Reading, Verdict]:
    """A column read with the decimal mark of training and with the other one, and which of them is right."""
    cells = _written_exactly(_cells(texts, column), column)
    own = _best(cells, column, column.decimal)
    other = _best(cells, column, MARKS[column.decimal == "."])
    if own.reads != other.reads or not own.reads:
        return own, other, "own" if own.reads else "other" if other.reads else "neither"
    if (own.numbers == other.numbers).all():
        return own, other, "same"
    if own.strays and other.strays:
        return own, other, "neither"
    if other.fits and own.strays:
        return own, other, "other"
    return own, other, "own" if own.fits and not other.fits else "either"


def _best(cells: pl.Series, column: Column, decimal: str) -> Reading:
    """The reading with a decimal mark that reads most cells; the one with the separator of training if several do."""
    separators = sorted(_SEPARATORS[decimal], key=lambda mark: mark != column.thousands)
    if decimal == column.decimal and column.thousands not in separators:
        separators = [column.thousands, *separators]
    best: tuple[int, Column, pl.Series] | None = None
    for thousands in separators:
        changed = msgspec.structs.replace(column, decimal=decimal, thousands=thousands)
        numbers = typed_column(cells, _exact(changed))
        n_read = len(numbers) - numbers.null_count()
        if best is None or n_read > best[0]:
            best = n_read, changed, numbers
        if n_read == len(cells):
            break
    assert best is not None, "a decimal mark has separators"
    n_read, changed, numbers = best
    tally = _tally(numbers, cells, column)
    strays = tally is not None and (tally.is_strange() or power_of_ten(tally.sample, column) != 0)
    inside = tally is None or tally.outside <= (1 - _AGREE) * tally.count
    return Reading(changed, cells, numbers, n_read >= _AGREE * len(cells), inside and not strays, strays)


def _tally(numbers: pl.Series, texts: pl.Series, column: Column) -> Numbers | None:
    """The numbers compared with the range of training; None if that is not known."""
    if column.low is None or column.high is None:
        return None
    tally = Numbers()
    tally.add(numbers.to_numpy().astype(np.float64, copy=False), column.low, column.high, texts)
    return tally


def _changed(own: Reading, other: Reading) -> str:
    """The note on a column that is read with another decimal mark than in training."""
    cell, _, number = _example(own, other)
    return (
        f"is written with another decimal mark than in training: {cell!r} is read as {number:.12g}. Give "
        f"{option('decimal', own.column.decimal)} if the mark is {own.column.decimal!r}"
    )


def _undecided(own: Reading, other: Reading) -> str:
    """The note on a column that fits training with either decimal mark."""
    cell, first, second = _example(own, other)
    return (
        f"can be read with either decimal mark: {cell!r} is read as {first:.12g}, as in training, and may mean {second:.12g}. Give "
        f"{option('decimal', other.column.decimal)} if it does"
    )


def _example(own: Reading, other: Reading) -> tuple[str, float | None, float]:
    """A cell whose value differs between two readings, and both values."""
    differs = (own.numbers != other.numbers).fill_null(True) & other.numbers.is_not_null()
    place = int(differs.arg_true()[0])
    return own.cells[place], own.numbers[place], other.numbers[place]
