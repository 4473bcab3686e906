"""The columns of a table as a plan uses them, for the pager."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import msgspec

from tabapp.data.column_reading import ColumnReading, read_columns
from tabapp.data.infer import infer_schema
from tabapp.data.inspection import associations, inspect_column
from tabapp.data.reading.read import Reading, ReadOptions, read_table
from tabapp.data.schema import Schema
from tabapp.errors import UsageError
from tabapp.run.options.config import DESCRIBING, OPTIONS, RunConfig
from tabapp.run.protocol import paging

MOST_TEXTS = 5


class InspectedColumns:
    """Answers about the columns of a plan with these options."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config

    def is_for(self, config: RunConfig) -> bool:
        """Whether another configuration describes the table in the same way."""
        fields = [OPTIONS[name].field for name in DESCRIBING]
        return all(getattr(config, field) == getattr(self._config, field) for field in ("data", *fields))

    @cached_property
    def _reading(self) -> Reading:
        return read_table(Path(self._config.data), ReadOptions.of(self._config))

    @cached_property
    def _schema(self) -> Schema:
        reading = self._reading
        return infer_schema(
            reading.frame,
            stored=reading.stored,
            left_out=reading.left_out,
            labels=reading.labels,
            **self._config.of_columns(reading.names),
        )

    def inspect(self, name: str) -> paging.Inspected:
        """A column beside the target.

        Raises:
            TabappError: the table cannot be read, or has no such column.
        """
        schema = self._schema
        if all(column.name != name for column in schema.columns_of_file):
            raise UsageError(f"There is no column {name!r}. Choose another one.")
        found = inspect_column(self._reading.frame, schema, name)
        return msgspec.structs.replace(
            msgspec.convert(msgspec.to_builtins(found), paging.Inspected, strict=False), reading=self._how_read(name)
        )

    def rate(self) -> paging.Rated:
        """How well each column alone predicts the target.

        Raises:
            TabappError: the table cannot be read.
        """
        return paging.Rated(associations=associations(self._reading.frame, self._schema))

    def _how_read(self, name: str) -> list[str]:
        """Sentences on how the cells of a column are read."""
        schema = self._schema
        column = schema.column(name)
        companion = schema.companions.get(name)
        own = msgspec.structs.replace(schema, columns=(column, companion) if companion is not None else (column,))
        return sentences_on(read_columns(self._reading.frame, own)[0])


def sentences_on(reading: ColumnReading) -> list[str]:
    """How the cells of a column are read, in sentences; those that say nothing unusual are left out."""
    found: list[str] = []
    if reading.date_form is not None:
        found.append(f"Dates are read as {reading.date_form}.")
    if reading.unit is not None:
        found.append(f"Values are in {reading.unit}.")
    if reading.thousands is not None or reading.decimal not in (None, "."):
        found.append(f"The decimal mark is {reading.decimal!r}, the thousands mark {reading.thousands!r}.")
    for texts, words in (
        (reading.read_as_missing, "read as missing"),
        (reading.kept, "kept as values although they are spelled like missing cells"),
        (reading.set_aside, "neither missing nor a value, and set aside"),
        (reading.marks, "marks beside a value"),
    ):
        if texts:
            listed = ", ".join(f"{text!r} ({count:,})" for text, count in list(texts.items())[:MOST_TEXTS])
            more = f" and {len(texts) - MOST_TEXTS:,} more" if len(texts) > MOST_TEXTS else ""
            found.append(f"{words[:1].upper()}{words[1:]}: {listed}{more}.")
    if reading.marks_column is not None:
        found.append(f"Models learn the marks from a column of their own, {reading.marks_column!r}.")
    return found
