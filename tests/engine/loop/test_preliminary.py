"""Preliminary importances wait for the imports of the engine, which would take the time of their computation."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tabapp.engine.loop.preliminary import PreliminaryImportances
from tabapp.run.record.folder import RunFolder


def test_they_wait_until_nothing_is_imported_beside_them(tmp_path: Path) -> None:
    best = SimpleNamespace(is_complete=True, identity="first", key=("linear", 0))
    competition = SimpleNamespace(models={"linear": None}, best_of=lambda name: best, loss_of=lambda candidate: 0.0)
    board: Any = SimpleNamespace(competition=competition)
    begun: list[Any] = []

    def submit(compute: Any, candidate: Any, idle: bool) -> Future[None]:
        begun.append(candidate)
        return Future()

    pool: Any = SimpleNamespace(submit=submit)
    importances = PreliminaryImportances(RunFolder(tmp_path), cast(Any, None), board, _pool=pool)
    importances.refresh(idle=True, loading=True)
    assert not begun
    importances.refresh(idle=True, loading=False)
    assert begun == [best]
