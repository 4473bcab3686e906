"""Tables as one matrix of standardized numeric columns and one-hot levels, for linear models and nearest neighbors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import UNSEEN, FeatureSpec, Table
from tabapp.features.saved import demand, is_within
from tabapp.models.contract import Float32

MOST_LEVELS = 300
"""Maximum number of one-hot columns, which represent the most frequent levels of all columns."""
LIMIT = 10.0
"""Standardized numbers are clipped at this many standard deviations."""
CELLS_TOGETHER = 2**16
"""Cells that are standardized at once: few calls for a wide table, and little memory for a long one."""
ARRAYS = {
    "mean": ("float64", 1),
    "std": ("float64", 1),
    "indicators": ("int64", 1),
    "level_column": ("int64", 1),
    "level_code": ("int64", 1),
}
"""Type and number of dimensions of the arrays of a `Design`, as saved."""


@dataclass(frozen=True)
class Design:
    """Conversion of a table to a matrix, fitted on training rows.

    Attributes:
        mean, std: (n_numeric,) float64 over cells that are not missing; missing cells are filled with the mean.
        indicators: (n_indicators,) int64 numeric columns with an indicator column for missing cells.
        level_column, level_code: (n_levels,) int64 categorical column and code of each one-hot column.
    """

    mean: npt.NDArray[np.float64]
    std: npt.NDArray[np.float64]
    indicators: npt.NDArray[np.int64]
    level_column: npt.NDArray[np.int64]
    level_code: npt.NDArray[np.int64]

    @classmethod
    def fit(cls, train: Table) -> Design:
        n_numeric = train.numeric.shape[1]
        mean, std, n_present = np.zeros(n_numeric), np.zeros(n_numeric), np.zeros(n_numeric, np.int64)
        # By column: a copy of all of them in float64 would take twice the memory of the table, several times.
        for j, column in enumerate(train.numeric.T):
            present = column[~np.isnan(column)].astype(np.float64)
            n_present[j] = len(present)
            if len(present):
                mean[j], std[j] = present.mean(), present.std()
        counts = [np.bincount(column) for column in train.categorical.T]
        levels = [
            (n, j, code) for j, column in enumerate(counts) for code, n in enumerate(column) if n and code > UNSEEN
        ]
        kept = sorted(levels, key=lambda level: (-level[0], *level[1:]))[:MOST_LEVELS]
        return cls(
            mean=mean,
            std=np.where(std > 0, std, 1.0),
            indicators=np.flatnonzero((n_present > 0) & (n_present < len(train))),
            level_column=np.array([j for _, j, _ in kept], dtype=np.int64),
            level_code=np.array([code for _, _, code in kept], dtype=np.int64),
        )

    @property
    def n_columns(self) -> int:
        """Number of columns of the matrix."""
        return len(self.mean) + len(self.indicators) + len(self.level_column)

    def check(self, features: FeatureSpec) -> None:
        """Check a loaded design against the columns of its tables.

        Raises:
            ValueError: it was fitted on other columns.
        """
        n_numeric, n_categorical = len(features.numeric), len(features.categorical)
        demand(len(self.mean) == len(self.std) == n_numeric, f"its means do not fit {n_numeric} numeric columns")
        demand((self.std > 0).all(), "a standard deviation is not positive")
        demand(is_within(self.indicators, 0, n_numeric), "the index of an indicator is out of range")
        demand(len(self.level_column) == len(self.level_code), "its levels differ in length")
        demand(is_within(self.level_column, 0, n_categorical), "the index of a categorical column is out of range")

    def matrix(self, table: Table) -> Float32:
        """(rows, columns) float32 without NaN; unseen and rare levels are all zeros."""
        return self._filled(table, np.empty((len(table), self.n_columns), dtype=np.float32))

    def wide_matrix(self, table: Table) -> npt.NDArray[np.float64]:
        """The values of `matrix` as float64, without a copy in float32."""
        return self._filled(table, np.empty((len(table), self.n_columns), dtype=np.float64))

    def _filled(self, table: Table, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
        n_numeric, n_indicators = len(self.mean), len(self.indicators)
        together = max(1, CELLS_TOGETHER // max(1, len(table)))
        for start in range(0, n_numeric, together):
            some = slice(start, min(start + together, n_numeric))
            block = table.numeric[:, some]
            standard = ((block - self.mean[some]) / self.std[some]).clip(-LIMIT, LIMIT)
            found[:, some] = np.where(np.isnan(block), 0.0, standard).astype(np.float32)
        found[:, n_numeric : n_numeric + n_indicators] = np.isnan(table.numeric[:, self.indicators])
        found[:, n_numeric + n_indicators :] = table.categorical[:, self.level_column] == self.level_code
        return found

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays by name, for safetensors."""
        return {name: np.ascontiguousarray(getattr(self, name)) for name in self.__dataclass_fields__}
