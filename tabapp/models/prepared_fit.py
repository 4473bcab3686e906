"""A model and the rows that it learns from: the one way from prepared features to a trained model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import Table
from tabapp.models.contract import FitContext, FitStopped, FittedModel, GroupFit, Params, Plugin

LEAST_SHARE = 0.01
"""Share of a class below which a row is not repeated for it."""


@dataclass(frozen=True)
class Split:
    """The training rows of a fit, and which of them stop training early.

    Attributes:
        table: features of at least the training rows, with target, weights and other targets; perhaps memory-mapped.
        stopping: (rows,) mask of the training rows that stop training early.
        places: (rows,) positions of the training rows in the table; None for all of them in order.
        soft: (rows of the table, classes) shares that sum to 1, or (rows of the table,) numbers, to learn instead of the target;
            None for the target.
    """

    table: Table
    stopping: npt.NDArray[np.bool_]
    places: npt.NDArray[np.intp] | None = None
    soft: npt.NDArray[np.floating] | None = None

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """Positions of the training rows, as `whole` has them."""
        return np.arange(len(self.stopping)) if self.places is None else self.places

    @property
    def rows_of_parts(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Positions of the rows of `parts`."""
        return self.rows[~self.stopping], self.rows[self.stopping]

    def whole(self) -> Table:
        """All training rows."""
        table = self.table if self.places is None else self.table.take(self.places)
        return table if self.soft is None else soft_table(table, self.soft[self.rows])

    def parts(self) -> tuple[Table, Table]:
        """The rows to learn from, and the early-stopping rows."""
        learned, stopping = self.rows_of_parts
        train, valid = self.table.take(learned), self.table.take(stopping)
        if self.soft is not None:
            train = soft_table(train, self.soft[learned])
            if train.weight is not None and valid.weight is None:
                # A plugin that trains on both in the end needs the weights of both.
                valid = replace(valid, weight=np.ones(len(valid), dtype=np.float32))
        return train, valid


@dataclass(frozen=True)
class PreparedFit:
    """A model to train, with everything that its result depends on.

    Attributes:
        context: its folder is removed after training.
        pilots: `FittedModel.summary` of models whose numbers of steps are reused, without early stopping; empty for none.
    """

    plugin: Plugin
    params: Params
    split: Split
    context: FitContext
    pilots: Sequence[Mapping[str, Any]] = ()

    def train(self) -> TrainedModel:
        """Train the model.

        Raises:
            FitStopped: `FitContext.report` ended the fit.
        """
        try:
            if self.pilots:
                model = self.plugin.refit(self.split.whole(), self.params, self.pilots, self.context)
                if model is not None:
                    return TrainedModel(model, self.split.rows)
            model = self.plugin.fit(*self.split.parts(), self.params, self.context)
            return TrainedModel(model, np.concatenate(self.split.rows_of_parts))
        finally:
            shutil.rmtree(self.context.folder, ignore_errors=True)


@dataclass(frozen=True)
class TrainedModel:
    """A model, and the positions in the table of the rows that it received, in their order."""

    model: FittedModel
    places: npt.NDArray[np.intp]


def train_group(fits: Sequence[PreparedFit]) -> list[TrainedModel]:
    """Train models of one plugin as one stacked network; those with the same `Split` share its tables.

    Raises:
        FitStopped: `FitContext.report` ended one of the fits.
    """
    tables: dict[int, tuple[Table, Table]] = {}
    try:
        for fit in fits:
            if id(fit.split) not in tables:
                # Of the same objects, a stacked network keeps one copy on its device.
                whole = fit.split.whole() if fit.pilots else None
                tables[id(fit.split)] = fit.split.parts() if whole is None else (whole, whole.take(slice(0, 0)))
        group = [GroupFit(*tables[id(fit.split)], fit.params, fit.context, fit.pilots) for fit in fits]
        models = [model for model in fits[0].plugin.fit_group(group) if model is not None]
        if len(models) < len(fits):
            raise FitStopped
        return [
            TrainedModel(model, fit.split.rows if fit.pilots else np.concatenate(fit.split.rows_of_parts))
            for model, fit in zip(models, fits, strict=True)
        ]
    finally:
        for fit in fits:
            shutil.rmtree(fit.context.folder, ignore_errors=True)


def soft_table(table: Table, soft: npt.NDArray[np.floating]) -> Table:
    """A table to learn soft targets from: a row is repeated for each class with the share of the class as its weight.

    Args:
        soft: (rows, classes) shares that sum to 1, or (rows,) numbers, which replace the target.
    """
    if soft.ndim == 1:
        return replace(table, target=soft.astype(np.float64))
    rows, classes = np.nonzero(soft >= LEAST_SHARE)
    weight = soft[rows, classes].astype(np.float32)
    if table.weight is not None:
        weight = weight * table.weight[rows]
    return replace(table.take(rows), target=classes.astype(np.int64), weight=weight)
