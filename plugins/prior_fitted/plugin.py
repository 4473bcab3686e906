"""The prior-fitted network as a model of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.features.arrays import Table
from tabapp.models.contract import Float32, Params, Shape, Task, Trial
from tabapp.weights.pretrained import Pretrained

from ..foundation.context import ContextPlugin
from ..foundation.model import ContextParams, Reader, Saved, matrix_of
from ..foundation.networks import bytes_of

MOST_ROWS = 2_000
"""Rows of a table above which it does not start by default: it was judged with up to 1,000 rows of context, and trained with up to
942 (`benchmarks/results/prior_judge_one_pass.json`)."""


class _Reader:
    """The network with its context."""

    def __init__(self, network: Any, saved: Saved, rows: Table) -> None:
        from .reading import Context, Predictor

        assert rows.target is not None
        n_numeric = rows.numeric.shape[1]
        self.context = Context(
            Predictor(network, saved.params.n_estimators),
            matrix_of(rows),
            np.arange(n_numeric + rows.categorical.shape[1]) >= n_numeric,
            np.asarray(rows.target, dtype=np.int64),
            n_classes=saved.n_classes,
            seed=saved.seed,
        )

    @property
    def n_bytes(self) -> int:
        return bytes_of(self.context.memories)

    def predict(self, table: Table) -> npt.NDArray[np.floating[Any]]:
        return self.context.predict(matrix_of(table))

    def attention(self, table: Table) -> list[Float32]:
        return self.context.attention(matrix_of(table))


class PriorFitted(ContextPlugin):
    """NOTE[DIFF]: smaller than TabPFN, trained for minutes, for classification only. It computes on the CPU."""

    name = "prior_fitted"
    title = "Prior-fitted network"
    paper = "Hollmann et al. 2023, TabPFN"
    tasks = ("binary", "multiclass")
    uses_device = False
    # As the base class has it; stated here, it is read before the plugin is imported.
    trains_nothing = True
    starts_first = True
    # A second pass adds nothing to an ensemble (`defaults`), and its fits take the time of another model's.
    most_trials = 1
    requires = ("torch", "safetensors")
    most_features = 60
    seconds_to_load = 0.1
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
            files=("prior-fitted.safetensors",),
            license="Apache-2.0",
            license_url="",
            n_parameters=3_185_974,
        ),
    )

    def weights_for(self, task: Task, params: Params) -> Pretrained:
        return self.weights[0]

    def skipped_by_default(self, task: Task, shape: Shape) -> str | None:
        if shape.n_rows > MOST_ROWS:
            return f"It is made for tables of up to {MOST_ROWS:,} rows."
        return None

    def defaults(self, task: Task, shape: Shape, device: str) -> ContextParams:
        """One pass: a second one adds 0.0009 to the AUC of the network, and nothing to that of an ensemble with it
        (`benchmarks/results/prior_judge_one_pass.json`)."""
        return ContextParams(n_estimators=1, max_context=1_024)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> ContextParams:
        """At most two passes, since each takes the time of a prediction again. The ranges come from no measurement."""
        return ContextParams(
            n_estimators=trial.suggest_int("n_estimators", 1, 2),
            max_context=trial.suggest_int("max_context", 512, 1_024),
        )

    def merit(self, task: Task, shape: Shape) -> float:
        """It comes first in the queue on tables that are no larger than those it was judged on."""
        return 40.0 if shape.n_rows <= MOST_ROWS else 1.0

    def built(self, weights: str, path: Path, device: str) -> Any:
        from .reading import Predictor

        return Predictor.load(path).network

    def reader(self, network: Any, saved: Saved, rows: Table, device: str) -> Reader:
        return _Reader(network, saved, rows)
