"""The rows of a run as its fits and its scores read them, memory-mapped from the run folder."""

from __future__ import annotations

import io
from copy import copy
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import files
from tabapp.data.columnar import table_files
from tabapp.data.schema import Schema
from tabapp.data.split import early_stopping_rows
from tabapp.engine.fit.numbering import ScoredRows, UsableRows
from tabapp.run.record.folder import RunFolder
from tabapp.task import Task

UNLABELED = "unlabeled.arrow"
"""The typed features of the rows without a target, if there are any."""
UNLABELED_OTHERS = "unlabeled_others.arrow"
"""The other targets of the rows without a target, if any of them has one."""
OTHER_TARGETS = "other_targets.arrow"
"""The other targets of the usable rows, in the run of one of several targets."""
ROW_NUMBERS = "row_numbers.npy"
"""The number in the file of each usable row, if some rows have no target."""


class RunData:
    """The usable rows of a run, and which of them are scored.

    Attributes:
        schema: kind and role of each column.
        frame: typed columns.
        target: (rows,) class codes, or values in target units.
        fold: (rows,) int16: the fold that scores the row, -1 for rows used only for training.
        second_fold: (rows,) int16: another fold whose models are not trained on the row, -1 for most rows.
        weight, groups, time: (rows,), or None without such a column.
        unlabeled: typed features of the rows without a target, or None if there are none.
        unlabeled_others: numbers and class codes of the other targets of these rows, or None if they have none.
        others: numbers and class codes of the other targets of the usable rows, or None if there are none.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self.schema = msgspec.json.decode(files.read_regular(folder.data / "schema.json"), type=Schema)
        self.frame: pl.DataFrame = table_files.read(folder.data / "table.arrow", "arrow")
        self.unlabeled, self.unlabeled_others, self.others = (
            _read_if_present(folder.data / name) for name in (UNLABELED, UNLABELED_OTHERS, OTHER_TARGETS)
        )
        arrays = np.load(io.BytesIO(files.read_regular(folder.path / "splits.npz")), allow_pickle=False)
        self.target: npt.NDArray[np.int64] | npt.NDArray[np.float64] = arrays["target"]
        self.fold: npt.NDArray[np.int16] = arrays["fold"]
        none = np.full_like(self.fold, -1)
        self.second_fold: npt.NDArray[np.int16] = arrays.get("second_fold", none)
        self.weight: npt.NDArray[np.float32] | None = arrays.get("weight", None)
        self.groups: npt.NDArray[np.int64] | None = arrays.get("groups", None)
        self.time: npt.NDArray[np.float64] | None = arrays.get("time", None)

    def without_column(self, name: str) -> RunData:
        """The same rows without a column of the file."""
        columns = tuple(column for column in self.schema.columns if name not in (column.name, column.marks_of))
        changed = copy(self)
        changed.schema = msgspec.structs.replace(self.schema, columns=columns)
        return changed

    @property
    def n_folds(self) -> int:
        """Number of scored folds; 1 for a holdout."""
        return int(self.fold.max()) + 1

    @cached_property
    def all(self) -> UsableRows:
        """Every usable row."""
        return UsableRows(np.arange(len(self.target)), len(self.target))

    @cached_property
    def scored(self) -> UsableRows:
        """The rows that some fold scores; arrays over scored rows are in this order."""
        return UsableRows.where(self.fold >= 0)

    def held_out(self, fold: int) -> UsableRows:
        """The rows that a fold scores."""
        return UsableRows.where(self.fold == fold)

    def training(self, fold: int) -> UsableRows:
        """The rows that a fold may train on."""
        return UsableRows.where((self.fold != fold) & (self.second_fold != fold))

    def among_scored(self, rows: UsableRows) -> ScoredRows:
        """The positions of scored rows among all scored rows.

        Raises:
            ValueError: a row is not scored.
        """
        position = np.full(len(self.fold), -1)
        self.scored.put(position, np.arange(len(self.scored)))
        return ScoredRows(rows.of(position), len(self.scored))

    def stopping(self, rows: UsableRows, task: Task, seed: int) -> npt.NDArray[np.bool_]:
        """(rows,) mask of the training rows that stop training early; see `early_stopping_rows`."""
        return early_stopping_rows(self.target, task, rows.places, seed, groups=self.groups, time=self.time)

    @cached_property
    def numbers(self) -> npt.NDArray[np.int64]:
        """(rows,) the number of each row in the training file, from 0; its position in runs of earlier versions."""
        saved = self._folder.data / ROW_NUMBERS
        numbers = np.load(saved, allow_pickle=False) if saved.is_file() else self.all.places
        return self.all.of(numbers)

    @property
    def target_by_number(self) -> dict[int, float]:
        """The class code, or the value, of each row by its number in the training file."""
        return dict(zip(self.numbers.tolist(), map(float, self.target), strict=True))


def _read_if_present(path: Path) -> pl.DataFrame | None:
    return table_files.read(path, "arrow") if path.is_file() else None
