"""Browse a table of any length: pages of cells, search, filter and sort. Search and filter run in slices and can be canceled."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.exceptions import PolarsError

from tabapp.data.columnar import table_files
from tabapp.data.columns import exact_column
from tabapp.data.reading.read import ReadOptions, read_table

SLICE_ROWS = 65_536
"""Number of rows that a search or filter processes before the pager checks for new requests."""

LONGEST_CELL = 200
WIDEST_COLUMN = 40
_SAMPLED_ROWS = 1_000
_MISTYPED = 0.05
"""Largest share of non-numeric values in a column that is sorted as numbers."""

Rows = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Condition:
    """One term of a filter.

    Attributes:
        column: the column to test; None for any column.
        operator: ":" for contains, or one of "= < > <= >=" to compare.
        value: in lower case.
        number: `value` as a number for comparisons, or None.
        negated: keep the rows that do not match.
    """

    column: str | None
    operator: str
    value: str
    number: float | None
    negated: bool


def open_table(path: Path, options: ReadOptions) -> pl.DataFrame:
    """Read the table of a run as text: the same rows as the engine reads.

    Raises:
        DataError: the file cannot be read.
    """
    return read_table(path, options, allow_no_rows=True).frame


def saved_rows(path: Path) -> pl.DataFrame | None:
    """Read the rows that a run saved for its fits, as text; None if there are none."""
    try:
        return table_files.read(path, "arrow").cast(pl.String)
    except (OSError, PolarsError):
        return None


class Pages:
    """A table with a view: the rows that pass the filter, in sorted order.

    Args:
        frame: every column as String.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self._order: Rows | None = None
        self._kept: npt.NDArray[np.bool_] | None = None
        self._view: Rows | None = None

    @property
    def names(self) -> list[str]:
        return self._frame.columns

    @property
    def height(self) -> int:
        """Number of rows in the view."""
        return self._frame.height if self._view is None else len(self._view)

    @property
    def whole_height(self) -> int:
        """Number of rows in the table."""
        return self._frame.height

    def widths(self) -> list[int]:
        """Display width of each column in characters, estimated from a sample of cells, at most `WIDEST_COLUMN`."""
        step = max(1, self._frame.height // _SAMPLED_ROWS)
        sample = pl.concat([self._frame.head(_SAMPLED_ROWS), self._frame.gather_every(step), self._frame.tail(100)])
        longest = sample.select(pl.all().str.len_chars().max().fill_null(1)).row(0) if sample.height else ()
        return [min(WIDEST_COLUMN, int(n)) for n in longest] or [1] * self._frame.width

    def page(
        self, start: int, count: int, first_column: int, n_columns: int
    ) -> tuple[list[int], list[list[str | None]]]:
        """A page of the view: the row numbers in the table, and the cells of each row, long ones truncated."""
        columns = self._frame[:, first_column : first_column + n_columns]
        if self._view is None:
            numbers = list(range(start, min(start + count, self._frame.height)))
            part = columns[start : start + count]
        else:
            rows = self._view[start : start + count]
            numbers = rows.tolist()
            part = columns[rows]
        return numbers, [list(row) for row in part.select(pl.all().str.slice(0, LONGEST_CELL)).rows()]

    def cell(self, row: int, column: int) -> str | None:
        """One complete cell of the view."""
        number = row if self._view is None else int(self._view[row])
        return self._frame.item(number, column)

    def find(self, text: str, start: int, direction: int) -> Generator[None, None, tuple[int, int] | None]:
        """Search the view for the next row, from `start` and wrapping around, in which any column contains a text. Ignores case.

        Returns:
            The position of the row in the view and the first column that contains the text; None if no row does.
        """
        contains = pl.all().str.contains(_contains_pattern(text))
        height = self.height
        if not height:
            return None
        begins = range(0, height, SLICE_ROWS)
        first = min(max(start, 0), height - 1) // SLICE_ROWS
        n_slices = len(begins)
        for step in range(n_slices + 1):
            begin = begins[(first + direction * step) % n_slices]
            found = (
                self._slice(begin, SLICE_ROWS)
                .select(pl.any_horizontal(contains).fill_null(False))
                .to_series()
                .arg_true()
            )
            places = found.to_numpy() + begin
            if step == 0:
                places = places[places >= start] if direction > 0 else places[places <= start]
            elif step == n_slices:
                places = places[places < start] if direction > 0 else places[places > start]
            if len(places):
                place = int(places[0] if direction > 0 else places[-1])
                hits = self._slice(place, 1).select(contains.fill_null(False)).row(0)
                return place, hits.index(True)
            yield
        return None

    def _slice(self, begin: int, count: int) -> pl.DataFrame:
        return (
            self._frame[begin : begin + count] if self._view is None else self._frame[self._view[begin : begin + count]]
        )

    def filter(self, conditions: Sequence[Condition]) -> Generator[None, None, None]:
        """Keep the rows of the table that meet all conditions. The view changes when the work is complete."""
        kept: npt.NDArray[np.bool_] | None = None
        if conditions:
            tests = pl.all_horizontal([_test(condition) for condition in conditions])
            parts: list[npt.NDArray[np.bool_]] = []
            for begin in range(0, self._frame.height, SLICE_ROWS):
                parts.append(self._frame[begin : begin + SLICE_ROWS].select(tests).to_series().to_numpy())
                yield
            kept = np.concatenate(parts) if parts else np.zeros(0, dtype=np.bool_)
        self._kept = kept
        self._update_view()

    def sort(self, column: int | None, *, descending: bool = False) -> None:
        """Sort by a column, as numbers if nearly all values are numeric. The sort is stable; None restores the file order."""
        if column is None:
            self._order = None
        else:
            values = self._frame.to_series(column).alias("")
            numbers = values.str.strip_chars().cast(pl.Float64, strict=False)
            present = len(values) - values.null_count()
            if present and numbers.null_count() - values.null_count() <= _MISTYPED * present:
                values = numbers
            if values.dtype == pl.String:
                texts = values.unique().drop_nulls().sort()
                values = values.cast(pl.Enum(texts)).to_physical()
            keys = values.cast(pl.Float64).to_numpy()
            keys = np.nan_to_num(-keys if descending else keys, nan=np.inf)
            self._order = np.argsort(keys, kind="stable").astype(np.uint32)
        self._update_view()

    def _update_view(self) -> None:
        if self._order is not None:
            self._view = self._order if self._kept is None else self._order[self._kept[self._order]]
        elif self._kept is not None:
            self._view = np.flatnonzero(self._kept).astype(np.uint32)
        else:
            self._view = None


def _contains_pattern(text: str) -> str:
    return "(?i)" + re.escape(text)


def _test(condition: Condition) -> pl.Expr:
    if condition.column is None:
        test = pl.any_horizontal(pl.all().str.contains(_contains_pattern(condition.value)))
    else:
        text = exact_column(condition.column)
        numbers = text.str.strip_chars().cast(pl.Float64, strict=False)
        bound = condition.number
        match condition.operator:
            case ":":
                test = text.str.contains(_contains_pattern(condition.value))
            case "=":
                test = text.str.strip_chars().str.to_lowercase() == condition.value
                test = test if bound is None else test | (numbers == bound)
            case ">":
                test = numbers > bound
            case "<":
                test = numbers < bound
            case ">=":
                test = numbers >= bound
            case _:
                test = numbers <= bound
    test = test.fill_null(False)
    return ~test if condition.negated else test
