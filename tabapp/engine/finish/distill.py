"""Distillation: one model that imitates the ensemble of a run.

Hinton, Vinyals, Dean: "Distilling the Knowledge in a Neural Network", 2015, section 2; Bucilă, Caruana, Niculescu-Mizil: "Model
Compression", KDD 2006.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.bundle.writing.write import CandidateSource
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.finish.refit import Refitter
from tabapp.engine.fit.candidates import Score
from tabapp.engine.fit.fold_task import FoldTask
from tabapp.engine.loop.selection import Selected
from tabapp.engine.machine.devices import available_cores
from tabapp.engine.plan.make_plan import NOT_MONOTONIC, shape_of, supports_monotonic
from tabapp.errors import UsageError, option
from tabapp.features.prepare import recipe_for
from tabapp.models import registry
from tabapp.models.contract import MONOTONIC, Floats, Plugin

TEACHER_SHARE = 0.5
"""Share of the ensemble's prediction in the target of the student; the label has the rest."""


@dataclass(frozen=True)
class Distilled:
    """The student trained on all rows, its out-of-fold predictions of the scored rows, and their score."""

    source: CandidateSource
    prediction: Floats
    score: Score


def distill(
    run: FinishedRun, teacher: Selected, name: str, refitter: Refitter, report: Callable[[str], None]
) -> Distilled:
    """Train a student on the ensemble's out-of-fold predictions, mixed with the labels.

    NOTE[DIFF] the papers use the teacher's predictions of its own training rows, or of unlabeled ones. Out-of-fold predictions
    are not overfitted to the labels. The student of a fold is scored on rows that it was not trained on; the teacher's other
    models were, which makes the score slightly optimistic.

    Args:
        teacher: the ensemble with its cross-fitted predictions.
        report: called with what is being done.

    Raises:
        UsageError: the model is unknown or does not support the table, or the run has a single holdout.
    """
    plan, data = run.plan, run.data
    if data.n_folds < 2:
        raise UsageError(
            f"{option('distill')} needs predictions of all rows, which a run with one holdout does not have."
        )
    plugin, params = _student(run, name)
    soft = _soft_targets(run, teacher)
    recipe = recipe_for(plugin.features_for(msgspec.convert(params, plugin.params_type)), data.schema)
    prediction: Floats | None = None
    summaries: list[dict[str, Any]] = []
    for fold in range(data.n_folds):
        report(f"distilling into {name}, fold {fold + 1} of {data.n_folds}")
        features = run.features.saved(recipe, fold)
        task = FoldTask(
            goal=plan,
            model=name,
            params=params,
            features=features,
            device=run.models.device_of(name),
            n_threads=available_cores(),
            soft=soft,
        )
        model = task.train().model
        summaries.append(model.summary())
        held_out = data.held_out(fold)
        part = model.predict(replace(held_out.of(features.table), target=None))
        if prediction is None:
            prediction = np.zeros((len(data.target), *part.shape[1:]), dtype=part.dtype)
        held_out.put(prediction, part)
    assert prediction is not None
    report(f"distilling into {name}, all rows")
    trials = [trial for model, trial in run.candidates if model == name]
    source = refitter.train(name, max(trials, default=-1) + 1, params, recipe, summaries, weight=1.0, soft=soft)
    scored = data.scored.of(prediction)
    truth, weight = run.scorer.target, run.scorer.weight
    value = metrics.score(plan.metric, truth, scored, weight)
    return Distilled(
        source, scored, Score(value, *metrics.interval(plan.metric, truth, scored, weight, seed=plan.seed))
    )


def _student(run: FinishedRun, name: str) -> tuple[Plugin, dict[str, Any]]:
    """The plugin of the student, with the hyperparameters of its best trial in the run or else its defaults."""
    plugin = registry.get(name)
    if run.plan.task not in plugin.tasks:
        raise UsageError(
            f"The model {name!r} does not support a {run.plan.task} task. Choose another {option('distill')}."
        )
    if run.plan.monotonic and not supports_monotonic(plugin):
        raise UsageError(f"The model {name!r} {NOT_MONOTONIC}. Choose another {option('distill')}.")
    shape = shape_of(run.plan, run.data.schema)
    if (reason := plugin.supports(run.plan.task, shape)) is not None:
        raise UsageError(f"The model {name!r} cannot be used here. {reason}")
    tried = [c for c in run.candidates.values() if c.model == name and c.is_complete]
    if tried:
        return plugin, min(tried, key=lambda c: (run.scorer.loss(c), c.key)).params
    params = msgspec.to_builtins(plugin.defaults(run.plan.task, shape, "cpu"))
    return plugin, params | ({MONOTONIC: run.plan.monotonic} if run.plan.monotonic else {})


def _soft_targets(run: FinishedRun, teacher: Selected) -> npt.NDArray[np.float64]:
    """(rows, classes) or (rows,): the teacher's predictions mixed with the labels; the labels alone where it has none."""
    data, n_classes = run.data, run.plan.n_classes
    truth = (
        data.target.astype(np.float64)
        if run.plan.task == "regression"
        else np.eye(n_classes)[data.target.astype(np.int64)]
    )
    scored = data.scored.at(teacher.covered)
    soft = truth.copy()
    scored.put(soft, TEACHER_SHARE * teacher.prediction + (1 - TEACHER_SHARE) * scored.of(truth))
    return soft
