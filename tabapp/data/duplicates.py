"""Columns that repeat another column, and rows that repeat another row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.counts import Values
from tabapp.data.schema import Column
from tabapp.data.small import SMALL

_ROWS_IN_KEY = 20
MOSTLY_DISTINCT = 0.5
"""Equal rows are kept in one fold only if at least this share of the rows is distinct."""


def repeated_columns(columns: Sequence[Column], values: Mapping[str, Values]) -> dict[str, str]:
    """Columns that repeat an earlier one of the sequence cell by cell, as {name: original}."""
    candidates: dict[tuple[int, int, int], list[str]] = {}
    for column in columns:
        mine = values[column.name]
        if column.kind == "constant":
            continue
        texts = mine.texts
        # Counting the values of a long numeric column, which nothing else may need, takes longer than all else here.
        step = len(texts) // _ROWS_IN_KEY
        # Single cells, because a slice with a step is a query.
        some = [texts[i * step] for i in range(_ROWS_IN_KEY)] if len(texts) > SMALL else mine.distinct
        key = (column.unique, column.missing, hash(tuple(some)))
        candidates.setdefault(key, []).append(column.name)
    found: dict[str, str] = {}
    for names in candidates.values():
        if len(names) > 1:
            found |= _equal_columns(names, values)
    return {column.name: found[column.name] for column in columns if column.name in found}


def _equal_columns(names: Sequence[str], values: Mapping[str, Values]) -> dict[str, str]:
    """Columns that equal an earlier one, as {name: original}; each is compared with those of the same checksum only."""
    found: dict[str, str] = {}
    distinct: dict[int, list[str]] = {}
    for name in names:
        texts = values[name].texts
        same = distinct.setdefault(_checksum(texts), [])
        original = next((earlier for earlier in same if texts.equals(values[earlier].texts)), None)
        if original is None:
            same.append(name)
        else:
            found[name] = original
    return found


def _checksum(texts: pl.Series) -> int:
    if len(texts) <= SMALL:
        return hash(tuple(texts.to_list()))
    # A sum would not depend on the order of rows.
    hashes = texts.hash().to_numpy()
    return int((hashes * np.arange(1, 2 * len(hashes), 2, dtype=np.uint64)).sum())


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
