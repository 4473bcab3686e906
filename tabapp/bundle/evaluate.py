"""Scores of a bundle on labeled rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tabapp import metrics
from tabapp.bundle.format import MetricValue
from tabapp.bundle.predict import Predictor
from tabapp.data.columns import column_of
from tabapp.data.schema import Schema
from tabapp.data.typed import encode_target, rows_with_target, typed_frame
from tabapp.errors import DataError


@dataclass(frozen=True)
class Evaluation:
    """Scores on labeled rows.

    Attributes:
        metrics: every metric of the task with its 95 % bootstrap interval over the scored rows; None if undefined.
        rows: rows of the table; `scored` of them are scored.
        without_target: rows left out because their target is missing.
        unknown_classes: rows left out because their class is not in the training data, by label.
        notes: sentences about the input, for the user.
    """

    metrics: tuple[MetricValue, ...]
    rows: int
    scored: int
    without_target: int
    unknown_classes: dict[str, int]
    notes: tuple[str, ...]


def decided(name: str, predictor: Predictor, prediction: metrics.Array) -> metrics.Array:
    """The predictions as a metric takes them: metrics of labels score the labels that the threshold of the bundle gives."""
    if predictor.ensemble.threshold is None or metrics.get(name).needs_probability:
        return prediction
    return np.eye(prediction.shape[1])[predictor.labels(prediction)]


def evaluate(
    predictor: Predictor, frame: pl.DataFrame, metric: str, *, seed: int, fill_missing_columns: bool = False
) -> Evaluation:
    """Score a predictor on every row with a known target, weighted if the table has the weight column.

    Args:
        frame: the table as text, with the target column.
        metric: the metric to list first.
        seed: seed of the bootstrap.

    Raises:
        DataError: the target column is missing, no row can be scored, or feature columns are missing or mistyped.
    """
    schema = predictor.schema
    labeled = rows_with_target(frame, schema)
    unknown = _unknown_classes(frame.filter(pl.Series(labeled)), schema)
    usable = frame.filter(pl.Series(labeled))
    if unknown:
        target = column_of(typed_frame(usable[[schema.target]], schema), schema.target)
        usable = usable.filter(~target.is_in(list(unknown)))
    if usable.height == 0:
        raise DataError(f"no row has a known value in the target column {schema.target!r}")
    prediction = predictor.predict_frame(usable, fill_missing_columns=fill_missing_columns)
    typed = typed_frame(usable, schema)
    truth = encode_target(typed, schema)
    weight = _weights(typed, schema)
    names = metrics.names_for(schema.task, first=metric)
    notes = list(prediction.notes)
    if metric not in names:
        notes.append(f"the run's metric {metric!r} is not installed here, so its score is left out")
    values: list[MetricValue] = []
    for name in names:
        try:
            values.append(metric_value(name, truth, decided(name, predictor, prediction.values), weight, seed=seed))
        except Exception as error:
            # Third-party metrics may raise anything; the other scores stay useful.
            notes.append(f"the metric {name!r} is left out: {type(error).__name__}: {error}")
    return Evaluation(
        metrics=tuple(values),
        rows=frame.height,
        scored=usable.height,
        without_target=int((~labeled).sum()),
        unknown_classes=unknown,
        notes=tuple(notes),
    )


def metric_value(
    name: str, truth: metrics.Array, prediction: metrics.Array, weight: metrics.Array | None, *, seed: int
) -> MetricValue:
    """A metric with its interval; None if undefined, such as an area under a curve with only one class."""
    score = metrics.score(name, truth, prediction, weight)
    low, high = metrics.interval(name, truth, prediction, weight, seed=seed)
    return MetricValue(name=name, score=_defined(score), low=_defined(low), high=_defined(high))


def _defined(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _weights(typed: pl.DataFrame, schema: Schema) -> metrics.Array | None:
    """Row weights as in training: missing and negative weights are 0."""
    column = schema.with_role("weight")
    if column is None or column.name not in typed.columns or typed[column.name].null_count() == typed.height:
        return None
    return column_of(typed, column.name).cast(pl.Float64).fill_null(0.0).clip(0.0).to_numpy()


def _unknown_classes(labeled: pl.DataFrame, schema: Schema) -> dict[str, int]:
    """Labels that are not in the training data with their number of rows, most frequent first."""
    if schema.task == "regression":
        return {}
    target = typed_frame(labeled[[schema.target]], schema)
    labels = column_of(target, schema.target)
    counts = labels.value_counts(sort=True)
    found: dict[str, int] = {}
    for label, count in counts.iter_rows():
        if label not in schema.classes and not _is_known(target.filter(labels == label).head(1), schema):
            found[label] = count
    return found


def _is_known(row: pl.DataFrame, schema: Schema) -> bool:
    """Whether a label is another spelling of a class, such as 1.0 for 1."""
    try:
        encode_target(row, schema)
    except DataError:
        return False
    return True
