"""Made-up columns for the tests of checks, and the warnings of one check on a table of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tabapp.data.infer import infer_schema
from tabapp.data.schema import DataWarning

N = 600
_RANDOM = np.random.default_rng(7)
NOISE = _RANDOM.normal(size=N)
CLASSES = _RANDOM.integers(0, 2, N)


def frame(**columns: Sequence[object]) -> pl.DataFrame:
    """A table of text, as it is read from a file."""
    return pl.DataFrame({name: pl.Series([str(value) for value in values]) for name, values in columns.items()})


def found(check: str, target: str = "y", **columns: Sequence[object]) -> dict[str | None, DataWarning]:
    """The warnings of one check on a table, by column."""
    schema = infer_schema(frame(**columns), target=target)
    return {warning.column: warning for warning in schema.warnings if warning.check == check}
