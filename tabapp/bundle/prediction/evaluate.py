"""Scores of a bundle on labeled rows."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl

from tabapp import metrics
from tabapp.bundle.files.records import MetricValue
from tabapp.bundle.prediction.predict import Predictor
from tabapp.data.columns import column_of
from tabapp.data.new_rows.rows import NewRows
from tabapp.data.schema import Schema
from tabapp.data.typed import encode_target, rows_with_target
from tabapp.ensemble.averaging import NO_AVERAGING, Averaging
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


class EvaluatedRows:
    """The targets and predictions of labeled rows, collected from one or several parts of a table.

    Args:
        fill, strict, decimal: as in `NewRows`.
    """

    def __init__(
        self, predictor: Predictor, *, fill: bool = False, strict: bool = False, decimal: str | None = None
    ) -> None:
        self._predictor = predictor
        self._fill, self._strict, self._decimal = fill, strict, decimal
        self._rows: NewRows | None = None
        self._n_rows = self._n_without_target = 0
        self._unknown: Counter[str] = Counter()
        self._truth: list[metrics.Array] = []
        self._prediction: list[metrics.Array] = []
        self._weight: list[metrics.Array] = []

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Predict the rows of a part, as text, whose target is known; returns the typed columns of all rows.

        Raises:
            DataError: the target column or a feature column is missing.
            BundleError: a model or its features fail.
        """
        if self._rows is None:
            schema = self._predictor.schema
            self._rows = NewRows(
                schema, frame.columns, fill=self._fill, strict=self._strict, decimal=self._decimal, with_target=True
            )
            self._rows.require_columns()
        typed = self._rows.add(frame)
        self.add_typed(typed)
        return typed

    def add_typed(self, typed: pl.DataFrame, values: metrics.Array | None = None) -> None:
        """Predict typed rows whose target is known.

        Args:
            values: predictions of all rows, if they are known.

        Raises:
            DataError: the target column is missing.
            BundleError: a model or its features fail.
        """
        schema = self._predictor.schema
        labeled = rows_with_target(typed, schema)
        usable, used = typed.filter(pl.Series(labeled)), np.flatnonzero(labeled)
        unknown = _unknown_classes(usable, schema)
        if unknown:
            known = ~column_of(usable, schema.target).is_in(list(unknown))
            usable, used = usable.filter(known), used[known.to_numpy()]
        self._n_rows += typed.height
        self._n_without_target += int((~labeled).sum())
        self._unknown.update(unknown)
        if usable.height == 0:
            return
        self._prediction.append(self._predictor.predict_rows(usable).values if values is None else values[used])
        self._truth.append(encode_target(usable, schema))
        self._weight.append(_weights(usable, schema))

    def evaluate(self, metric: str, *, seed: int) -> Evaluation:
        """Every metric of the task on the rows so far, weighted if the table has the weight column.

        Args:
            metric: the metric to list first.
            seed: seed of the bootstrap.

        Raises:
            DataError: no row has a known target, feature columns are mistyped, or the table differs and `strict` is set.
        """
        predictor, task = self._predictor, self._predictor.schema.task
        if not self._truth:
            raise DataError(f"no row has a known value in the target column {predictor.schema.target!r}")
        notes = [] if self._rows is None else self._rows.notes()
        truth, prediction = np.concatenate(self._truth), np.concatenate(self._prediction)
        weight: metrics.Array | None = np.concatenate(self._weight)
        # A column without a value does not weight.
        weight = None if np.isnan(weight).all() else np.nan_to_num(weight).clip(0.0)
        names = metrics.names_for(task, first=metric)
        if metric not in names:
            notes.append(f"the run's metric {metric!r} is not installed here, so its score is left out")
        values: list[MetricValue] = []
        for name in names:
            try:
                values.append(metric_value(name, truth, decided(name, predictor, prediction), weight, seed=seed))
            except Exception as error:
                # Third-party metrics may raise anything; the other scores stay useful.
                notes.append(f"the metric {name!r} is left out: {type(error).__name__}: {error}")
        return Evaluation(
            metrics=tuple(values),
            rows=self._n_rows,
            scored=len(truth),
            without_target=self._n_without_target,
            unknown_classes=dict(self._unknown.most_common()),
            notes=tuple(notes),
        )


def evaluate(
    predictor: Predictor,
    frame: pl.DataFrame,
    metric: str,
    *,
    seed: int,
    fill_missing_columns: bool = False,
    strict: bool = False,
    decimal: str | None = None,
) -> Evaluation:
    """Score a predictor on every row of a table, as text, with a known target; see `EvaluatedRows` for arguments and errors."""
    rows = EvaluatedRows(predictor, fill=fill_missing_columns, strict=strict, decimal=decimal)
    rows.add(frame)
    return rows.evaluate(metric, seed=seed)


def metric_value(
    name: str,
    truth: metrics.Array,
    prediction: metrics.Array,
    weight: metrics.Array | None,
    *,
    seed: int,
    averaging: Averaging = NO_AVERAGING,
    n_resamples: int = 200,
) -> MetricValue:
    """A metric with its interval; None if undefined, such as an area under a curve with only one class.

    Args:
        averaging: the gain of the mean of the models over the single ones that predicted.
        n_resamples: of the bootstrap; 0 leaves the interval out.
    """
    found = [metrics.score(name, truth, prediction, weight), math.nan, math.nan]
    if n_resamples:
        found[1:] = metrics.interval(name, truth, prediction, weight, seed=seed, n_resamples=n_resamples)
    score, low, high = map(_defined, averaging.interval(name, *found))
    return MetricValue(name=name, score=score, low=low, high=high)


def _defined(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _weights(typed: pl.DataFrame, schema: Schema) -> metrics.Array:
    """(rows,) row weights; NaN for a missing one, as in a table without the weight column."""
    column = schema.with_role("weight")
    if column is None or column.name not in typed.columns:
        return np.full(typed.height, np.nan)
    return column_of(typed, column.name).cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _unknown_classes(labeled: pl.DataFrame, schema: Schema) -> dict[str, int]:
    """Labels of typed rows that are not in the training data with their number of rows, most frequent first."""
    if schema.task == "regression":
        return {}
    target = labeled[[schema.target]]
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
