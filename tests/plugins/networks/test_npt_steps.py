"""NPT's training steps in a limited time, and on a GPU, which repeats them from a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tabapp_plugins.npt import steps
from tabapp_plugins.npt.plugin import NPT, sized
from tabapp_plugins.npt.training import SPARE_TIME, Pace

from tabapp.nn.training import cuda_graphs
from tests.nn.replays import replays_in
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


def test_a_slow_first_step_does_not_end_training() -> None:
    left, planned = 100.0, list[int]()
    pace = Pace(lambda: left, 5_000)
    for step in range(1, 65):
        left -= 20.0 if step == 1 else 0.02
        assert not pace.after(step)
        planned.append(pace.n_steps)
    # About 80 s are left for steps of 0.02 s.
    assert planned[1:] == pytest.approx([2 + SPARE_TIME * 80.0 / 0.02] * 63, rel=0.02)


def test_long_steps_are_planned_from_the_second_on() -> None:
    left, step = 100.0, 0
    pace = Pace(lambda: left, 5_000)
    while True:
        step += 1
        left -= 4.0
        if pace.after(step):
            break
    assert step == pace.n_steps
    assert 0 < left < (1 - SPARE_TIME) * 100.0 + 4.0


def test_writing_a_checkpoint_does_not_end_training() -> None:
    left = 100.0
    pace = Pace(lambda: left, 5_000)
    for step in range(1, 1_100):
        left -= 0.02
        assert not pace.after(step), step
        if step == 1_022:
            pace.plan(step)
            left -= 5.0


@pytest.mark.gpu
@pytest.mark.parametrize("batch_rows", [1024, 64])
@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_recorded_steps_train_the_same_network(
    task: str, batch_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = replays_in(steps, monkeypatch)
    recorded = prediction_of(task, tmp_path / "a", batch_rows=batch_rows)
    assert replayed[-1] > len(replayed) / 2
    monkeypatch.setattr(cuda_graphs, "EAGER_STEPS", 10**9)
    replayed.clear()
    eager = prediction_of(task, tmp_path / "b", batch_rows=batch_rows)
    assert replayed[-1] == 0
    # The same random numbers. LAMB divides by the roots of squared gradients, which amplifies rounding errors of bfloat16.
    np.testing.assert_allclose(recorded, eager, rtol=0.05, atol=0.05 * np.abs(eager).max())
