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
"""Where a smaller share of the rows is distinct, such as three yes-or-no answers, equal rows are coincidences in any order."""
MOST_COPIES, FEW_COPIES = 0.5, 0.02
"""Copies are a mistake if at least the first share of them are in the order of earlier rows, or if at least the first share of the
rows of one class and at most the second of another are copies."""


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


def mistaken_copies(frame: pl.DataFrame, classes: pl.Series | None) -> str | None:
    """How rows of a table got their copies if that was a mistake, as a clause; None if they have none or it was not.

    Rows that are equal by nature have copies among new rows, too, for example measurements in coarse steps. A score is then
    honest if rows have copies in other folds at the same rate: on wine_quality_white, where 19 % of the rows repeat another, the
    log loss of unseen rows is 0.74 and the printed one 0.79; with copies in one fold, they were 0.85 and 1.02.

    Args:
        classes: (rows,) classes of the target; None in a regression.
    """
    hashed = frame.hash_rows()
    return None if hashed.n_unique() == frame.height else _mistake(hashed, classes)


def groups_of_equal_rows(frame: pl.DataFrame, classes: pl.Series | None) -> npt.NDArray[np.int64] | None:
    """(rows,) a number that equal rows share, to keep them in one fold; None if no row has a copy by mistake.

    Args:
        classes: (rows,) classes of the target; None in a regression.
    """
    hashed = frame.hash_rows()
    if hashed.n_unique() == frame.height or _mistake(hashed, classes) is None:
        return None
    return hashed.rank("dense").cast(pl.Int64).to_numpy()


def _mistake(hashed: pl.Series, classes: pl.Series | None) -> str | None:
    if _in_order(hashed) and hashed.n_unique() >= MOSTLY_DISTINCT * len(hashed):
        return "most repeat earlier rows in the same order"
    if classes is not None and _of_one_class(hashed, classes):
        return "nearly all are of one class"
    return None


def _in_order(hashed: pl.Series) -> bool:
    """Whether most copies follow the copy of the row before theirs, as in a file that was appended to itself."""
    rows = pl.DataFrame({"hash": hashed}).with_row_index()
    earlier = rows.select(pl.col("index").cast(pl.Int64).shift(1).over("hash"))["index"].fill_null(-1).to_numpy()
    distance = np.arange(len(earlier)) - earlier
    is_copy = earlier >= 0
    # Neighboring copies, as in a sorted file, have a distance of 1.
    follows = is_copy[1:] & is_copy[:-1] & (distance[1:] == distance[:-1]) & (distance[1:] > 1)
    return int(follows.sum()) >= MOST_COPIES * int(is_copy.sum())


def _of_one_class(hashed: pl.Series, classes: pl.Series) -> bool:
    """Whether most rows of a class are copies and nearly none of another, as after oversampling."""
    rows = pl.DataFrame({"hash": hashed, "class": classes})
    shares = rows.group_by("class").agg(copies=1 - pl.col("hash").n_unique() / pl.len())["copies"]
    return bool((shares >= MOST_COPIES).any() and (shares <= FEW_COPIES).any())
