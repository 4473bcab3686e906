"""Trains a candidate of a finished run again, on other rows or without a column."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.features import RunFeatures
from tabapp.engine.fit.fold_task import FoldTask
from tabapp.engine.fit.numbering import UsableRows
from tabapp.run.analyses.parts import Partial

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
    scored: UsableRows | None = None,
    *,
    limit: TimeLimit,
    prepared: RunFeatures | None = None,
    pilots: Sequence[Mapping[str, Any]] = (),
) -> tuple[Array, dict[str, Any]]:
    """Predictions of the held-out rows of a fold by the model, and its features, fitted on some rows; and its summary.

    Args:
        rows: the training rows, in ascending order.
        scored: the predicted rows in place of the held-out ones.
        limit: counts the trained model. A model that is stopped by the limit is not used: its score would be lower for want of
            training alone.
        prepared: features of a table without one of its columns; None for those of the run.
        pilots: see `PreparedFit`.

    Raises:
        TimeLimitReached: the limit was reached before the end of training.
    """
    limit.check()
    features = (prepared or run.features).fitted(candidate.results[fold].recipe, fold, rows)
    task = FoldTask(
        goal=run.plan,
        model=candidate.model,
        params=candidate.params,
        features=features,
        device=run.models.device_of(candidate.model),
        n_threads=run.plan.n_threads,
        deadline=limit.deadline,
        most_step_rows=candidate.step_rows,
        pilots=pilots,
    )
    model = task.train().model
    limit.check()
    limit.trained += 1
    run.report(limit.trained / max(1, limit.planned))
    scored = run.data.held_out(fold) if scored is None else scored
    predicted = model.predict(features.preparer.transform(scored.of(run.data.frame)))
    return np.asarray(predicted, dtype=np.float64), model.summary()
