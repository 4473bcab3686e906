"""The rows of a run as its fits and its scores read them, memory-mapped from the run folder."""

from __future__ import annotations

import io

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import files
from tabapp.data import table_files
from tabapp.data.schema import Schema
from tabapp.run.folder import RunFolder

UNLABELED = "unlabeled.arrow"
"""The typed features of the rows without a target, if there are any."""
OTHER_TARGETS = "other_targets.arrow"
"""The other targets of the usable rows, in the run of one of several targets."""


class RunData:
    """The usable rows of a run.

    Attributes:
        schema: kind and role of each column.
        frame: typed columns.
        target: (rows,) class codes, or values in target units.
        fold: (rows,) int16: the fold that scores the row, -1 for rows used only for training.
        weight, groups, time: (rows,), or None without such a column.
        unlabeled: typed features of the rows without a target, or None if there are none.
        others: numbers and class codes of the other targets of the run, or None if there are none.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.schema = msgspec.json.decode(files.read_regular(folder.data / "schema.json"), type=Schema)
        self.frame: pl.DataFrame = table_files.read(folder.data / "table.arrow", "arrow")
        unlabeled = folder.data / UNLABELED
        self.unlabeled: pl.DataFrame | None = table_files.read(unlabeled, "arrow") if unlabeled.is_file() else None
        others = folder.data / OTHER_TARGETS
        self.others: pl.DataFrame | None = table_files.read(others, "arrow") if others.is_file() else None
        arrays = np.load(io.BytesIO(files.read_regular(folder.path / "splits.npz")), allow_pickle=False)
        self.target: npt.NDArray[np.int64] | npt.NDArray[np.float64] = arrays["target"]
        self.fold: npt.NDArray[np.int16] = arrays["fold"]
        self.weight: npt.NDArray[np.float32] | None = arrays.get("weight", None)
        self.groups: npt.NDArray[np.int64] | None = arrays.get("groups", None)
        self.time: npt.NDArray[np.float64] | None = arrays.get("time", None)

    @property
    def n_folds(self) -> int:
        """Number of scored folds; 1 for a holdout."""
        return int(self.fold.max()) + 1

    def held_out(self, fold: int) -> npt.NDArray[np.intp]:
        """Indices of the rows that a fold scores."""
        return np.flatnonzero(self.fold == fold)

    def training(self, fold: int) -> npt.NDArray[np.intp]:
        """Indices of the rows that a fold may train on."""
        return np.flatnonzero(self.fold != fold)
