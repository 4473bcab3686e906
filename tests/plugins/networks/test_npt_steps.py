"""NPT's training steps on a GPU, which repeats them from a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tabapp_plugins.npt import steps
from tabapp_plugins.npt.plugin import NPT, sized

from tabapp.nn.training import cuda_graphs
from tests.plugins.tables import make_context, make_table


def prediction_of(task: Any, folder: Path, **changes: Any) -> np.ndarray:
    """Predictions on unseen rows after 40 steps."""
    table, spec, n_classes = make_table(task, n_rows=300)
    settings = {"d_embedding": 16, "n_layers": 4, "n_heads": 4, "n_steps": 40, "n_evaluations": 4, "dropout": 0.0}
    params = sized("mini", table.numeric.shape[1] + table.categorical.shape[1] + 1, **(settings | changes))
    folder.mkdir()
    context = make_context(task, spec, n_classes, folder)
    context.device = "cuda:0"
    valid = table.take(slice(200, None))
    return NPT().fit(table.take(slice(0, 200)), valid, params, context).predict(valid)


@pytest.mark.gpu
@pytest.mark.parametrize("batch_rows", [1024, 64])
@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_recorded_steps_train_the_same_network(
    task: str, batch_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed: list[int] = []

    class Observed(cuda_graphs.GraphedSteps):
        def __call__(self, rows: torch.Tensor) -> None:
            super().__call__(rows)
            replayed.append(self.n_replayed)

    monkeypatch.setattr(steps, "GraphedSteps", Observed)
    recorded = prediction_of(task, tmp_path / "a", batch_rows=batch_rows)
    assert replayed[-1] > len(replayed) / 2
    monkeypatch.setattr(cuda_graphs, "EAGER_STEPS", 10**9)
    replayed.clear()
    eager = prediction_of(task, tmp_path / "b", batch_rows=batch_rows)
    assert replayed[-1] == 0
    # The same random numbers. LAMB divides by the roots of squared gradients, which amplifies rounding errors of bfloat16.
    np.testing.assert_allclose(recorded, eager, rtol=0.05, atol=0.05 * np.abs(eager).max())
