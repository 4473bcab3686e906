"""Preliminary importances wait for the imports of the engine, which would take the time of their computation."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tabapp.engine.loop import preliminary
from tabapp.engine.loop.preliminary import PreliminaryImportances
from tabapp.run.record.folder import RunFolder
from tests.waiting import wait_until


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The candidates whose importances are computed, to no result."""
    found: list[str] = []

    def importance(models: Any, *arguments: Any, **options: Any) -> Any:
        found.append(models)
        return SimpleNamespace(score=np.nan, columns=())

    folds = SimpleNamespace(with_held_out=lambda best, deadline: best.identity)
    monkeypatch.setattr(preliminary, "FoldModels", SimpleNamespace(of_run=lambda *arguments: folds))
    monkeypatch.setattr(preliminary, "permutation_importance", importance)
    return found


def test_they_wait_until_nothing_is_imported_beside_them(tmp_path: Path, computed: list[str]) -> None:
    best = SimpleNamespace(is_complete=True, identity="first", key=("linear", 0))
    competition = SimpleNamespace(models={"linear": None}, best_of=lambda name: best, loss_of=lambda candidate: 0.0)
    board = SimpleNamespace(competition=competition, plan=SimpleNamespace(metric="roc_auc", seed=0))
    data = SimpleNamespace(schema=SimpleNamespace(inputs=()))
    importances = PreliminaryImportances(RunFolder(tmp_path), cast(Any, data), cast(Any, board))
    assert importances.refresh(idle=True, loading=True) is None and not computed
    # Nothing was begun, since a computation that has begun would make the next one wait.
    assert importances.refresh(idle=True, loading=False) is None
    wait_until(lambda: computed == ["first"])
    importances.close()
