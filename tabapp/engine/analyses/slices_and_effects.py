"""Weak slices of a run's predictions, and the effects of its most important features."""

from __future__ import annotations

import msgspec

from tabapp.engine.fit.candidates import Scorer
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.loop.selection import Selected
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.schedule.competition import Competition
from tabapp.explain.effects import effects
from tabapp.explain.evaluation import rounded, sample_rows, with_rounded
from tabapp.explain.slices import row_errors, weak_slices
from tabapp.run.record import events as ev

SLICED_ROWS = 50_000
EFFECT_ROWS, MOST_EFFECTS = 200, 8
"""Rows predicted at each grid point of a feature, over all folds; and the largest number of features."""


def find_slices(data: RunData, plan: Plan, scorer: Scorer, selected: Selected) -> ev.SlicesReady | None:
    """The slices of the table with the largest errors of the ensemble's out-of-fold predictions; None if no slice can be tested."""
    scored = data.scored.at(selected.covered)
    truth = scorer.target[selected.covered]
    rows = sample_rows(len(truth), SLICED_ROWS, plan.seed)
    truth, prediction, scored = truth[rows], selected.prediction[rows], scored.at(rows)
    measure, errors = row_errors(plan.task, truth, prediction)
    wrong = None if plan.task == "regression" else prediction.argmax(axis=1) != truth
    found, tested = weak_slices(scored.of(data.frame), data.schema.features, errors, wrong)
    if not tested:
        return None
    return ev.SlicesReady(
        identity=selected.identity,
        measure=measure,
        overall=rounded(float(errors.mean())),
        n_rows=len(errors),
        tested=tested,
        rows=with_rounded(tuple(found)),
    )


def find_effects(
    models: FoldModels,
    competition: Competition,
    importances: ev.ImportancesReady,
    deadline: float | None,
) -> ev.EffectsReady | None:
    """Partial dependence on the features that are most important to the explained model; None if none was computed.

    Args:
        deadline: `time.monotonic()` after which no further feature starts.
    """
    candidate = competition.best_of(importances.model)
    if candidate is None:
        return None
    names = [row.feature for row in importances.rows if row.permutation > 0 and not row.unstable][:MOST_EFFECTS]
    data, folds = models.data, models.with_typed_rows(candidate, EFFECT_ROWS, deadline)
    columns = [data.schema.column(name) for name in names]
    found = effects(folds, columns, data.frame, data.schema.classes, deadline=deadline)
    if not found:
        return None
    return ev.EffectsReady(
        model=candidate.model,
        trial=candidate.trial,
        identity=candidate.identity,
        n_rows=sum(fold.frame.height for fold in folds),
        effects=tuple(msgspec.structs.replace(each, curves=with_rounded(each.curves)) for each in found),
    )
