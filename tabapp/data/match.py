"""Compare a file to predict with the training schema and describe missing, extra and different columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import polars as pl

from tabapp.column_names import ColumnNames
from tabapp.data.columns import column_of
from tabapp.data.forms.missing import missing_cells, strip
from tabapp.data.schema import Column, Schema
from tabapp.data.typed import is_mistyped, parsed_cells, typed_column

Finding = Literal["missing", "changed", "cells", "unseen", "extra", "target"]

_SHOWN = 3
_MANY_LEVELS = 10_000
"""Largest number of levels in a schema. In a column with as many, new levels cannot be distinguished from rare ones."""
_MOST_UNSEEN = 100_000
"""Unseen values of a column that are counted one by one."""
_OTHERS = "\n"
"""The place of all further ones; no stripped cell is a line break."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between a column and training.

    Attributes:
        finding: "missing" and "changed" columns are rejected unless they are filled; "cells" means that some cells do not parse;
            "unseen" means categories that are not in the training data; "extra" columns are ignored; "target" is present.
        refused: whether the file is rejected because of it.
        message: the predicate of a sentence whose subject is the column.
    """

    finding: Finding
    column: str
    refused: bool
    message: str


def match_columns(frame: pl.DataFrame, schema: Schema) -> list[Match]:
    """Compare a file with the schema; the most severe findings come first.

    Args:
        frame: the file as text.
    """
    matcher = ColumnMatcher(schema, frame.columns)
    matcher.add(frame)
    return matcher.matches()


@dataclass
class _Cells:
    """Cells of a column so far.

    Attributes:
        present: cells that are not missing.
        invalid: present cells that become missing, and `examples` of them.
        unparsed: cells that count toward the rejection of the column.
        unseen: cells by value that training did not have.
    """

    present: int = 0
    invalid: int = 0
    unparsed: int = 0
    examples: list[str] = field(default_factory=list[str])
    unseen: Counter[str] = field(default_factory=Counter[str])


class ColumnMatcher:
    """Compares a file with the schema, in one or several parts.

    Args:
        columns: names in the file.

    Attributes:
        n_rows: rows so far.
    """

    def __init__(self, schema: Schema, columns: Sequence[str]) -> None:
        self._schema, self._columns = schema, columns
        self._cells = {column.name: _Cells() for column in schema.inputs if column.name in set(columns)}
        self.n_rows = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Compare a part, as text."""
        self.n_rows += frame.height
        for name, cells in self._cells.items():
            _count(column_of(frame, name), self._schema.column(name), cells)

    def matches(self) -> list[Match]:
        """The findings so far, the most severe first."""
        schema, found = self._schema, list[Match]()
        known = {column.name for column in schema.columns_of_file}
        others = ColumnNames(name for name in self._columns if name not in known)
        for column in schema.inputs:
            if column.name in self._cells:
                found += _match(column, self._cells[column.name], self.n_rows)
            else:
                likely = others.alike(column.name)
                instead = "" if likely is None else f", which has {likely!r} instead"
                message = f"is not in the file{instead}; it was {column.kind} in training"
                found.append(Match(finding="missing", column=column.name, refused=True, message=message))
        for name in self._columns:
            if name not in known:
                message = "is not known from training and is ignored"
                found.append(Match(finding="extra", column=name, refused=False, message=message))
        if schema.target in self._columns:
            message = "is present; prediction ignores it, and `tabapp evaluate` can score predictions with it"
            found.append(Match(finding="target", column=schema.target, refused=False, message=message))
        order: list[Finding] = ["missing", "changed", "unseen", "cells", "extra", "target"]
        return sorted(found, key=lambda match: order.index(match.finding))


def _count(texts: pl.Series, column: Column, cells: _Cells) -> None:
    """Add the cells of a part."""
    stripped = strip(texts)
    present = stripped.filter(~missing_cells(stripped, column))
    cells.present += len(present)
    if not len(present):
        return
    if column.kind in ("numeric", "datetime"):
        invalid = present.filter(typed_column(present, column).is_null())
        if len(invalid):
            cells.invalid += len(invalid)
            n_present, n_parsed = parsed_cells(present, column)
            cells.unparsed += n_present - n_parsed
            examples = dict.fromkeys([*cells.examples, *invalid.unique(maintain_order=True).head(_SHOWN)])
            cells.examples = list(examples)[:_SHOWN]
    elif column.kind in ("categorical", "boolean") and 0 < len(column.levels) < _MANY_LEVELS:
        typed = typed_column(present, column)
        unseen = typed.filter(~typed.is_in(list(column.levels)))
        if len(cells.unseen) < _MOST_UNSEEN:
            cells.unseen.update(dict(unseen.alias("value").value_counts(sort=True, name="n").iter_rows()))
        else:
            cells.unseen[_OTHERS] += len(unseen)


def _match(column: Column, cells: _Cells, n_rows: int) -> list[Match]:
    """The findings about a column of the file."""
    if not cells.present:
        message = "has no values; it is treated as missing"
        return [Match(finding="cells", column=column.name, refused=False, message=message)] if n_rows else []
    if cells.invalid:
        kind = "numbers" if column.kind == "numeric" else "dates as in training"
        shown = ", ".join(map(repr, cells.examples))
        message = f"{cells.invalid:,} of {cells.present:,} values are not {kind}: {shown}"
        refused = is_mistyped(cells.present, cells.unparsed)
        tail = "" if refused else "; they are treated as missing"
        finding: Finding = "changed" if refused else "cells"
        return [Match(finding=finding, column=column.name, refused=refused, message=message + tail)]
    if not cells.unseen:
        return []
    values = [value for value, _ in cells.unseen.most_common() if value != _OTHERS]
    shown = ", ".join(map(repr, values[:_SHOWN]))
    more = " …" if len(values) > _SHOWN else ""
    count = "at least " if _OTHERS in cells.unseen else ""
    what = "1 value" if len(values) == 1 else f"{count}{len(values):,} values"
    message = f"has {what} not seen in training, in {cells.unseen.total():,} of {n_rows:,} rows: {shown}{more}"
    return [Match(finding="unseen", column=column.name, refused=False, message=message)]
