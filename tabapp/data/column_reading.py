"""How the cells of each column are read, so that a program can compare that with what it knows of the table."""

from __future__ import annotations

from typing import Literal

import msgspec
import polars as pl

from tabapp.data.columns import column_of
from tabapp.data.forms.clock import CLOCKS
from tabapp.data.forms.missing import missing_cells, strip
from tabapp.data.marks import marks_in
from tabapp.data.schema import Column, Kind, Schema
from tabapp.data.typed import typed_column

MOST_TEXTS = 100
"""Different texts that a count by text has, the most frequent ones."""

Form = Literal["number", "duration", "moment", "truth value", "text", "empty", "not read"]
_FORMS: dict[Kind, Form] = {"numeric": "number", "datetime": "moment", "boolean": "truth value"}


class ColumnReading(msgspec.Struct, frozen=True, kw_only=True):
    """How the cells of a column are read. `values`, `empty`, the counts of `read_as_missing`, and `set_aside_cells` add up to the
    number of rows.

    Attributes:
        form: what its values are. Durations are in seconds; "empty" has no value, and "not read" is a nested column.
        values: number of cells with a value.
        empty: number of empty cells.
        read_as_missing: cells by text that is spelled like a missing cell, such as NA.
        kept: cells by text that is spelled like a missing cell and is a value here.
        set_aside: cells by text that is neither missing nor a value of the form, whose value counts as missing.
        set_aside_cells: number of all such cells.
        marks: cells by mark beside a value ("<" of "<0.5"), or by text of `set_aside` that is kept as a mark (9999-12-31).
        marks_column: the companion column from which models learn the marks; None if they are too rare.
        decimal, thousands, unit, notation: of numbers; see `tabapp.data.schema.Column`.
        date_form: how moments are read: the order of dates, or the unit of numbers.
        time_zone: "UTC" if all moments have an offset, "mixed" if some have one, None if none has one.
    """

    form: Form
    values: int = 0
    empty: int = 0
    read_as_missing: dict[str, int] = {}
    kept: dict[str, int] = {}
    set_aside: dict[str, int] = {}
    set_aside_cells: int = 0
    marks: dict[str, int] = {}
    marks_column: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    unit: str | None = None
    notation: str | None = None
    date_form: str | None = None
    time_zone: str | None = None


def read_column(frame: pl.DataFrame, column: Column, schema: Schema) -> ColumnReading:
    """How a column of a table of text is read.

    Args:
        column: a column of the file in the schema of the table.
    """
    if column.name not in frame.columns:
        return ColumnReading(form="not read")
    texts = strip(column_of(frame, column.name))
    missing = missing_cells(texts, column)
    present = texts.set(missing, None)
    companion = schema.companions.get(column.name)
    marks = marks_in(present, column)
    has_value = typed_column(present, column).is_not_null()
    aside = present.filter(present.is_not_null() & ~has_value)
    is_mark = has_value if companion is None else has_value | marks.is_in(list(companion.levels))
    n_values = int(has_value.sum())
    form = _FORMS.get(column.kind, "text") if n_values else "empty"
    is_number, is_duration = column.kind == "numeric", column.unit in CLOCKS
    return ColumnReading(
        form="duration" if is_duration and n_values else form,
        values=n_values,
        empty=texts.null_count(),
        read_as_missing=_counted(texts.filter(missing & texts.is_not_null())),
        kept=_counted(texts.filter(texts.is_in(list(column.kept_spellings)))) if column.kept_spellings else {},
        set_aside=_counted(aside),
        set_aside_cells=len(aside),
        marks=_counted(marks.filter(marks.is_not_null() & is_mark)),
        marks_column=None if companion is None else companion.name,
        decimal=column.decimal if is_number else None,
        thousands=column.thousands if is_number else None,
        unit=column.unit if is_number else None,
        notation=column.notation if is_number else None,
        date_form=column.datetime_format,
        time_zone=column.zone,
    )


def _counted(texts: pl.Series) -> dict[str, int]:
    """How often each of the most frequent texts occurs."""
    if not len(texts):
        return {}
    counts = texts.alias("text").value_counts(sort=True).head(MOST_TEXTS)
    return dict(zip(counts["text"].to_list(), counts["count"].to_list(), strict=True))
