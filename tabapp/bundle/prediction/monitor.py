"""Compares tables with the training table of a bundle: shifts of columns, predictions, and scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tabapp.bundle.files.records import MetricValue
from tabapp.bundle.prediction.drift import ColumnDrift, DriftMonitor, largest_first
from tabapp.bundle.prediction.evaluate import EvaluatedRows
from tabapp.bundle.prediction.predict import Predictor
from tabapp.data.new_rows.rows import NewRows
from tabapp.data.typed import rows_with_target
from tabapp.errors import DataError


@dataclass(frozen=True)
class Shift:
    """A table compared with the training table.

    Attributes:
        columns: largest shift first.
        predictions: mean probability of each class, or the mean prediction as `mean`.
        score: of the given metric on `scored` labeled rows; None without any.
        notes: sentences about the table, for the user.
    """

    rows: int
    columns: tuple[ColumnDrift, ...]
    predictions: dict[str, float]
    score: MetricValue | None
    scored: int
    notes: tuple[str, ...]


def column_drift(predictor: Predictor, frame: pl.DataFrame, *, decimal: str | None = None) -> tuple[ColumnDrift, ...]:
    """The drift of each feature column of a table as text, largest first; absent columns are missing in every row."""
    monitor = DriftMonitor(predictor.schema)
    monitor.add(predictor.typed_rows(frame, fill_missing_columns=True, decimal=decimal)[0])
    return largest_first(monitor.columns())


class ComparedRows:
    """Rows compared with the training table, collected from one or several parts of a table. Absent columns are missing cells.

    Args:
        strict, decimal: as in `NewRows`.
    """

    def __init__(self, predictor: Predictor, *, strict: bool = False, decimal: str | None = None) -> None:
        self._predictor = predictor
        self._strict, self._decimal = strict, decimal
        self._rows: NewRows | None = None
        self._monitor = DriftMonitor(predictor.schema)
        self._evaluated = EvaluatedRows(predictor, fill=True)
        self._total = np.zeros(max(len(predictor.schema.classes), 1))
        self._n_rows = 0
        self._has_labels = False
        self._no_score = ""

    def add(self, frame: pl.DataFrame) -> None:
        """Predict and count the rows of a part, as text.

        Raises:
            BundleError: a model or its features fail.
        """
        predictor = self._predictor
        if self._rows is None:
            self._rows = NewRows(
                predictor.schema,
                frame.columns,
                fill=True,
                strict=self._strict,
                decimal=self._decimal,
                with_target=True,
            )
        typed = self._rows.add(frame)
        values = predictor.predict_rows(typed).values
        self._total += values.sum(axis=0)
        self._n_rows += frame.height
        self._monitor.add(typed)
        if predictor.schema.target not in frame.columns or self._no_score:
            return
        self._has_labels = self._has_labels or bool(rows_with_target(typed, predictor.schema).any())
        try:
            self._evaluated.add_typed(typed, values)
        except DataError as error:
            self._no_score = str(error)

    def shift(self, metric: str, *, seed: int) -> Shift:
        """The comparison of the rows so far.

        Args:
            metric: metric of the score.
            seed: seed of the bootstrap.

        Raises:
            DataError: the table differs and `strict` is set.
        """
        means = self._total / max(self._n_rows, 1)
        predictions = dict(zip(self._predictor.schema.classes or ("mean",), map(float, means), strict=True))
        notes = [] if self._rows is None else self._rows.notes()
        score, scored = None, 0
        if self._has_labels and not self._no_score:
            try:
                evaluation = self._evaluated.evaluate(metric, seed=seed)
            except DataError as error:
                self._no_score = str(error)
            else:
                score, scored = next((v for v in evaluation.metrics if v.name == metric), None), evaluation.scored
        if self._no_score:
            notes.append(f"no score: {self._no_score}")
        return Shift(self._n_rows, largest_first(self._monitor.columns()), predictions, score, scored, tuple(notes))


def compare_with_training(
    predictor: Predictor,
    frame: pl.DataFrame,
    metric: str,
    *,
    seed: int,
    strict: bool = False,
    decimal: str | None = None,
) -> Shift:
    """Compare a table as text with the training table; see `ComparedRows` for arguments and errors."""
    rows = ComparedRows(predictor, strict=strict, decimal=decimal)
    rows.add(frame)
    return rows.shift(metric, seed=seed)
