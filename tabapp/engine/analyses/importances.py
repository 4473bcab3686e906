"""Feature importances of a run: permutation importance of the best model, beside the attention of a model that has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.schedule.competition import Competition
from tabapp.errors import DataError
from tabapp.explain.agreement import agreement, combine
from tabapp.explain.attention import AttentionShare
from tabapp.explain.evaluation import sample_rows
from tabapp.explain.permutation import permutation_importance
from tabapp.explain.promise import promising_order
from tabapp.features.arrays import Table
from tabapp.findings import ModelAttention
from tabapp.run.record import events as ev

N_REPEATS = 5
MOST_ROWS = 2_000


def _training_rows(models: FoldModels, candidate: Candidate) -> Table:
    """A sample of the training rows of the first fold of a candidate."""
    fold = min(candidate.results)
    rows = models.data.training(fold)
    sampled = rows.at(sample_rows(len(rows), MOST_ROWS, models.plan.seed))
    return sampled.of(models.features(candidate, fold).table)


def compute_importances(
    models: FoldModels,
    competition: Competition,
    deadline: float | None,
    attention_of_first: Callable[[], tuple[Candidate, Mapping[str, AttentionShare]] | None] = lambda: None,
) -> ev.ImportancesReady | None:
    """Importances of the run's columns, or None if no model has a fold.

    Args:
        deadline: `time.monotonic()` after which no further shuffle starts.
        attention_of_first: the model with attention that is beside permutation, and the share of each column.
    """
    best = [c for c in (competition.best_of(name) for name in competition.models) if c is not None]
    if not best:
        return None
    data, plan, loss = models.data, models.plan, competition.loss_of
    winner = min(best, key=lambda candidate: (-len(candidate.results), loss(candidate)))
    columns = [column.name for column in data.schema.inputs]
    folds = models.with_held_out(winner, deadline)
    order = None
    if deadline is not None:
        order = promising_order(folds, columns, plan.task != "regression", lambda: _training_rows(models, winner))
    permutation = permutation_importance(
        folds,
        plan.metric,
        columns,
        seed=plan.seed,
        n_repeats=N_REPEATS,
        n_jobs=plan.workers * plan.n_threads,
        max_rows=MOST_ROWS,
        deadline=deadline,
        order=order,
    )
    if math.isnan(permutation.score):
        title = metrics.get(plan.metric).title
        raise DataError(f"{title} is undefined on the {permutation.n_rows:,} held-out rows that are shuffled")
    attends, attention = attention_of_first() or (None, None)
    rows = combine(permutation, attention)
    rho = agreement(rows)
    return ev.ImportancesReady(
        rows=tuple(rows),
        model=winner.model,
        trial=winner.trial,
        identity=winner.identity,
        attention_model=None if attends is None else attends.model,
        attention_identity="" if attends is None else attends.identity,
        n_rows=permutation.n_rows,
        agreement=None if rho is None or np.isnan(rho) else rho,
        n_columns=len(columns),
    )


def importances_json(importances: ev.ImportancesReady, attention: Sequence[ModelAttention] = ()) -> bytes:
    """The importances as JSON for the run folder, with the attention of each model."""
    found = {**msgspec.to_builtins(importances), "attention": attention}
    return msgspec.json.format(msgspec.json.encode(found), indent=1)
