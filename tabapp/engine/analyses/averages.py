"""What the fold models of an ensemble predict for the same rows, and what their mean gains from it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.ensemble.averaging import LEAST_FOLDS, NO_AVERAGING, Averaging, averaging_of
from tabapp.models import registry

MOST_ROWS, MOST_CELLS = 1_000, 20_000
"""Rows on which the models are compared, and rows times classes."""
LEAST_ROWS = 250
"""If there is time for fewer rows, the models are not compared."""


def averaging_of_ensemble(
    models: FoldModels,
    members: Sequence[tuple[Candidate, float]],
    scored: UsableRows,
    deadline: float | None = None,
) -> Averaging | None:
    """What the mean of the fold models of an ensemble gains over those of a single fold; nothing if there are too few folds, and
    None if the time is too short.

    Args:
        members: candidates that have the same folds, with their weights.
        scored: the rows that these folds score.
        deadline: `time.monotonic()` after which no further model predicts. There are only so many rows as are expected to be
            predicted by then.
    """
    data, plan = models.data, models.plan
    folds = sorted(members[0][0].results)
    averaged = [not registry.trains_nothing(candidate.model) for candidate, _ in members]
    if len(folds) < LEAST_FOLDS or not any(averaged):
        return NO_AVERAGING
    n_rows = min(len(scored), MOST_ROWS, MOST_CELLS // max(1, plan.n_classes))
    if deadline is not None:
        each = sum(
            candidate.seconds_of_row
            for (candidate, _), is_averaged in zip(members, averaged, strict=True)
            if is_averaged
        )
        least, n_rows = min(n_rows, LEAST_ROWS), min(n_rows, int((deadline - time.monotonic()) / max(each, 1e-9)))
        if n_rows < least:
            return None
    drawn = np.random.default_rng(plan.seed).choice(len(scored), n_rows, replace=False)
    rows = scored.at(np.sort(drawn))
    predictions: list[npt.NDArray[np.float64]] = []
    # A model that trains nothing is one model with all rows in the bundle, whose predictions are no mean.
    single = np.zeros(1)
    for (candidate, weight), is_averaged in zip(members, averaged, strict=True):
        if not is_averaged:
            single = single + weight * models.out_of_fold(candidate, rows).astype(np.float64)
    for fold in folds:
        blended = single
        for (candidate, weight), is_averaged in zip(members, averaged, strict=True):
            if deadline is not None and time.monotonic() > deadline:
                return None
            if is_averaged:
                blended = blended + weight * models.predict(candidate, fold, rows).astype(np.float64)
        predictions.append(blended)
    own = np.searchsorted(folds, rows.of(data.fold))
    return averaging_of(np.stack(predictions), own, rows.of(data.target), rows.of(data.weight), seed=plan.seed)
