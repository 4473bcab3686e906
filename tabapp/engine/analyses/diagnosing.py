"""Analyses of a finished run that train no model: threshold, robustness and fairness; each is an event of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import metrics
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.writing.threshold import set_threshold
from tabapp.column_names import ColumnNames
from tabapp.data.columns import column_of
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.fit.numbering import UsableRows
from tabapp.errors import BundleError, UsageError, did_you_mean
from tabapp.explain.decision import LEAST_SCORED_ROWS, assess_threshold, choose_threshold
from tabapp.explain.evaluation import sample_rows
from tabapp.explain.fairness import (
    CALIBRATION,
    ERROR,
    FALSE_POSITIVE,
    SELECTION,
    TRUE_POSITIVE,
    WRONG,
    classified_groups,
    gaps,
    regressed_groups,
)
from tabapp.explain.robustness import SHARES, Damage, robustness_curve
from tabapp.explain.slices import slices_of
from tabapp.findings import CurvePoint
from tabapp.run.analyses.fairness import FairnessReady
from tabapp.run.analyses.robustness import RobustnessReady
from tabapp.run.analyses.threshold import ThresholdChosen, value_of_threshold

Array = npt.NDArray[Any]

ROBUSTNESS_ROWS = 2_000


def choose_bundle_threshold(run: FinishedRun, metric: str) -> ThresholdChosen:
    """Choose the threshold of the positive class by a metric of labels, and write it to the bundle of the run.

    Args:
        metric: name of the metric, or "none" for 0.5. METRIC@VALUE keeps the threshold VALUE instead of the best one.

    Raises:
        UsageError: the run is no binary classification, has no bundle, or the metric does not depend on labels; or VALUE is not
            between 0 and 1.
        BundleError: the bundle is not valid.
    """
    if run.plan.task != "binary":
        raise UsageError(f"The run {run.folder.run} is a {run.plan.task}. Only a binary classifier has a threshold.")
    if not run.folder.bundle.is_file():
        raise UsageError(f"The run {run.folder.run} has no bundle, which would keep the threshold.")
    if metric == "none":
        set_threshold(run.folder.bundle, None)
        return ThresholdChosen(value=None)
    name, at, text = metric.partition("@")
    value = value_of_threshold(text) if at else None
    found = metrics.get(name)
    if not found.chooses_threshold:
        others = ", ".join(each.name for each in metrics.for_task("binary") if each.chooses_threshold)
        raise UsageError(
            f"{found.title} does not depend on a threshold. Choose one of {others} and {metrics.COST_EXAMPLE}."
        )
    if len(run.truth) < LEAST_SCORED_ROWS:
        raise UsageError(f"A threshold needs at least {LEAST_SCORED_ROWS} scored rows; the run has {len(run.truth)}.")
    if len(codes := np.unique(run.truth)) < 2:
        label = run.data.schema.classes[int(codes[0])]
        raise UsageError(
            f"A threshold needs scored rows of both classes; those of the run are all {label!r}. Start a run with another "
            "--validation, or without --time."
        )
    if value is not None:
        chosen = assess_threshold(found.name, value, run.truth, run.prediction, run.weight, seed=run.plan.seed)
    else:
        folds = run.rows.of(run.data.fold)
        chosen = choose_threshold(found.name, run.truth, run.prediction, folds, run.weight, seed=run.plan.seed)
    set_threshold(run.folder.bundle, chosen.value)
    return ThresholdChosen(
        metric=found.name,
        metric_title=found.title,
        greater_is_better=found.greater_is_better,
        positive=run.data.schema.classes[1],
        by_hand=value is not None,
        **msgspec.structs.asdict(chosen),
    )


class EnsembleOfFolds:
    """The ensemble, which predicts the held-out rows of each fold by the models of that fold."""

    def __init__(self, run: FinishedRun, most_rows: int) -> None:
        self._run = run
        folds = np.unique(run.rows.of(run.data.fold))
        rows = run.rows.at(sample_rows(len(run.rows), most_rows, run.plan.seed))
        self.rows = UsableRows.joined([rows.at(rows.of(run.data.fold) == fold) for fold in folds])
        models = run.models
        self._folds = {
            fold: [
                (weight, models.model(member, fold), models.features(member, fold).preparer)
                for member, weight in run.members
            ]
            for fold in folds.tolist()
        }
        """The share, the model and the feature preparation of each member, by fold."""

    def predict(self, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Array:
        """Predictions of `rows` after a change of their typed columns."""
        frame = change(self.rows.of(self._run.data.frame))
        fold = self.rows.of(self._run.data.fold)
        parts: list[Array] = []
        for number, members in self._folds.items():
            part = frame.filter(pl.Series(fold == number))
            if not part.height:
                continue
            values = [
                share * np.asarray(model.predict(preparer.transform(part)), dtype=np.float64)
                for share, model, preparer in members
            ]
            parts.append(np.sum(values, axis=0) / sum(share for share, _, _ in members))
        return np.concatenate(parts)


def measure_robustness(run: FinishedRun) -> RobustnessReady:
    """The score of the ensemble with missing and with noisy cells, on a sample of the held-out rows."""
    ensemble = EnsembleOfFolds(run, ROBUSTNESS_ROWS)
    columns = [column.name for column in run.data.schema.features]
    weight = ensemble.rows.of(run.data.weight)

    n_predicted = 0

    def predict(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Array:
        nonlocal n_predicted
        predicted = ensemble.predict(change)
        n_predicted += 1
        run.report(n_predicted / (2 * len(SHARES)))
        return predicted

    def curve(kind: Damage) -> tuple[CurvePoint, ...]:
        found = robustness_curve(
            predict,
            run.plan.metric,
            ensemble.rows.of(run.data.target),
            columns,
            kind,
            weight,
            seed=run.plan.seed,
        )
        return tuple(found)

    return RobustnessReady(n_rows=len(ensemble.rows), missing=curve("missing"), noisy=curve("noisy"))


def measure_fairness(run: FinishedRun, column: str) -> FairnessReady:
    """The out-of-fold predictions of the ensemble by the groups of a column, which may be an ignored one.

    Raises:
        UsageError: there is no such column, or it has fewer than two groups with enough rows.
    """
    there = set(run.data.frame.columns)
    known = {each.name: each for each in run.data.schema.columns if each.name in there}
    column = ColumnNames(known).one(column)
    if column not in known:
        hint = did_you_mean(column, known) or f"; use one of {', '.join(list(known)[:10])}."
        raise UsageError(f"There is no column {column!r}{hint}")
    if column == run.data.schema.target:
        raise UsageError(f"{column!r} is the target. Choose a column of the features, or an ignored one.")
    slices = slices_of(known[column], column_of(run.rows.of(run.data.frame), column))
    truth, seed = run.truth, run.plan.seed
    if run.plan.task == "regression":
        prediction = run.prediction.astype(np.float64)
        groups, label, threshold = regressed_groups(slices, truth, prediction, seed=seed), "", None
        error = prediction - truth

        def values_of(rate: str, level: str) -> Array:
            return (np.abs(error) if rate == ERROR else error)[rows_of[level]]

    else:
        code = len(run.data.schema.classes) - 1
        label, threshold = run.data.schema.classes[code], _threshold_of(run)
        probability = run.prediction[:, code].astype(np.float64)
        labels = run.prediction.argmax(axis=1) if threshold is None else (probability >= threshold).astype(np.int64)
        is_class, is_label, wrong = truth == code, labels == code, labels != truth
        groups = classified_groups(slices, is_class, is_label, probability, wrong, seed=seed)

        def values_of(rate: str, level: str) -> Array:
            rows = rows_of[level]
            return {
                SELECTION: is_label[rows],
                TRUE_POSITIVE: is_label[rows & is_class],
                FALSE_POSITIVE: is_label[rows & ~is_class],
                WRONG: wrong[rows],
                CALIBRATION: probability[rows] - is_class[rows],
            }[rate]

    rows_of = dict(slices)
    if len(groups) < 2:
        raise UsageError(f"The column {column!r} has fewer than two groups with enough rows. Choose another column.")
    return FairnessReady(
        column=column,
        label=label,
        threshold=threshold,
        groups=tuple(groups),
        gaps=tuple(gaps(groups, values_of, seed=seed)),
        left_out=sum(bool(rows.any()) for _, rows in slices) - len(groups),
    )


def _threshold_of(run: FinishedRun) -> float | None:
    """The threshold of the run's bundle."""
    if run.plan.task != "binary" or not run.folder.bundle.is_file():
        return None
    try:
        return open_bundle(run.folder.bundle).ensemble.threshold
    except BundleError:
        return None
