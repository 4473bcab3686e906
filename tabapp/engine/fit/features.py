"""The prepared features of a run: fitted on the training rows of a fold, made once, and read by every fit that wants them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from tabapp import files
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.seeds import seed_of
from tabapp.features.arrays import FeatureRecipe, FeatureSpec, Table
from tabapp.features.prepare import FeaturePreparer
from tabapp.run.record.folder import RunFolder

LARGE_BYTES = 2**28
"""Tables of this size in memory are prepared by one process at a time."""
ARRAYS = ("numeric", "categorical")
ALL_ROWS = -1
"""The number of the fold without held-out rows."""


@dataclass(frozen=True)
class Features:
    """Prepared features.

    Attributes:
        source: where they are from.
        table: the features, target and weights of `rows`; perhaps memory-mapped.
        training: those of the rows that they were made for to train on.
    """

    source: RunFeatures
    fold: int
    preparer: FeaturePreparer
    table: Table
    rows: UsableRows
    training: UsableRows

    @property
    def spec(self) -> FeatureSpec:
        """Names and types of the columns."""
        return self.preparer.spec


def recipe_id(recipe: FeatureRecipe) -> str:
    """A short name, equal for equal recipes."""
    *values, rows, derived = msgspec.structs.astuple(recipe)
    values += ([rows] if rows != "training" else []) + (["derived"] if derived else [])
    return "-".join(map(str, values))


def shared_fold(recipe: FeatureRecipe, fold: int) -> int:
    """The fold whose features serve a fold. Features that are fitted on rows without a target serve all folds."""
    return fold if recipe.rows == "training" else 0


def features_folder(folder: RunFolder, recipe: FeatureRecipe, fold: int) -> Path:
    """The folder of a recipe's features on a fold: `state/` for the preparer, and the arrays."""
    return folder.features / f"{recipe_id(recipe)}-f{shared_fold(recipe, fold)}"


class RunFeatures:
    """Features of the rows of a run. They depend on the run's seed, the recipe and the rows that they are fitted on, and not on
    the model that asks for them first.

    Args:
        seed: of the run.
        folder: where they are saved.
        ready: a run that may have them already, and is not changed.
    """

    def __init__(self, data: RunData, seed: int, folder: RunFolder, ready: RunFolder | None = None) -> None:
        self.data, self.seed = data, seed
        self.folders = (folder,) if ready is None else (ready, folder)
        """Where features are looked for; the last one gets those that are missing."""

    def place(self, recipe: FeatureRecipe, fold: int) -> Path:
        """The folder of features, which may not exist yet."""
        places = [features_folder(folder, recipe, fold) for folder in self.folders]
        return next((place for place in places if place.is_dir()), places[-1])

    def saved(self, recipe: FeatureRecipe, fold: int) -> Features:
        """The features of all rows, fitted on the fold's training rows only; computed once, then memory-mapped.

        Two processes may compute the same features at the same time: the first to finish keeps the folder, and both are equal.
        Those of large tables take turns, because the memory of one is several times that of the table.
        """
        place = self.place(recipe, fold)
        if not place.is_dir():
            with self._turn():
                self._prepare(place, recipe, fold)
        arrays = {name: np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
        table = Table(**arrays, target=self.data.target, weight=self.data.weight)
        preparer = FeaturePreparer.load(place / "state")
        return Features(self, fold, preparer, table, self.data.all, self.data.training(fold))

    def fitted(self, recipe: FeatureRecipe, fold: int, rows: UsableRows) -> Features:
        """The features of some rows in ascending order, fitted on them or on the rows without a target, as the recipe says; no row
        is encoded with its own target.

        Raises:
            ValueError: the recipe needs rows without a target, and there are none.
        """
        data, frame = self.data, rows.of(self.data.frame)
        target, seed = rows.of(data.target), seed_of(self.seed, recipe_id(recipe), shared_fold(recipe, fold))
        if recipe.rows == "training":
            preparer, table = FeaturePreparer.fit_transform(
                frame, data.schema, recipe, seed, target, rows.of(data.groups)
            )
        elif data.unlabeled is None:
            raise ValueError("the run has no rows without a target")
        else:
            preparer = FeaturePreparer.fit(data.unlabeled, data.schema, recipe, seed)
            table = preparer.transform(frame)
        return Features(self, fold, preparer, replace(table, target=target, weight=rows.of(data.weight)), rows, rows)

    @contextmanager
    def _turn(self) -> Generator[None]:
        """Wait until no other process prepares features of a large table. The system ends the turn of a killed process."""
        if self.data.frame.estimated_size() < LARGE_BYTES:
            yield
            return
        place = self.folders[-1].features
        place.mkdir(exist_ok=True)
        descriptor = files.open_lock(place / "lock", create=True)
        try:
            # Some shared file systems have no locks.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _prepare(self, place: Path, recipe: FeatureRecipe, fold: int) -> None:
        if place.is_dir():
            return
        training = self.data.training(fold)
        fitted = self.fitted(recipe, fold, training)
        others = training.others
        held_out = fitted.preparer.transform(others.of(self.data.frame))
        with files.new_folder(place) as temporary:
            (temporary / "state").mkdir()
            fitted.preparer.save(temporary / "state")
            for name in ARRAYS:
                trained, predicted = getattr(fitted.table, name), getattr(held_out, name)
                array = np.empty((len(self.data.frame), trained.shape[1]), dtype=trained.dtype)
                fitted.rows.put(array, trained)
                others.put(array, predicted)
                np.save(temporary / f"{name}.npy", array, allow_pickle=False)
