"""Compare a file to predict with the training schema and describe missing, extra and different columns."""

from __future__ import annotations

from typing import Literal

import msgspec
import polars as pl

from tabapp.data.columns import column_of
from tabapp.data.schema import Column, Schema
from tabapp.data.typed import check_columns, typed_column
from tabapp.data.values import is_missing, strip
from tabapp.errors import DataError

Finding = Literal["missing", "changed", "cells", "unseen", "extra", "target"]

_SHOWN = 3
_MANY_LEVELS = 10_000
"""Largest number of levels in a schema. In a column with as many, new levels cannot be distinguished from rare ones."""


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
    found: list[Match] = []
    for column in schema.features:
        if column.name not in frame.columns:
            message = f"is not in the file; it was {column.kind} in training"
            found.append(Match(finding="missing", column=column.name, refused=True, message=message))
        else:
            found += _compare(column_of(frame, column.name), column, schema)
    known = {column.name for column in schema.columns}
    for name in frame.columns:
        if name not in known:
            message = "is not known from training and is ignored"
            found.append(Match(finding="extra", column=name, refused=False, message=message))
    if schema.target in frame.columns:
        message = "is present; prediction ignores it, and `tabapp evaluate` can score predictions with it"
        found.append(Match(finding="target", column=schema.target, refused=False, message=message))
    order: list[Finding] = ["missing", "changed", "unseen", "cells", "extra", "target"]
    return sorted(found, key=lambda match: order.index(match.finding))


def _compare(texts: pl.Series, column: Column, schema: Schema) -> list[Match]:
    stripped = strip(texts)
    present = stripped.filter(~is_missing(stripped, column.levels, column.missing_spellings))
    if not len(present):
        message = "has no values; it is treated as missing"
        return [Match(finding="cells", column=column.name, refused=False, message=message)] if len(texts) else []
    typed = typed_column(present, column)
    if column.kind in ("numeric", "datetime"):
        return _unreadable(present, typed, column, schema)
    if column.kind not in ("categorical", "boolean") or not 0 < len(column.levels) < _MANY_LEVELS:
        return []
    unseen = typed.filter(~typed.is_in(list(column.levels)))
    if not len(unseen):
        return []
    values = unseen.alias("value").value_counts(sort=True, name="n")
    shown = ", ".join(repr(value) for value in values["value"].head(_SHOWN))
    more = " …" if values.height > _SHOWN else ""
    what = "1 value" if values.height == 1 else f"{values.height:,} values"
    message = f"has {what} not seen in training, in {len(unseen):,} of {len(texts):,} rows: {shown}{more}"
    return [Match(finding="unseen", column=column.name, refused=False, message=message)]


def _unreadable(present: pl.Series, typed: pl.Series, column: Column, schema: Schema) -> list[Match]:
    invalid = present.filter(typed.is_null())
    if not len(invalid):
        return []
    kind = "numbers" if column.kind == "numeric" else "dates as in training"
    shown = ", ".join(repr(value) for value in invalid.unique(maintain_order=True).head(_SHOWN))
    message = f"{len(invalid):,} of {len(present):,} values are not {kind}: {shown}"
    refused = _is_rejected(present, column, schema)
    tail = "" if refused else "; they are treated as missing"
    return [
        Match(finding="changed" if refused else "cells", column=column.name, refused=refused, message=message + tail)
    ]


def _is_rejected(texts: pl.Series, column: Column, schema: Schema) -> bool:
    """Whether prediction rejects the file because of this column."""
    try:
        check_columns(texts.to_frame(column.name), msgspec.structs.replace(schema, columns=(column,)), False)
    except DataError:
        return True
    return False
