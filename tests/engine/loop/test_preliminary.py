"""Preliminary importances have the time that they need, whatever is imported before or beside them."""

from __future__ import annotations

import sys
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.loop.preliminary import MOST_SECONDS, PreliminaryImportances
from tabapp.explain.fold_model import FoldModel
from tabapp.run.record.folder import RunFolder
from tests.plugins.tables import make_table

INPUTS: Any = SimpleNamespace(schema=SimpleNamespace(inputs=range(30)))


def candidate(model: str, seconds: float) -> Any:
    """A complete trial whose fold model predicts 1,000 held-out rows in so many seconds."""
    fit = SimpleNamespace(predict_seconds=seconds, n_rows=1_000)
    return SimpleNamespace(is_complete=True, identity=model, key=(model, 0), results={0: fit})


def test_they_are_of_the_best_model_that_is_fast_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"prior_fitted": candidate("prior_fitted", 1.0), "linear": candidate("linear", 0.01)}
    losses = {"prior_fitted": 0.1, "linear": 0.2}
    competition = SimpleNamespace(models=found, best_of=found.get, loss_of=lambda each: losses[each.identity])
    monkeypatch.setitem(sys.modules, "torch", sys)
    board: Any = SimpleNamespace(competition=competition)
    importances = PreliminaryImportances(RunFolder(tmp_path), INPUTS, board)
    assert importances._best() is found["linear"]
    found["prior_fitted"].results[0].predict_seconds = 0.05
    assert importances._best() is found["prior_fitted"]


def test_they_wait_until_nothing_is_imported_beside_them(tmp_path: Path) -> None:
    best = candidate("linear", 0.01)
    competition = SimpleNamespace(models={"linear": None}, best_of=lambda name: best, loss_of=lambda candidate: 0.0)
    board: Any = SimpleNamespace(competition=competition)
    begun: list[Any] = []

    def submit(compute: Any, candidate: Any, idle: bool) -> Future[None]:
        begun.append(candidate)
        return Future()

    pool: Any = SimpleNamespace(submit=submit)
    importances = PreliminaryImportances(RunFolder(tmp_path), INPUTS, board, _pool=pool)
    importances.refresh(idle=True, loading=True)
    assert not begun
    importances.refresh(idle=True, loading=False)
    assert begun == [best]


def test_reading_the_models_does_not_take_the_time_of_the_shuffles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, spec, _ = make_table("regression")
    now = [100.0]

    def read_slowly(best: Any, deadline: float, passes: float) -> list[FoldModel]:
        now[0] += 2 * MOST_SECONDS
        model: Any = SimpleNamespace(predict=lambda rows: rows.numeric[:, 0], thread_safe=True)
        return [FoldModel(model, table, spec)]

    models: Any = SimpleNamespace(with_held_out=read_slowly)
    monkeypatch.setattr(FoldModels, "of_run", lambda *run: models)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    board: Any = SimpleNamespace(plan=SimpleNamespace(metric="rmse", seed=0))
    inputs = [SimpleNamespace(name=name) for name in spec.sources]
    data: Any = SimpleNamespace(schema=SimpleNamespace(inputs=inputs))
    best: Any = SimpleNamespace(model="linear", trial=0, identity="first")
    found = PreliminaryImportances(RunFolder(tmp_path), data, board)._compute(best, False)
    assert found is not None
    assert found.rows[0].feature == spec.sources[0]
