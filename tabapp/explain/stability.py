"""Whether predictions are reproducible: those of rows that the shuffle of a column leaves as they are may not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import Table

Array = npt.NDArray[Any]

MOST_WITNESSES, ROWS_PER_WITNESS = 8, 20
"""Rows of each fold that are predicted a second time in every pass, without a shuffle: the shuffle of a column of different numbers
leaves hardly any other row as it is."""
LEAST_NOISE = 1e-3
"""Changes of unshuffled rows up to this share of the spread of the predictions are rounding, such as that of a search for neighbors
in which two are equally near."""
LEAST_SHARE = 0.05
"""The same as a share of the changes of shuffled rows."""


def witnesses(n_rows: int) -> npt.NDArray[np.intp]:
    """Positions of the rows that are predicted a second time, evenly spaced."""
    n = min(n_rows, MOST_WITNESSES, max(1, n_rows // ROWS_PER_WITNESS))
    return np.linspace(0, n_rows - 1, n).round().astype(np.intp)


def unshuffled(before: Table, after: Table, features: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """(rows,) whether a row has the same values before and after a shuffle of these features."""
    n_numeric = before.numeric.shape[1]
    in_numeric, in_categorical = features[features < n_numeric], features[features >= n_numeric] - n_numeric
    old, new = before.numeric[:, in_numeric], after.numeric[:, in_numeric]
    same = ((old == new) | (np.isnan(old) & np.isnan(new))).all(axis=1)
    return same & (before.categorical[:, in_categorical] == after.categorical[:, in_categorical]).all(axis=1)


@dataclass(frozen=True)
class Changes:
    """Mean absolute changes of the predictions in a pass: of unshuffled rows, and of shuffled ones."""

    unshuffled: float = 0.0
    shuffled: float = 0.0

    @classmethod
    def of(cls, before: Array, after: Array, same: npt.NDArray[np.bool_]) -> Changes:
        """The changes between two (rows,) or (rows, classes) predictions; `same` marks the unshuffled rows."""
        change = np.abs(after - before).reshape(len(before), -1).max(axis=1)
        return cls(*(float(change[rows].mean()) if rows.any() else 0.0 for rows in (same, ~same)))


def is_unstable(passes: Sequence[Changes], spread: float) -> bool:
    """Whether the predictions of unshuffled rows changed by more than rounding explains.

    Args:
        spread: standard deviation of the predictions without a shuffle.
    """
    noise = float(np.mean([each.unshuffled for each in passes]))
    effect = float(np.mean([each.shuffled for each in passes]))
    # A prediction that is not a number is not reproducible.
    return not noise <= max(LEAST_NOISE * spread, LEAST_SHARE * effect)
