"""A plugin under examination, and how a check says that a promise is broken."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tabapp.features.arrays import FeatureSpec, Table
from tabapp.metrics import Task
from tabapp.models.check_tables import make_context, make_table, shape_of
from tabapp.models.contract import FittedModel, Params, Plugin

SIZES = (400, 1_500, 6_000)


class Broken(Exception):
    """A promise of the contract that the plugin does not keep, as a sentence."""


class SitsOut(Exception):
    """The plugin says that it does not take such tables; the message is its reason."""


def demand(kept: bool, sentence: str) -> None:
    """Raise `Broken` with the sentence unless the promise is kept."""
    if not kept:
        raise Broken(sentence)


@dataclass(frozen=True)
class Subject:
    """A plugin under examination.

    Attributes:
        fit_seconds: soft deadline of each fit.
        smaller: makes the default parameters quicker to train; unchanged by default.
    """

    plugin: Plugin
    fit_seconds: float = 10.0
    smaller: Callable[[Params], Params] = field(default=lambda params: params)

    def accepted(self, task: Task, **columns: Any) -> tuple[Table, FeatureSpec, int]:
        """A table that the plugin takes, no larger than it must be.

        Raises:
            SitsOut: it takes none.
        """
        reason = f"it does not do {task} tasks"
        if task in self.plugin.tasks:
            for n_rows in (columns.pop("n_rows", SIZES[0]), *SIZES[1:]):
                made = make_table(task, n_rows=n_rows, **columns)
                reason = self.plugin.supports(task, shape_of(*made))
                if reason is None:
                    return made
        raise SitsOut(reason or "")

    def fit(
        self, task: Task, table: Table, spec: FeatureSpec, n_classes: int, valid: Table | None = None, **context: Any
    ) -> FittedModel:
        """Train the defaults on three quarters of a table, or on all of it where `valid` is given."""
        n_train = len(table) * 3 // 4
        train, held_out = table.take(slice(0, n_train)), table.take(slice(n_train, None))
        if valid is not None:
            train, held_out = table, valid
        params = self.smaller(self.plugin.defaults(task, shape_of(train, spec, n_classes), "cpu"))
        context.setdefault("soft_deadline", time.monotonic() + self.fit_seconds)
        with TemporaryDirectory(prefix="tabapp-check-") as folder:
            return self.plugin.fit(
                train, held_out, params, make_context(task, spec, n_classes, Path(folder), **context)
            )


def check_prediction(prediction: Any, task: Task, n_rows: int, n_classes: int) -> None:
    """Demand what the contract says of an array of predictions."""
    demand(isinstance(prediction, np.ndarray), f"predict returns {type(prediction).__name__}, not a NumPy array")
    demand(prediction.dtype == np.float32, f"predictions are {prediction.dtype}, not float32")
    shape = (n_rows,) if task == "regression" else (n_rows, n_classes)
    demand(prediction.shape == shape, f"predictions have the shape {prediction.shape}, not {shape}")
    demand(bool(np.isfinite(prediction).all()), "some predictions are not finite")
    if task != "regression" and n_rows:
        demand(prediction.min() >= 0, "some probabilities are negative")
        off = float(np.abs(prediction.sum(axis=1) - 1).max())
        demand(off < 1e-4, f"probabilities of a row sum to 1 ± {off:.2g}")
