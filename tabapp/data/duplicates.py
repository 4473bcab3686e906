"""Columns that repeat another column, and rows that repeat another row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.counts import Values
from tabapp.data.schema import Column

_ROWS_IN_KEY = 20
MOSTLY_DISTINCT = 0.5
"""Equal rows are kept in one fold only if at least this share of the rows is distinct."""


def repeated_columns(columns: Sequence[Column], values: Mapping[str, Values]) -> dict[str, str]:
    """Columns that repeat an earlier one of the sequence cell by cell, as {name: original}."""
    candidates: dict[tuple[object, ...], list[str]] = {}
    found: dict[str, str] = {}
    for column in columns:
        mine = values[column.name]
        if column.kind == "constant":
            continue
        few = mine.texts.gather_every(max(1, mine.n_rows // _ROWS_IN_KEY)).head(_ROWS_IN_KEY)
        key = (column.unique, column.missing, *few.to_list())
        for earlier in candidates.setdefault(key, []):
            if mine.texts.equals(values[earlier].texts):
                found[column.name] = earlier
                break
        else:
            candidates[key].append(column.name)
    return found


def groups_of_equal_rows(frame: pl.DataFrame) -> npt.NDArray[np.int64] | None:
    """(rows,) a number that equal rows share; None if no row has a copy or most rows have one.

    In a table where fewer than half of the rows are distinct, such as three yes-or-no answers, equal rows are coincidences.
    Keeping them together would score models only on answers that no other row gave.
    """
    hashed = frame.hash_rows()
    distinct = hashed.n_unique()
    if distinct == frame.height or distinct < MOSTLY_DISTINCT * frame.height:
        return None
    return hashed.rank("dense").cast(pl.Int64).to_numpy()
