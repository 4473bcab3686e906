"""New rows compared with a schema, in one part."""

from __future__ import annotations

from typing import Any

import polars as pl

from tabapp.data.new_rows.rows import NewRows
from tabapp.data.schema import Schema


def compared(frame: pl.DataFrame, schema: Schema, **options: Any) -> NewRows:
    """A table of text, compared with the training table."""
    rows = NewRows(schema, frame.columns, **options)
    rows.add(frame)
    return rows
