"""Counts the rows of predictions for drift."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from tabapp.bundle.confined.box import BoxedPredictor
from tabapp.bundle.prediction.drift import DriftMonitor
from tabapp.bundle.prediction.predict import Decomposition, Float64, Predictor
from tabapp.models.contract import RowNeighbors


class WatchingPredictor(Predictor):
    """A predictor in another process, whose rows are counted for drift."""

    def __init__(self, boxed: BoxedPredictor, drift: DriftMonitor) -> None:
        super().__init__(boxed.schema, boxed.ensemble, boxed.where)
        self._boxed = boxed
        self._drift = drift

    def predict_batch(self, batch: pl.DataFrame, progress: Callable[[float], None]) -> Float64:
        values = self._boxed.predict_batch(batch, progress)
        self._drift.add(batch)
        return values

    def decompose(
        self, batch: pl.DataFrame, model: str, code: int, reference: pl.DataFrame | None = None
    ) -> Decomposition | None:
        return self._boxed.decompose(batch, model, code, reference)

    def neighbors(self, batch: pl.DataFrame, models: Mapping[str, int]) -> dict[str, RowNeighbors]:
        return self._boxed.neighbors(batch, models)
