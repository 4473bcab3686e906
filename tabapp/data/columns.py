"""Access columns of any name. Polars takes `*` and names such as `^a$` for patterns in expressions."""

from __future__ import annotations

import re

import polars as pl


def column_of(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column without its name.

    Many methods of a Series select the column by its name, so a Series named `^a$` fails where an unnamed one does not.
    """
    return frame.get_column(name).alias("")


def exact_column(name: str) -> pl.Expr:
    """An expression for the column of exactly this name."""
    return pl.col(f"^{re.escape(name)}$")
