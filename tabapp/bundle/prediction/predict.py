"""Predictions of new rows: what every ensemble offers, whether this process or a confined one has its models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.bundle.files.records import COVERAGES, Ensemble
from tabapp.bundle.prediction.intervals import INTERVAL_LEVEL, scale_at
from tabapp.data.new_rows.rows import NewRows
from tabapp.data.schema import Schema
from tabapp.ensemble.scaling import calibrated
from tabapp.errors import BundleError, UsageError
from tabapp.models.contract import RowNeighbors
from tabapp.models.explanations import Unit

_BATCH_ROWS = 50_000

Float64 = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.floating] | npt.NDArray[np.integer]


@dataclass(frozen=True)
class Prediction:
    """Predictions of an ensemble.

    Attributes:
        values: (rows, classes) probabilities that sum to 1, or (rows,) in target units.
        low, high: (rows,) bounds of the 90 % prediction interval; None for classification.
        notes: sentences about the input, for the user, such as ignored or filled columns.
    """

    values: Float64
    low: Float64 | None = None
    high: Float64 | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decomposition:
    """The output of one model of the ensemble, or of all, as a sum: `base` plus the contributions of all columns.

    Attributes:
        unit: "target", "log-target" for the logarithm of a prediction, or "log-odds" for a classification.
        columns: (rows,) contributions by column.
        method: "TreeSHAP" or "integrated gradients".
        errors: (rows,) completeness errors in the unit, which were distributed over the columns; 0 if exact.
    """

    base: float
    unit: Unit
    columns: dict[str, Float64]
    method: str
    errors: Float64


class Predictor(ABC):
    """An ensemble that is ready to predict. `where` is the name of its bundle in error messages."""

    def __init__(self, schema: Schema, ensemble: Ensemble, where: str = "the ensemble") -> None:
        self.schema = schema
        self.ensemble = ensemble
        self.where = where

    @abstractmethod
    def decompose(
        self, batch: pl.DataFrame, model: str, code: int, reference: pl.DataFrame | None = None
    ) -> Decomposition | None:
        """The contribution of each column to the output of one model, averaged over its folds and weighted over its trials; None
        if the model does not decompose its output, or its trials have outputs of different units.

        Args:
            batch: typed rows.
            model: name of the plugin.
            code: the explained class; 0 for regression.
            reference: typed rows from which integrated gradients start; None asks for exact contributions only.

        Raises:
            BundleError: the model or its features fail, or give numbers that are not finite.
        """

    def decompose_exactly(self, batch: pl.DataFrame) -> Decomposition | None:
        """The exact contribution of each column to the prediction of a regression, if all models are boosters with TreeSHAP of the
        target.

        The prediction is then the weighted mean of sums. The probabilities of a classification are not: None.

        Raises:
            BundleError: a model or its features fail, or give numbers that are not finite.
        """
        if self.schema.classes:
            return None
        weights: dict[str, float] = {}
        for candidate in self.ensemble.candidates:
            weights[candidate.model] = weights.get(candidate.model, 0.0) + candidate.weight
        base = 0.0
        columns = {column.name: np.zeros(batch.height) for column in self.schema.inputs}
        for model, weight in weights.items():
            found = self.decompose(batch, model, 0)
            if found is None or found.unit != "target":
                return None
            base += weight * found.base
            for name, values in found.columns.items():
                columns[name] += weight * values
        return Decomposition(base, "target", columns, "TreeSHAP", np.zeros(batch.height))

    @abstractmethod
    def neighbors(self, batch: pl.DataFrame, models: Mapping[str, int]) -> dict[str, RowNeighbors]:
        """The stored rows with the largest weights in each prediction of typed rows, by folder of the fold model.

        Args:
            models: the folders to ask, each with its number of stored rows.

        Raises:
            BundleError: a model or its features fail, or answer with rows that it cannot have.
        """

    @abstractmethod
    def predict_batch(self, batch: pl.DataFrame, progress: Callable[[float], None]) -> Float64:
        """(rows, classes) or (rows,) weighted means of the models' predictions.

        Args:
            batch: typed rows.
            progress: called with the share of the models that are done, in (0, 1].
        """

    def predict_frame(
        self,
        frame: pl.DataFrame,
        *,
        fill_missing_columns: bool = False,
        strict: bool = False,
        decimal: str | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Prediction:
        """Predict every row of a table, in its order.

        Args:
            frame: the table as text, as `read_table` gives it; columns in any order; other columns are ignored.
            fill_missing_columns: treat absent and mistyped feature columns as missing.
            strict: reject a table that differs from training, such as by the scale of a column.
            decimal: as in `NewRows`: `Reading.decimal` of a file.
            progress: called with the share done, in (0, 1], after each model has predicted a batch of rows.

        Raises:
            DataError: feature columns are absent or mistyped, or the table differs and `strict` is set; names all columns.
            BundleError: a model or its features fail, or predict values that are not finite.
        """
        typed, notes = self.typed_rows(frame, fill_missing_columns=fill_missing_columns, strict=strict, decimal=decimal)
        return replace(self.predict_rows(typed, progress), notes=tuple(notes))

    def predict_rows(self, typed: pl.DataFrame, progress: Callable[[float], None] | None = None) -> Prediction:
        """Predict typed rows, with intervals for a regression; arguments and errors are those of `predict_typed`."""
        values = self.predict_typed(typed, progress)
        if self.schema.classes:
            return Prediction(values)
        if self.ensemble.residual_quantile is None:
            return Prediction(values, np.full(len(values), np.nan), np.full(len(values), np.nan))
        return Prediction(values, *self.interval(values))

    def typed_rows(
        self,
        frame: pl.DataFrame,
        *,
        fill_missing_columns: bool = False,
        strict: bool = False,
        decimal: str | None = None,
    ) -> tuple[pl.DataFrame, list[str]]:
        """The typed columns of a table as text, and notes for the user; arguments and errors are those of `predict_frame`."""
        rows = NewRows(self.schema, frame.columns, fill=fill_missing_columns, strict=strict, decimal=decimal)
        return rows.add(frame), rows.notes()

    def predict_typed(self, typed: pl.DataFrame, progress: Callable[[float], None] | None = None) -> Float64:
        """Predict typed rows: (rows, classes) probabilities that sum to 1, or (rows,) in target units.

        Raises:
            BundleError: a model or its features fail, or predict values that are not finite.
        """
        n_classes = len(self.schema.classes)
        values = np.zeros((typed.height, n_classes) if n_classes else typed.height, dtype=np.float64)
        starts = range(0, typed.height, _BATCH_ROWS)
        for n_done, start in enumerate(starts):

            def report(share: float, n_done: int = n_done) -> None:
                if progress is not None:
                    progress((n_done + share) / len(starts))

            values[start : start + _BATCH_ROWS] = self.predict_batch(typed[start : start + _BATCH_ROWS], report)
        if not np.isfinite(values).all():
            raise BundleError(f"{self.where} predicts values that are not finite. Do not use this bundle.")
        if n_classes:
            values = np.clip(values, 0.0, 1.0)
            if values.size and values.sum(axis=1).min() <= 0:
                raise BundleError(f"{self.where} predicts no class for a row. Do not use this bundle.")
            values /= values.sum(axis=1, keepdims=True)
            return calibrated(values, self.ensemble.calibration)
        return values

    def interval(self, values: Float64, coverage: float = INTERVAL_LEVEL) -> tuple[Float64, Float64]:
        """Both ends of the intervals around predictions, each (rows,) in target units.

        Args:
            values: (rows,) predictions in target units.
            coverage: share of new rows that the intervals cover; rounded up to one of `COVERAGES`.

        Raises:
            UsageError: the task is a classification, the share is out of range, or the bundle stores 90 % intervals only.
        """
        half = self.half_width(coverage) * scale_at(self.ensemble.interval_scale, values)
        return values - half, values + half

    def half_width(self, coverage: float) -> float:
        """Mean half-width of the intervals, before it is multiplied by the factor of a prediction.

        Raises:
            UsageError: the task is a classification, the share is out of range, or the bundle stores 90 % intervals only.
        """
        ensemble = self.ensemble
        if ensemble.residual_quantile is None:
            raise UsageError(
                "Prediction intervals are available for regression only. For classification, use the predicted probabilities."
            )
        if not 0 < coverage <= COVERAGES[-1]:
            raise UsageError(f"The coverage {coverage!r} is out of range. Use a share above 0, up to {COVERAGES[-1]}.")
        if not ensemble.half_widths:
            if coverage == INTERVAL_LEVEL:
                return ensemble.residual_quantile
            raise UsageError("The bundle was made by an older tabapp and stores 90 % intervals only; train it again.")
        return ensemble.half_widths[bisect_left(COVERAGES, coverage)]

    def labels(self, values: Float64) -> npt.NDArray[np.intp]:
        """(rows,) class codes of (rows, classes) probabilities: by the threshold of the bundle, or the most probable class."""
        threshold = self.ensemble.threshold
        return values.argmax(axis=1) if threshold is None else (values[:, 1] >= threshold).astype(np.intp)

    @property
    def output_columns(self) -> list[str]:
        """Names of the columns of `to_frame`."""
        probabilities = [f"probability_{label}" for label in self.schema.classes]
        return ["prediction", *(probabilities or ["low", "high"])]

    def to_frame(self, prediction: Prediction) -> pl.DataFrame:
        """Predictions as columns: `prediction`, then `probability_<class>` for every class, or `low` and `high`."""
        if self.schema.classes:
            labels = pl.Series("prediction", self.schema.classes, dtype=pl.String)
            chosen = self.labels(prediction.values)
            probabilities = {
                f"probability_{label}": prediction.values[:, code] for code, label in enumerate(self.schema.classes)
            }
            return pl.DataFrame({"prediction": labels.gather(chosen), **probabilities})
        return pl.DataFrame({"prediction": prediction.values, "low": prediction.low, "high": prediction.high})
