"""Positions of rows in one of the numberings of a run, as types that cannot be mixed.

A run numbers its usable rows, which have a target, and its scored rows, the usable ones that some fold holds out: all of them in
cross-validation, few with a holdout. An array of one value per row belongs to one of these numberings. Since scored rows are a
part of the usable ones in the same order, both numberings are equal if they have equally many rows, and `Rows.of` refuses an
array of any other length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.features.arrays import Table

Places = npt.NDArray[np.intp]
Chosen = npt.NDArray[np.bool_] | npt.NDArray[np.integer] | slice
Values = TypeVar("Values", bound=npt.NDArray[Any])


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a numbering, in any order.

    Attributes:
        places: (rows,) their positions.
        n_rows: how many rows the numbering has.

    Raises:
        ValueError: a position is outside of the numbering.
    """

    places: Places
    n_rows: int

    def __post_init__(self) -> None:
        if len(self.places) and not 0 <= int(self.places.min()) <= int(self.places.max()) < self.n_rows:
            raise ValueError(f"a position is not one of {self.n_rows} rows")

    def __len__(self) -> int:
        return len(self.places)

    @classmethod
    def where(cls, mask: npt.NDArray[np.bool_]) -> Self:
        """The rows of a (n_rows,) mask."""
        return cls(np.flatnonzero(mask), len(mask))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The rows of several parts, one part after the other."""
        (n_rows,) = {part.n_rows for part in parts}
        return cls(np.concatenate([part.places for part in parts]), n_rows)

    def at(self, chosen: Chosen) -> Self:
        """Some of these rows: a mask over them, or their positions among them."""
        return type(self)(self.places[chosen], self.n_rows)

    @property
    def others(self) -> Self:
        """The other rows of the numbering, in ascending order."""
        mask = np.ones(self.n_rows, dtype=bool)
        mask[self.places] = False
        return self.where(mask)

    @overload
    def of(self, values: Values) -> Values: ...
    @overload
    def of(self, values: pl.DataFrame) -> pl.DataFrame: ...
    @overload
    def of(self, values: Table) -> Table: ...
    @overload
    def of(self, values: None) -> None: ...
    def of(self, values: npt.NDArray[Any] | pl.DataFrame | Table | None) -> Any:
        """What an array or a table of the numbering has at these rows; None for an array that a run does not have.

        Raises:
            ValueError: it has another number of rows.
        """
        if values is None:
            return None
        self._check(len(values))
        return values.take(self.places) if isinstance(values, Table) else values[self.places]

    def put(self, into: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """Set an array of the numbering at these rows.

        Raises:
            ValueError: it has another number of rows.
        """
        self._check(len(into))
        into[self.places] = values

    def _check(self, n_rows: int) -> None:
        if n_rows != self.n_rows:
            raise ValueError(f"positions among {self.n_rows} rows are not those of {n_rows} rows")


class UsableRows(Rows):
    """Positions among the rows with a target."""


class ScoredRows(Rows):
    """Positions among the usable rows that a fold holds out."""
