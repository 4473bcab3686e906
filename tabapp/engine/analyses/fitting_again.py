"""Trains a candidate of a finished run again, on other rows or without a column."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.data.schema import Schema
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.fit.other_targets import with_other_targets
from tabapp.engine.fit.seeds import seed_of
from tabapp.engine.fit.unlabeled import add_unlabeled, fitted_features
from tabapp.engine.plan.make_plan import fit_device
from tabapp.models import registry
from tabapp.models.contract import FitContext
from tabapp.run.analyses.parts import Partial
from tabapp.temporary import TemporaryFolder

Array = npt.NDArray[Any]


class TimeLimitReached(Exception):
    """A model was not trained, or not to its end, before the time limit."""


class TimeLimit:
    """The time limit of an analysis that trains models, which starts when it is made.

    Attributes:
        seconds: None for no limit.
        planned: number of models that the analysis trains.
        trained: how many of them are trained so far.
    """

    def __init__(self, seconds: float | None, planned: int = 0) -> None:
        self.seconds = seconds
        self.planned = planned
        self.trained = 0
        self.deadline = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        """Raises:
        TimeLimitReached: the time is used up.
        """
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise TimeLimitReached

    def partial(self) -> Partial | None:
        """What the analysis could not train; None if it is complete."""
        if self.seconds is None or self.trained >= self.planned:
            return None
        return Partial(seconds=self.seconds, trained=self.trained, planned=self.planned)


def fit_again(
    run: FinishedRun,
    candidate: Candidate,
    fold: int,
    rows: UsableRows,
    schema: Schema,
    scored: UsableRows | None = None,
    *,
    limit: TimeLimit,
) -> Array:
    """Predictions of the held-out rows of a fold by the model, and its features, fitted on some rows with the columns of a schema.

    Args:
        rows: the training rows, in ascending order.
        scored: the predicted rows in place of the held-out ones.
        limit: counts the trained model. A model that is stopped by the limit is not used: its score would be lower for want of
            training alone.

    Raises:
        TimeLimitReached: the limit was reached before the end of training.
    """
    limit.check()
    data, plan = run.data, run.plan
    seed = seed_of(plan.seed, candidate.model, fold)
    target = rows.of(data.target)
    recipe = candidate.results[fold].recipe
    preparer, table = fitted_features(
        rows.of(data.frame), schema, recipe, seed, target, rows.of(data.groups), data.unlabeled
    )
    table = replace(table, target=target, weight=rows.of(data.weight))
    stopping = data.stopping(rows, plan.task, seed)
    plugin = registry.get(candidate.model)
    with TemporaryFolder("fit") as scratch:
        context = FitContext(
            task=plan.task,
            n_classes=plan.n_classes,
            metric=plan.metric,
            features=preparer.spec,
            seed=seed,
            device=fit_device(plugin, plan, data.schema),
            n_threads=plan.n_threads,
            folder=Path(scratch),
            soft_deadline=limit.deadline,
            is_ordered=data.time is not None,
        )
        add_unlabeled(context, plugin, data.unlabeled, preparer)
        table = with_other_targets(table, context, plugin, data, rows)
        params = msgspec.convert(candidate.params, plugin.params_type)
        model = plugin.fit(table.take(~stopping), table.take(stopping), params, context)
    limit.check()
    limit.trained += 1
    scored = data.held_out(fold) if scored is None else scored
    predicted = model.predict(preparer.transform(scored.of(data.frame)))
    return np.asarray(predicted, dtype=np.float64)
