"""What the models of two folds predict for rows that both hold out, and what the mean of all fold models gains."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.ensemble.averaging import LEAST_FOLDS, NO_AVERAGING, Averaging, averaging_of
from tabapp.models import registry


def averaging_of_ensemble(
    models: FoldModels,
    members: Sequence[tuple[Candidate, float]],
    scored: UsableRows,
    deadline: float | None = None,
) -> Averaging | None:
    """What the mean of the fold models of an ensemble gains over those of a single fold; nothing if there are too few folds or
    rows, and None if the time is too short.

    Args:
        members: candidates that have the same folds, with their weights.
        scored: the rows that these folds score.
        deadline: `time.monotonic()` after which no further model predicts.
    """
    data, folds = models.data, sorted(members[0][0].results)
    rows = scored.at(np.isin(scored.of(data.second_fold), folds))
    # A model that trains nothing is one model with all rows in the bundle, whose predictions are no mean.
    single = {member.model for member, _ in members if registry.trains_nothing(member.model)}
    averaged = [member for member, _ in members if member.model not in single]
    if len(folds) < LEAST_FOLDS or not averaged or not len(rows):
        return NO_AVERAGING
    seconds = len(rows) * sum(member.seconds_of_row for member in averaged) / len(folds)
    if deadline is not None and time.monotonic() + seconds > deadline:
        return None
    first = second = np.zeros(1)
    for member, weight in members:
        own = models.out_of_fold(member, rows).astype(np.float64)
        other = own.copy()
        for fold in () if member.model in single else folds:
            if deadline is not None and time.monotonic() > deadline:
                return None
            held_out = rows.of(data.second_fold) == fold
            if held_out.any():
                other[held_out] = models.predict(member, fold, rows.at(held_out))
        first, second = first + weight * own, second + weight * other
    return averaging_of(first, second, rows.of(data.target), len(folds), rows.of(data.weight))
