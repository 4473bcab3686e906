"""Trains a candidate of a finished run again, on other rows or without a column."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.data.schema import Schema
from tabapp.data.split import early_stopping_rows
from tabapp.engine.candidates import Candidate
from tabapp.engine.finished import FinishedRun
from tabapp.engine.seeds import seed_of
from tabapp.engine.unlabeled import add_unlabeled, fitted_features
from tabapp.models import registry
from tabapp.models.contract import FitContext

Array = npt.NDArray[Any]


def fit_again(
    run: FinishedRun, candidate: Candidate, fold: int, rows: Array, schema: Schema, scored: Array | None = None
) -> Array:
    """Predictions of the held-out rows of a fold by the model, and its features, fitted on some rows with the columns of a schema.

    Args:
        rows: positions of training rows among the usable rows, in ascending order.
        scored: positions of the predicted rows in place of the held-out ones.
    """
    data, plan = run.data, run.plan
    seed = seed_of(plan.seed, candidate.model, fold)
    groups = None if data.groups is None else data.groups[rows]
    preparer, table = fitted_features(
        data.frame[rows.tolist()],
        schema,
        candidate.results[fold].recipe,
        seed,
        data.target[rows],
        groups,
        data.unlabeled,
    )
    weight = None if data.weight is None else data.weight[rows]
    table = replace(table, target=data.target[rows], weight=weight)
    stopping = early_stopping_rows(data.target, plan.task, rows, seed, groups=data.groups, time=data.time)
    plugin = registry.get(candidate.model)
    with tempfile.TemporaryDirectory(prefix="tabapp-fit-") as scratch:
        context = FitContext(
            task=plan.task,
            n_classes=plan.n_classes,
            metric=plan.metric,
            features=preparer.spec,
            seed=seed,
            device=plan.device if plugin.family == "deep" else "cpu",
            n_threads=plan.n_threads,
            folder=Path(scratch),
        )
        add_unlabeled(context, plugin, data.unlabeled, preparer)
        params = msgspec.convert(candidate.params, plugin.params_type)
        places = np.arange(len(rows))
        model = plugin.fit(table.take(places[~stopping]), table.take(places[stopping]), params, context)
    scored = data.held_out(fold) if scored is None else scored
    predicted = model.predict(preparer.transform(data.frame[scored.tolist()]))
    return np.asarray(predicted, dtype=np.float64)
