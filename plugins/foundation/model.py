"""The fitted model of a pre-trained network: training rows as its context, and which of them a prediction rests on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import MISSING, UNSEEN, FeatureSpec, Table
from tabapp.features.saved import demand
from tabapp.models.contract import (
    FittedModel,
    Float32,
    Floats,
    Params,
    RowNeighbors,
    RowWeights,
    StoredRows,
    Task,
)
from tabapp.weights.pretrained import UsedWeights

from .networks import may_keep

MODEL, ROWS = "model.json", "context.safetensors"
BATCH = 64
"""Rows that are predicted at once. Fewer are repeated up to this number, so that a row gets the same answer alone and among
others."""


class ContextParams(Params, frozen=True, kw_only=True):
    """Attributes:
    n_estimators: passes over the context whose predictions are averaged. Each sees the columns and classes in another order.
    max_context: training rows that are kept as context: a seeded sample with the shares of the classes if there are more.
    """

    n_estimators: int = 4
    max_context: int = 4_096


class Saved(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A saved model without its rows.

    Attributes:
        n_classes: number of classes; 1 for regression.
        cardinalities: number of codes of each categorical column.
        n_rows: number of context rows.
        seed: seed of the estimators.
    """

    task: Task
    n_classes: int
    n_numeric: int
    cardinalities: tuple[int, ...]
    params: ContextParams
    n_rows: int
    seed: int
    weights: UsedWeights


class Readers(Protocol):
    """The plugin of a model, as the model needs it."""

    def read(self, saved: Saved, rows: Table, device: str) -> Reader:
        """The network after it has read the context."""
        ...


class Reader(Protocol):
    """A pre-trained network that has read a context."""

    @property
    def n_bytes(self) -> int:
        """Memory of what it has read."""
        ...

    def predict(self, table: Table) -> npt.NDArray[np.floating[Any]]:
        """(rows, classes) probabilities, or (rows,) numbers in target units."""
        ...

    def attention(self, table: Table) -> list[Float32]:
        """Attention of rows to the context by layer, (heads, rows, n) averaged over the estimators; sums to 1 over the context."""
        ...


def matrix_of(table: Table) -> Float32:
    """(rows, columns) numbers, and codes of categories behind them; missing and unseen levels are NaN."""
    codes = table.categorical.astype(np.float32)
    codes[(table.categorical == MISSING) | (table.categorical == UNSEEN)] = np.nan
    return np.concatenate([table.numeric, codes], axis=1)


class ContextModel(FittedModel):
    """Training rows that a pre-trained network reads before it predicts.

    Attributes:
        rows: the context, with its targets.
        source: (n,) int64 positions of these rows among those passed to `fit`.
    """

    def __init__(self, plugin: Readers, saved: Saved, rows: Table, source: npt.NDArray[np.int64], device: str) -> None:
        self.plugin, self.saved, self.rows, self.source = plugin, saved, rows, source
        self.device = device
        self._reader: Reader | None = None

    def to(self, device: str) -> None:
        if device != self.device:
            self.device, self._reader = device, None

    def read(self) -> Reader:
        """The network with the context, which is read unless it is in memory."""
        if self._reader is None:
            target = self.rows.target
            assert target is not None
            # A part of the rows may have one class only, which the networks do not expect.
            if self.saved.task != "regression" and len(np.unique(target)) == 1:
                self._reader = _OneClass(int(target[0]), self.saved.n_classes, len(self.rows))
            else:
                self._reader = self.plugin.read(self.saved, self.rows, self.device)
        return self._reader

    def predict(self, table: Table) -> Floats:
        if not len(table):
            is_number = self.saved.task == "regression"
            return np.zeros(0) if is_number else np.zeros((0, self.saved.n_classes), dtype=np.float32)
        parts = self._by_batch(table, lambda reader, rows: reader.predict(rows))
        values = np.concatenate(parts)[: len(table)].astype(np.float64)
        if self.saved.task == "regression":
            return values
        return (values / values.sum(axis=1, keepdims=True)).astype(np.float32)

    def row_weights(self, table: Table) -> list[RowWeights]:
        """Attention of the rows of a table to the context, by layer and head."""
        parts = self._by_batch(table, lambda reader, rows: reader.attention(rows))
        layers = [np.concatenate(layer, axis=1)[:, : len(table)] for layer in zip(*parts, strict=True)]
        return [
            RowWeights(f"layer {place}" if len(layers) > 1 else "", heads)
            for place, heads in enumerate(layers, start=1)
        ]

    def stored_rows(self) -> ContextRows:
        return ContextRows(self)

    def row_neighbors(self, table: Table, n: int) -> RowNeighbors:
        """The context rows with the highest attention, mean over heads, layers and estimators."""
        n = min(n, len(self.rows))
        if not len(table):
            return RowNeighbors(np.zeros((0, n), dtype=np.int64), np.zeros((0, n), dtype=np.float32))
        shares = self.stored_rows().shares(table)
        nearest = np.argsort(-shares, axis=1, kind="stable")[:, :n]
        return RowNeighbors(self.source[nearest], np.take_along_axis(shares, nearest, axis=1))

    def with_context(self, rows: Table, source: npt.NDArray[np.int64]) -> ContextModel:
        """The same network with other rows as context."""
        saved = msgspec.structs.replace(self.saved, n_rows=len(rows))
        return ContextModel(self.plugin, saved, rows, source, self.device)

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        assert self.rows.target is not None
        target = np.asarray(self.rows.target, dtype=np.float64)
        arrays: dict[str, npt.NDArray[Any]] = {
            "numeric": self.rows.numeric,
            "categorical": self.rows.categorical,
            "target": target,
            "source": self.source,
        }
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / ROWS)
        (folder / MODEL).write_text(json.dumps(msgspec.to_builtins(self.saved)))

    def check(self, features: FeatureSpec, task: Task, n_classes: int) -> None:
        saved = self.saved
        demand((saved.task, saved.n_classes) == (task, n_classes), "it was made for another target")
        sizes = (len(features.numeric), features.cardinalities)
        demand((saved.n_numeric, saved.cardinalities) == sizes, "it was made for other columns")

    def pretrained(self) -> UsedWeights:
        return self.saved.weights

    def summary(self) -> dict[str, Any]:
        return {
            "context_rows": len(self.rows),
            "estimators": self.saved.params.n_estimators,
            "weights": self.saved.weights.name,
            "weights_license": self.saved.weights.license,
        }

    def _by_batch(self, table: Table, asked: Callable[[Reader, Table], Any]) -> list[Any]:
        """What the network answers for batches of equal size."""
        if not len(table):
            return []
        reader = self.read()
        try:
            return [
                asked(reader, table.take(np.arange(start, start + BATCH) % len(table)))
                for start in range(0, len(table), BATCH)
            ]
        finally:
            if not may_keep(self, reader.n_bytes):
                self._reader = None


class ContextRows(StoredRows):
    """The context of a model. The network reads changed contexts like any other."""

    def __init__(self, model: ContextModel) -> None:
        self.source = model.source
        self._model = model

    def predict(self, table: Table) -> Floats:
        return self._model.predict(table)

    def weights(self, table: Table) -> list[RowWeights]:
        return self._model.row_weights(table)

    def take(self, rows: npt.NDArray[np.int64]) -> ContextRows:
        return ContextRows(self._model.with_context(self._model.rows.take(rows), self.source[rows]))

    def permuted(self, seed: int) -> ContextRows:
        rows, random = self._model.rows, np.random.default_rng(seed)
        assert rows.target is not None
        mixed = Table(
            random.permuted(rows.numeric, axis=0),
            random.permuted(rows.categorical, axis=0),
            random.permuted(rows.target),
        )
        return ContextRows(self._model.with_context(mixed, np.arange(len(rows))))


class _OneClass:
    """The answer from rows of a single class: that class, and the same attention to each row."""

    n_bytes = 0

    def __init__(self, code: int, n_classes: int, n_rows: int) -> None:
        self.code, self.n_classes, self.n_rows = code, n_classes, n_rows

    def predict(self, table: Table) -> npt.NDArray[np.floating[Any]]:
        return np.tile(np.eye(self.n_classes)[self.code], (len(table), 1))

    def attention(self, table: Table) -> list[Float32]:
        return [np.full((1, len(table), self.n_rows), 1 / self.n_rows, dtype=np.float32)]
