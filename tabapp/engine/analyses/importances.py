"""Feature importances of a run: permutation importance of the best model that is fast enough, and attention."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.loop.explained_model import LEAST_ROWS, explained_model, n_passes, rows_in_time, single_models
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.machine.devices import available_cores
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
LEAST_SECONDS = 0.25
"""Time of the shuffles when reading the models has taken all of it."""


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
    """Importances of the run's columns for the best model whose shuffles fit in the time; None if no model has a fold.

    Args:
        deadline: `time.monotonic()` after which no further shuffle starts, if the models are read by then.
        attention_of_first: the model with attention that is beside permutation, and the share of each column.
    """
    best = single_models(competition)
    if not best:
        return None
    data, plan = models.data, models.plan
    columns = [column.name for column in data.schema.inputs]
    n_columns, n_jobs = len(columns), min(plan.workers * plan.n_threads, available_cores())
    winner, max_rows, order = best[0], MOST_ROWS, None
    if deadline is not None:
        winner = explained_model(best, n_columns, deadline - time.monotonic(), n_jobs, MOST_ROWS)
    folds = models.with_held_out(winner, deadline, n_passes(n_columns, n_jobs))
    if deadline is not None:
        deadline = max(deadline, time.monotonic() + LEAST_SECONDS)
        n_rows = rows_in_time(winner, n_columns, deadline - time.monotonic(), n_jobs, MOST_ROWS)
        max_rows = max(LEAST_ROWS, n_rows)
        order = promising_order(folds, columns, plan.task != "regression", lambda: _training_rows(models, winner))
    permutation = permutation_importance(
        folds,
        plan.metric,
        columns,
        seed=plan.seed,
        n_repeats=N_REPEATS,
        n_jobs=n_jobs,
        max_rows=max_rows,
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
        n_columns=n_columns,
    )


def importances_json(importances: ev.ImportancesReady, attention: Sequence[ModelAttention] = ()) -> bytes:
    """The importances as JSON for the run folder, with the attention of each model."""
    found = {**msgspec.to_builtins(importances), "attention": attention}
    return msgspec.json.format(msgspec.json.encode(found), indent=1)
