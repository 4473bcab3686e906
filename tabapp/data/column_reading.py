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


def read_columns(frame: pl.DataFrame, schema: Schema) -> list[ColumnReading]:
    """How each of `Schema.columns_of_file` is read.

    Args:
        frame: the table from which the schema was inferred, as text.
    """
    present, companions = set(frame.columns), schema.companions
    return [
        _read(strip(column_of(frame, column.name)), column, companions.get(column.name))
        if column.name in present
        else ColumnReading(form="not read")
        for column in schema.columns_of_file
    ]


def _read(texts: pl.Series, column: Column, companion: Column | None) -> ColumnReading:
    facts = ColumnReading(
        form=_FORMS.get(column.kind, "text"),
        empty=texts.null_count(),
        marks_column=None if companion is None else companion.name,
        date_form=column.datetime_format,
        time_zone=column.zone,
    )
    if column.kind == "numeric":
        facts = msgspec.structs.replace(
            facts,
            form="duration" if column.unit in CLOCKS else "number",
            decimal=column.decimal,
            thousands=column.thousands,
            unit=column.unit,
            notation=column.notation,
        )
    if _are_plain_numbers(texts, column) and facts.empty < len(texts):
        return msgspec.structs.replace(facts, values=len(texts) - facts.empty)
    missing = missing_cells(texts, column)
    known = texts.set(missing, None)
    marks, has_value = marks_in(known, column), typed_column(known, column).is_not_null()
    aside = known.filter(known.is_not_null() & ~has_value)
    is_mark = has_value if companion is None else has_value | marks.is_in(list(companion.levels))
    n_values = int(has_value.sum())
    return msgspec.structs.replace(
        facts,
        form=facts.form if n_values else "empty",
        values=n_values,
        read_as_missing=_counted(texts.filter(missing & texts.is_not_null())),
        kept=_counted(texts.filter(texts.is_in(list(column.kept_spellings)))) if column.kept_spellings else {},
        set_aside=_counted(aside),
        set_aside_cells=len(aside),
        marks=_counted(marks.filter(marks.is_not_null() & is_mark)),
    )


def _are_plain_numbers(texts: pl.Series, column: Column) -> bool:
    """Whether every cell is empty or a finite number without anything beside it, which most columns of wide tables are."""
    if column.kind != "numeric" or column.missing_spellings or (column.decimal, column.unit) != (".", None):
        return False
    return int(texts.cast(pl.Float64, strict=False).is_finite().sum()) == len(texts) - texts.null_count()


def _counted(texts: pl.Series) -> dict[str, int]:
    """How often each of the most frequent texts occurs."""
    if not len(texts):
        return {}
    counts = texts.alias("text").value_counts(sort=True).head(MOST_TEXTS)
    return dict(zip(counts["text"].to_list(), counts["count"].to_list(), strict=True))
