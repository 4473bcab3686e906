"""Rows that a model was not trained on: compared with training, then converted to the columns that it was trained on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import polars as pl

from tabapp.column_names import ColumnNames
from tabapp.data.columns import column_of, named_with_likely
from tabapp.data.forms.missing import missing_cells, strip
from tabapp.data.forms.moments import read_moments
from tabapp.data.forms.numbers import parse_numbers
from tabapp.data.new_rows.decimal_marks import AUTO, detected_formats, given_formats, has_decimal_mark
from tabapp.data.new_rows.findings import ORDER, Cells, Match, findings_of, range_of
from tabapp.data.new_rows.levels import has_levels, matched_levels
from tabapp.data.new_rows.offsets import offset_note
from tabapp.data.schema import Column, Schema
from tabapp.data.target import format_of
from tabapp.data.typed import typed_frame
from tabapp.errors import DataError, option

_NAMED = 5
_KIND_WORDS = {"numeric": "numbers", "datetime": "dates in the training format"}


class NewRows:
    """The rows of a file, in one or several parts.

    Args:
        schema: of the training table.
        columns: names in the file.
        fill: treat absent and mistyped feature columns as missing instead of rejecting the file.
        strict: reject the file if a column is not as in training.
        decimal: the decimal mark of the cells of a text file, or "auto"; None where cells are in the formats of training, as
            `as_text` writes typed columns.
        with_target: also compare the target, where rows are scored.

    Attributes:
        schema: the schema with the number formats of this file, once it has rows.
        n_rows: rows so far.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str],
        *,
        fill: bool = False,
        strict: bool = False,
        decimal: str | None = None,
        with_target: bool = False,
    ) -> None:
        self.schema = schema
        self.n_rows = 0
        self._fill, self._strict, self._decimal, self._with_target = fill, strict, decimal, with_target
        self._present = frozenset(columns)
        self._absent = [column for column in schema.inputs if column.name not in self._present]
        known = {column.name for column in schema.columns_of_file}
        self._extra = [name for name in columns if name not in known]
        self._cells = {column.name: Cells() for column in self._compared(schema)}
        self._notes: dict[str, str] = {}

    def _compared(self, schema: Schema) -> Iterable[Column]:
        for column in schema.columns:
            is_target = self._with_target and column.role == "target"
            if column.name in self._present and column.marks_of is None and (column.role == "feature" or is_target):
                yield column

    def require_columns(self) -> None:
        """Check that the file has the feature columns, before any of its rows is read.

        Raises:
            DataError: feature columns are absent; the message names all of them.
        """
        self._reject(())

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Compare a part, as text, and return its typed columns as `typed` does."""
        typed = self._in_training_formats(frame)
        if not self.n_rows and frame.height and self._decimal is not None:
            typed = self._with_formats(frame, typed, self._decimal)
        self.n_rows += frame.height
        companions = self.schema.companions
        for column in self._compared(self.schema):
            if not has_levels(column):
                texts, values = column_of(frame, column.name), column_of(typed, column.name)
                _count(texts, values, column, companions.get(column.name), self._cells[column.name])
        return self._matched(typed, self._present, counts=True)

    def typed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The typed columns of rows of the file: those with a role, in the order of the schema, with the levels of training."""
        return self._matched(self._in_training_formats(frame), frozenset(frame.columns), counts=False)

    def notes(self) -> list[str]:
        """Sentences for the user about the rows so far.

        Raises:
            DataError: feature columns are absent or mistyped, or differ otherwise and the comparison is strict; the message names
                all of them.
        """
        matches = self.matches()
        changed = [match for match in matches if match.finding == "changed"]
        self._reject(changed)
        noted = _sentences([match for match in matches if match.is_noted])
        if noted and self._strict:
            raise DataError(f"{'; '.join(noted)}. Omit {option('strict')} to predict it anyway.")
        notes: list[str] = []
        if self._extra:
            shown = ", ".join(map(repr, self._extra[:_NAMED])) + (" …" if len(self._extra) > _NAMED else "")
            notes.append(f"{len(self._extra)} columns are unknown from training and are ignored: {shown}")
        if self._absent:
            notes.append(f"{len(self._absent)} columns are absent and treated as missing: {self._absent_names()}")
        if changed:
            notes.append(f"{len(changed)} columns differ from training: {self._mistyped(changed)}")
        return [*notes, *noted]

    def matches(self) -> list[Match]:
        """The findings so far, the most severe first."""
        schema, found = self.schema, list[Match]()
        others = ColumnNames(self._extra)
        for column in self._absent:
            likely = others.alike(column.name)
            instead = "" if likely is None else f", which has {likely!r} instead"
            message = f"is not in the file{instead}; it was {column.kind} in training"
            found.append(Match(finding="missing", column=column.name, refused=True, message=message))
        for column in self._compared(schema):
            found += findings_of(column, self._cells[column.name], self.n_rows, self._notes.get(column.name))
        for name in self._extra:
            message = "is not known from training and is ignored"
            found.append(Match(finding="extra", column=name, message=message))
        if schema.target in self._present and not self._with_target:
            message = "is present; prediction ignores it, and `tabapp evaluate` can score predictions with it"
            found.append(Match(finding="target", column=schema.target, message=message))
        return sorted(found, key=lambda match: ORDER.index(match.finding))

    def _reject(self, changed: Sequence[Match]) -> None:
        if self._fill or not (self._absent or changed):
            return
        parts: list[str] = []
        if self._absent:
            parts.append(f"columns are missing: {self._absent_names()}")
        if changed:
            parts.append(f"columns differ from training: {self._mistyped(changed)}")
        raise DataError(f"{'; '.join(parts)}. Give {option('missing_columns', 'fill')} to predict without them.")

    def _absent_names(self) -> str:
        """The absent columns, each with the column that it probably is."""
        return named_with_likely([column.name for column in self._absent], self._extra)

    def _mistyped(self, changed: Sequence[Match]) -> str:
        found: list[str] = []
        for match in changed:
            cells, kind = self._cells[match.column], _KIND_WORDS[self.schema.column(match.column).kind]
            examples = ", ".join(map(repr, cells.examples))
            found.append(
                f"{match.column!r} ({cells.unparsed:,} of {cells.present:,} values are not {kind}, such as {examples})"
            )
        return ", ".join(found)

    def _in_training_formats(self, frame: pl.DataFrame) -> pl.DataFrame:
        present = set(frame.columns)
        used = [column.name for column in self.schema.columns_of_file if column.name in present]
        if used:
            return typed_frame(frame[used], self.schema)
        # A frame without columns would lose the number of rows.
        name = self.schema.inputs[0].name
        return typed_frame(pl.DataFrame({name: pl.Series([None] * frame.height, dtype=pl.String)}), self.schema)

    def _with_formats(self, frame: pl.DataFrame, typed: pl.DataFrame, decimal: str) -> pl.DataFrame:
        """Decide in which formats the numbers of the file are written, and read them so."""
        schema = self.schema
        columns = [each for each in schema.columns_of_file if each.name in self._present and has_decimal_mark(each)]
        formats = detected_formats(frame, columns, typed) if decimal == AUTO else given_formats(frame, columns, decimal)
        self._notes = formats.notes
        for column in self._compared(schema):
            if column.kind == "datetime" and (note := offset_note(column_of(frame, column.name), column)) is not None:
                self._notes[column.name] = note
        if not formats.columns:
            return typed
        changed = tuple(formats.columns.get(column.name, column) for column in schema.columns)
        self.schema = msgspec.structs.replace(schema, columns=changed)
        return self._in_training_formats(frame)

    def _matched(self, typed: pl.DataFrame, present: frozenset[str], *, counts: bool) -> pl.DataFrame:
        """The typed columns with the levels of training."""
        decimal = "," if self._decimal == "," else "."
        changed: list[pl.Series] = []
        for column in self.schema.columns_of_file:
            if column.name not in present or column.role == "ignore" or not has_levels(column):
                continue
            values, cells = column_of(typed, column.name), self._cells.get(column.name)
            matched = matched_levels(values, column, cells.levels if counts and cells is not None else None, decimal)
            if counts and cells is not None:
                cells.present += len(values) - values.null_count()
            if matched is not values:
                changed.append(matched.alias(column.name))
        return typed.with_columns(changed) if changed else typed


def _sentences(noted: Sequence[Match]) -> list[str]:
    """Sentences about columns; of many columns that differ in the same way, the first ones are described, and all are named."""
    found: list[str] = []
    for finding in dict.fromkeys(match.finding for match in noted):
        alike = [match for match in noted if match.finding == finding]
        found += [f"{match.column!r} {match.message}" for match in alike[:_NAMED]]
        if len(alike) > _NAMED:
            others = ", ".join(repr(match.column) for match in alike[_NAMED:])
            found.append(f"{len(alike) - _NAMED:,} more columns differ in the same way: {others}")
    return found


def _count(texts: pl.Series, values: pl.Series, column: Column, companion: Column | None, cells: Cells) -> None:
    """Count the cells of a column of a part that has no levels."""
    n_known = len(values) - values.null_count()
    cells.present += n_known
    if column.kind not in ("numeric", "datetime"):
        return
    if values.null_count() > texts.null_count():
        lost = strip(texts.filter(values.is_null() & texts.is_not_null()))
        lost = lost.filter(~missing_cells(lost, column))
        if companion is not None:
            known = lost.is_in(list(companion.levels))
            cells.present += int(known.sum())
            lost = lost.filter(~known)
        if column.kind == "numeric":
            # Infinite numbers are numbers, although they are missing.
            cells.add_invalid(lost, parse_numbers(lost, format_of(column)).null_count())
        else:
            ends = read_moments(lost, column.datetime_format or "iso", column.open_ends).ends.is_not_null()
            cells.present += int(ends.sum())
            cells.add_invalid(lost.filter(~ends), len(lost) - int(ends.sum()))
    limits = range_of(column)
    if n_known and limits is not None:
        numbers = values.dt.epoch("us") if column.kind == "datetime" else values
        cells.numbers.add(numbers.cast(pl.Float64).to_numpy().astype(np.float64, copy=False), *limits, texts)
