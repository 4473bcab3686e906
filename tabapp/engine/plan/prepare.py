"""From a file to a schema with the options of the run. Imports little, so that a screen shows the columns at once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl

from tabapp.data.columns import as_in_training, named_with_likely
from tabapp.data.profile import schema_with_warnings
from tabapp.data.reading.read import Reading, ReadOptions, read_table
from tabapp.data.schema import Schema
from tabapp.errors import DataError, option
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev

PREVIEW_ROWS = 200
MOST_NAMED = 8


def read_data(config: RunConfig) -> Reading:
    """Read the run's table as text.

    Raises:
        DataError: the file is missing or cannot be read as a table.
    """
    return read_table(Path(config.data), ReadOptions.of(config))


def reading_event(reading: Reading, config: RunConfig) -> ev.DataRead:
    """The result of reading, with the first rows, as an event."""
    return ev.DataRead(
        file=Path(config.data).name,
        rows=reading.frame.height,
        columns=reading.frame.width,
        n_bytes=reading.n_bytes,
        format=reading.format,
        encoding=reading.encoding,
        delimiter=reading.delimiter,
        names=tuple(reading.frame.columns),
        preview=tuple(reading.frame.head(PREVIEW_ROWS).rows()),
    )


def infer(reading: Reading, config: RunConfig) -> Schema:
    """The schema of a table for its first target, with the user's overrides applied.

    Raises:
        DataError, UsageError: the table or an option is not valid.
    """
    return schema_with_warnings(reading, _test(config), **config.of_columns(reading.names))


def _test(config: RunConfig) -> pl.DataFrame | None:
    """The test file as text; an unreadable one is reported when it is scored."""
    if config.test is None:
        return None
    try:
        return read_data(msgspec.structs.replace(config, data=config.test)).frame
    except DataError:
        return None


def read_more(config: RunConfig, schema: Schema | None = None) -> pl.DataFrame | None:
    """The table `--unlabelled` as text, or None without that option.

    Args:
        schema: the schema whose features the table must have; None checks none.

    Raises:
        DataError: the file cannot be read, or lacks a column.
    """
    if config.unlabelled is None:
        return None
    more = read_data(msgspec.structs.replace(config, data=config.unlabelled)).frame
    if schema is not None:
        check_columns_of_more(more, schema)
    return more


def check_columns_of_more(more: pl.DataFrame | None, schema: Schema) -> None:
    """Check that the table `--unlabelled` has all features.

    Raises:
        DataError: names the missing columns.
    """
    if more is None:
        return
    present = {*more.columns, *as_in_training(more.columns, schema.columns).values()}
    absent = [column.name for column in schema.inputs if column.name not in present]
    if absent:
        others = present - {column.name for column in schema.columns}
        shown = named_with_likely(absent[:MOST_NAMED], others) + (" …" if len(absent) > MOST_NAMED else "")
        raise DataError(
            f"The file of {option('unlabelled')} lacks columns of the table: {shown}. Add them or {option('ignore')} them."
        )


def n_rows(more: pl.DataFrame | None) -> int:
    """The number of rows of the table `--unlabelled`; 0 without one."""
    return 0 if more is None else more.height
