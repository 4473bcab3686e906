"""Compares tables with the training table of a bundle: shifts of columns, predictions, and scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tabapp.bundle.drift import ColumnDrift, DriftMonitor, largest_first
from tabapp.bundle.evaluate import evaluate
from tabapp.bundle.format import MetricValue
from tabapp.bundle.predict import Predictor
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


def column_drift(predictor: Predictor, frame: pl.DataFrame) -> tuple[ColumnDrift, ...]:
    """The drift of each feature column of a table as text, largest first; absent columns are missing in every row."""
    monitor = DriftMonitor(predictor.schema)
    monitor.add(predictor.typed_rows(frame, fill_missing_columns=True)[0])
    return largest_first(monitor.columns())


def compare_with_training(predictor: Predictor, frame: pl.DataFrame, metric: str, *, seed: int) -> Shift:
    """Compare a table as text with the training table.

    Args:
        metric: metric of the score.
        seed: seed of the bootstrap.

    Raises:
        BundleError: a model or its features fail.
    """
    found = predictor.predict_frame(frame, fill_missing_columns=True)
    classes = predictor.schema.classes
    means = np.atleast_1d(found.values.mean(axis=0)) if frame.height else np.zeros(max(len(classes), 1))
    predictions = dict(zip(classes or ("mean",), map(float, means), strict=True))
    score, scored = None, 0
    notes = list(found.notes)
    if predictor.schema.target in frame.columns and rows_with_target(frame, predictor.schema).any():
        try:
            evaluation = evaluate(predictor, frame, metric, seed=seed, fill_missing_columns=True)
        except DataError as error:
            notes.append(f"no score: {error}")
        else:
            score, scored = next((v for v in evaluation.metrics if v.name == metric), None), evaluation.scored
    return Shift(frame.height, column_drift(predictor, frame), predictions, score, scored, tuple(notes))
