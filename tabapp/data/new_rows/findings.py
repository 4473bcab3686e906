"""What is found about a column of new rows, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import msgspec
import numpy as np
import polars as pl

from tabapp.data.new_rows.levels import MANY_LEVELS, Levels
from tabapp.data.new_rows.ranges import (
    FEW,
    MOSTLY,
    Float64,
    Numbers,
    likely_cause,
    power_of_ten,
)
from tabapp.data.schema import Column

Kind = Literal["missing", "changed", "range", "unseen", "format", "spelling", "cells", "extra", "target"]
ORDER: tuple[Kind, ...] = (
    "missing", "changed", "range", "unseen", "format", "spelling", "cells", "extra", "target",
)  # fmt: skip
"""The kinds of findings, the most severe first."""

_SHOWN = 3
_MISTYPED = 0.05
"""Largest share of values that do not parse in a column that still counts as unchanged."""
_BY_CHANCE = 1e-3
"""Probability below which so many unseen levels are not from the distribution of training."""
_DAY = 86_400e6


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between a column and training.

    Attributes:
        finding: "missing" and "changed" columns are rejected unless they are filled; "range" means another scale; "unseen" means
            levels that are not in the training data; "format" another decimal mark, "spelling" other spellings of levels; "cells"
            means that some cells do not parse; "extra" columns are ignored; "target" is present.
        refused: whether the file is rejected because of it.
        is_noted: whether a prediction reports it, and is rejected if it is strict.
        message: the predicate of a sentence whose subject is the column.
    """

    finding: Kind
    column: str
    refused: bool = False
    is_noted: bool = False
    message: str


@dataclass
class Cells:
    """The cells of a column so far.

    Attributes:
        present: cells that are not missing.
        invalid: present cells that become missing, and `examples` of them.
        unparsed: cells that count toward the rejection of the column.
        levels: of a column of categories.
        numbers: of a column of numbers or, in microseconds since 1970, of dates.
    """

    present: int = 0
    invalid: int = 0
    unparsed: int = 0
    examples: list[str] = field(default_factory=list[str])
    levels: Levels = field(default_factory=Levels)
    numbers: Numbers = field(default_factory=Numbers)

    @property
    def is_mistyped(self) -> bool:
        """Whether the column counts as changed."""
        return self.unparsed > _MISTYPED * self.present

    def add_invalid(self, cells: pl.Series, n_unparsed: int) -> None:
        """Count present cells that become missing."""
        self.present += len(cells)
        self.invalid += len(cells)
        self.unparsed += n_unparsed
        if len(self.examples) < _SHOWN and len(cells):
            found = cells.unique(maintain_order=True).head(_SHOWN)
            self.examples = list(dict.fromkeys([*self.examples, *found]))[:_SHOWN]


def findings_of(column: Column, cells: Cells, n_rows: int, format_note: str | None) -> Iterator[Match]:
    """The findings about a column of the file.

    Args:
        format_note: the note on its decimal mark.
    """
    name = column.name
    if not cells.present:
        if n_rows:
            yield Match(finding="cells", column=name, message="has no values; it is treated as missing")
        return
    if cells.invalid:
        yield _invalid_cells(column, cells)
    if format_note is not None:
        yield Match(finding="format", column=name, is_noted=True, message=format_note)
    if column.kind in ("numeric", "datetime"):
        message = _range_of_dates(column, cells) if column.kind == "datetime" else _range(column, cells)
        if message:
            yield Match(finding="range", column=name, is_noted=True, message=message)
    if cells.levels.respelled:
        yield Match(finding="spelling", column=name, is_noted=True, message=_respelled(cells.levels))
    if cells.levels.n_unseen:
        yield _unseen(column, cells, n_rows)


def range_of(column: Column) -> tuple[float, float] | None:
    """The training range of numbers, or of dates in microseconds since 1970; None if it is not known."""
    if column.kind == "numeric" and column.low is not None and column.high is not None:
        return column.low, column.high
    if column.kind == "datetime" and column.low_text and column.high_text:
        try:
            low, high = map(_microseconds, (column.low_text, column.high_text))
        except (ValueError, TypeError):
            # The author of a bundle chose the texts.
            return None
        # One day is the width of a range of one date.
        return low, max(high, low + _DAY)
    return None


def _microseconds(text: str) -> float:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1)).total_seconds() * 1e6


def _invalid_cells(column: Column, cells: Cells) -> Match:
    kind = "numbers" if column.kind == "numeric" else "dates as in training"
    message = f"has {_of(cells.invalid, cells.present)} values that are not {kind}: {_shown(cells.examples)}"
    if cells.is_mistyped:
        return Match(finding="changed", column=column.name, refused=True, message=message)
    # A column that had such cells in training has been reported there.
    return Match(
        finding="cells",
        column=column.name,
        is_noted=column.support == 1,
        message=f"{message}; they are treated as missing",
    )


def _range(column: Column, cells: Cells) -> str:
    """The note on the scale of numbers; empty if it is that of training."""
    numbers = cells.numbers
    is_strange = numbers.is_strange()
    if not numbers.count or (not is_strange and numbers.count < FEW):
        return ""
    sample = numbers.sample
    power = power_of_ten(sample, column)
    if not is_strange and not power:
        return ""
    limits = f"{_number(column.low)} to {_number(column.high)}"
    if is_strange:
        what = _outside(numbers, limits)
    else:
        what = f"has a median of {_number(float(np.median(sample)))}, where training had {_number(column.quartiles[1])}"
    return f"{what}. {likely_cause(sample, column, power)}"


def _outside(numbers: Numbers, limits: str) -> str:
    examples = _shown(list(numbers.farthest))
    if numbers.count == 1:
        return f"is {examples}, outside of the training range {limits}"
    is_most = numbers.outside > MOSTLY * numbers.count
    count = _of(numbers.outside if is_most else numbers.far, numbers.count)
    far = "" if is_most else "far "
    return f"has {count} values {far}outside of the training range {limits}, such as {examples}"


def _range_of_dates(column: Column, cells: Cells) -> str:
    """The note on dates; empty if they are near those of training."""
    numbers = cells.numbers
    if not numbers.count:
        return ""
    if numbers.is_strange(grows=True):
        limits = f"{_date(column.low_text)} to {_date(column.high_text)}"
        return f"{_outside(numbers, limits)}. Check the format of the dates, and their unit"
    return _shifted_days(column, numbers.sample)


def _shifted_days(column: Column, sample: Float64) -> str:
    """The note where training had whole days, and all new dates have the time that midnight has elsewhere."""
    if len(sample) < FEW or not all(
        text and text.endswith("T00:00:00") for text in (column.low_text, column.high_text)
    ):
        return ""
    times_of_day = np.unique(sample % _DAY)
    # Midnight moves by an hour with daylight saving time.
    if times_of_day[0] == 0 or np.ptp(times_of_day) > _DAY / 24 or np.unique(sample // _DAY).size < 2:
        return ""
    shown = datetime.fromtimestamp(times_of_day[0] / 1e6, UTC)
    return f"has whole days in training, and is at {shown:%H:%M} in new rows. Check their time zone"


def _unseen(column: Column, cells: Cells, n_rows: int) -> Match:
    levels = cells.levels
    values = [value for value, _ in levels.unseen.most_common(_SHOWN + 1)]
    n_values = len(levels.unseen)
    what = "1 value" if n_values == 1 else f"{n_values:,} values"
    more = " …" if n_values > _SHOWN else ""
    shown = ", ".join(map(repr, values[:_SHOWN]))
    message = f"has {what} not seen in training, in {_of(levels.n_unseen, n_rows)} rows: {shown}{more}"
    is_noted = is_unexpected(levels.n_unseen, cells.present, column)
    if is_noted:
        message += f". They are predicted as unknown levels; training had {_shown(column.levels)}"
    return Match(finding="unseen", column=column.name, is_noted=is_noted, message=message)


def is_unexpected(n_unseen: int, n_present: int, column: Column) -> bool:
    """Whether most cells of a column are levels that training did not have, by more than chance.

    The expected share is that of the levels that occurred once in training (Good: The population frequencies of species and the
    estimation of population parameters, Biometrika 40, 1953). The probability is bounded by Chernoff's inequality.
    """
    share = n_unseen / max(1, n_present)
    total = sum(column.level_counts)
    if share < MOSTLY or not total or len(column.levels) >= MANY_LEVELS:
        return False
    expected = (sum(count == 1 for count in column.level_counts) + 0.5) / (total + 1)
    if share <= expected:
        return False
    divergence = share * math.log(share / expected)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - expected))
    return math.exp(-n_present * divergence) < _BY_CHANCE


def _respelled(levels: Levels) -> str:
    total = levels.respelled.total()
    shown = ", ".join(f"{cell!r} for {level!r}" for (cell, level), _ in levels.respelled.most_common(_SHOWN))
    what = "1 cell" if total == 1 else f"{total:,} cells"
    return f"has {what} in another spelling than in training, read as its levels: {shown}"


def _shown(texts: Sequence[str]) -> str:
    return ", ".join(repr(text if len(text) <= 40 else f"{text[:39]}…") for text in texts[:_SHOWN])


def _of(count: int, total: int) -> str:
    return f"{count:,} of {total:,}"


def _number(value: float | None) -> str:
    return f"{value:.6g}"


def _date(text: str | None) -> str:
    return (text or "").removesuffix("T00:00:00").replace("T", " ")
