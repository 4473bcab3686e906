"""The prior-fitted network as a model of a user's plugin folder, which `benchmarks.prior.in_runs` adds to runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tabapp_plugins.foundation.context import ContextPlugin
from tabapp_plugins.foundation.model import ContextParams, Reader, Saved
from tabapp_plugins.foundation.networks import bytes_of

from tabapp.features.arrays import MISSING, UNSEEN, Table
from tabapp.models.contract import Cost, Float32, Params, Shape, Task
from tabapp.weights.pretrained import Pretrained


class _Reader:
    """The network with its context."""

    def __init__(self, trained: Any, saved: Saved, rows: Table) -> None:
        from benchmarks.prior.predictor import Context, Predictor

        assert rows.target is not None
        categorical = np.arange(rows.numeric.shape[1] + rows.categorical.shape[1]) >= rows.numeric.shape[1]
        self.context = Context(
            Predictor(trained, saved.params.n_estimators),
            _matrix(rows),
            categorical,
            np.asarray(rows.target, dtype=np.int64),
            n_classes=saved.n_classes,
            seed=saved.seed,
        )

    @property
    def n_bytes(self) -> int:
        return bytes_of(self.context.memories)

    def predict(self, table: Table) -> npt.NDArray[np.floating[Any]]:
        return self.context.predict(_matrix(table))

    def attention(self, table: Table) -> list[Float32]:
        raise NotImplementedError("the attention of this draft is not read")


def _matrix(table: Table) -> npt.NDArray[np.float64]:
    """Numbers and codes of categories; missing and unseen levels are NaN."""
    codes = table.categorical.astype(np.float64)
    codes[(table.categorical == MISSING) | (table.categorical == UNSEEN)] = np.nan
    return np.concatenate([table.numeric.astype(np.float64), codes], axis=1)


class PriorFitted(ContextPlugin):
    """Context rows are limited to 1,024, the most of a table in training. Computes on the CPU."""

    name = "prior_fitted"
    title = "Prior-fitted network"
    paper = "Hollmann et al. 2023, TabPFN"
    tasks = ("binary", "multiclass")
    uses_device = False
    starts_first = True
    requires = ("torch", "safetensors")
    most_features = 60
    seconds_per_cell = 4e-5
    seconds_per_row = 2e-4
    bytes_per_row = 40_000
    weights = (
        Pretrained(
            name="prior-fitted",
            group="prior-fitted",
            tasks=("binary", "multiclass"),
            repository="",
            revision="",
            files=("weights.safetensors",),
            license="Apache-2.0",
            license_url="",
            n_parameters=3_185_974,
        ),
    )

    def weights_for(self, task: Task, params: Params) -> Pretrained:
        return self.weights[0]

    def defaults(self, task: Task, shape: Shape, device: str) -> ContextParams:
        return ContextParams(n_estimators=2, max_context=1_024)

    def search_space(self, trial: Any, task: Task, shape: Shape, device: str) -> ContextParams:
        return ContextParams(n_estimators=trial.suggest_int("n_estimators", 1, 4), max_context=1_024)

    def merit(self, task: Task, shape: Shape) -> float:
        """It starts first on tables that are no larger than those of its training."""
        return 40.0 if shape.n_rows <= 1_500 else 1.0

    def cost(self, task: Task, shape: Shape, params: Params, device: str) -> Cost:
        """Without the second that larger networks take to be read from their file."""
        whole = super().cost(task, shape, params, device)
        return replace(whole, seconds=whole.seconds - 0.9)

    def built(self, weights: str, path: Path, device: str) -> Any:
        from benchmarks.prior.predictor import Predictor

        return Predictor.load(path).network

    def reader(self, network: Any, saved: Saved, rows: Table, device: str) -> Reader:
        return _Reader(network, saved, rows)

    def converted(self, weights: str, tensors: Mapping[str, Any], config: Any) -> dict[str, Any]:
        return dict(tensors)
