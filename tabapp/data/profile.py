"""What a table is, as `tabapp profile` and `tabapp.profile` report it."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl

from tabapp.data.checks.registry import most_important_first
from tabapp.data.column_reading import ColumnReading, read_columns
from tabapp.data.infer import compare_with_test, infer_schema
from tabapp.data.reading.read import Reading
from tabapp.data.schema import Column, DataWarning, Kind, Role, Schema
from tabapp.task import Task

_LEVELS, _CLASSES = 10, 100


class ReadingProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How a file was read, and what was repaired on the way. `encoding` and `delimiter` are None for typed tables."""

    format: str
    encoding: str | None
    delimiter: str | None
    bytes: int
    repairs: tuple[DataWarning, ...]


class ColumnProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a column was taken for, and why; see `tabapp.data.schema.Column`.

    `levels` holds the ten most frequent ones, and `reading` says how its cells are read.
    """

    name: str
    kind: Kind
    role: Role
    reason: str
    support: float
    missing: int
    unique: int
    missing_spellings: tuple[str, ...]
    low: float | None
    high: float | None
    low_text: str | None
    high_text: str | None
    unit: str | None
    label: str | None
    overridden: bool
    datetime_format: str | None
    levels: tuple[str, ...]
    reading: ColumnReading


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a table, the target, task and metric that a run would choose, and what looks wrong.

    `rows_without_target` counts rows of the file, `rows_unlabelled` those of the file `--unlabelled`.
    """

    file: str
    rows: int
    rows_without_target: int
    rows_unlabelled: int
    reading: ReadingProfile
    columns: tuple[ColumnProfile, ...]
    target: str
    target_reason: str
    task: Task
    task_reason: str
    classes: tuple[str, ...]
    metric: str
    warnings: tuple[DataWarning, ...]


def schema_with_warnings(reading: Reading, test: pl.DataFrame | None = None, **options: Any) -> Schema:
    """The schema of a table with every warning, most important first: those of reading it, those on its columns, and
    differences to a test table.

    Args:
        test: a second table as text.
        options: as for `infer_schema`.

    Raises:
        DataError, UsageError: as `infer_schema`.
    """
    schema = infer_schema(
        reading.frame, stored=reading.stored, left_out=reading.left_out, labels=reading.labels, **options
    )
    drift = compare_with_test(reading.frame, test, schema) if test is not None else ()
    warnings = most_important_first((*reading.warnings, *schema.warnings, *drift))
    return msgspec.structs.replace(schema, warnings=warnings)


def make_profile(file: str, reading: Reading, schema: Schema, metric: str, n_more: int = 0) -> Profile:
    """Put a profile together.

    Args:
        file: what to call the table.
        schema: of `schema_with_warnings`.
        metric: the default metric of the task.
        n_more: rows of the file `--unlabelled`.
    """
    return Profile(
        file=file,
        rows=reading.frame.height,
        rows_without_target=schema.rows_without_target,
        rows_unlabelled=n_more,
        reading=ReadingProfile(
            format=reading.format,
            encoding=reading.encoding,
            delimiter=reading.delimiter,
            bytes=reading.n_bytes,
            repairs=tuple(reading.warnings),
        ),
        columns=tuple(map(_column_profile, schema.columns_of_file, read_columns(reading.frame, schema))),
        target=schema.target,
        target_reason=schema.target_reason,
        task=schema.task,
        task_reason=schema.task_reason,
        classes=schema.classes[:_CLASSES],
        metric=metric,
        warnings=schema.warnings,
    )


def _column_profile(column: Column, reading: ColumnReading) -> ColumnProfile:
    facts: dict[str, Any] = {
        name: getattr(column, name) for name in ColumnProfile.__struct_fields__ if name != "reading"
    }
    facts["levels"] = column.levels[:_LEVELS]
    return ColumnProfile(**facts, reading=reading)
