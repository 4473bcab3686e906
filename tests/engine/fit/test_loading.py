"""What a run loads in the background once its first fits have started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tabapp.engine.fit.library_loading import BackgroundLoader

MODELS: dict[str, Any] = {"extra_trees": "trees", "mlp": "torch", "snn": "torch"}


class Executor:
    """Remembers which servers were started; they are ready when the test says so."""

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.ready: set[str] = set()

    def prepare(self, libraries: str) -> None:
        if libraries not in self.prepared:
            self.prepared.append(libraries)

    def is_ready(self, libraries: str) -> bool:
        return libraries in self.ready


def loader_on(n_cores: int, executor: Executor, monkeypatch: pytest.MonkeyPatch) -> BackgroundLoader:
    loader: Any = BackgroundLoader(MODELS, executor, boosters=(), ranks_parameters=False, n_cores=n_cores)  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(loader, "_load", lambda: None)
    monkeypatch.setattr(loader, "_imported", SimpleNamespace(is_set=lambda: True))
    loader.start()
    return loader


def test_few_cores_start_one_server_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor()
    loader = loader_on(2, executor, monkeypatch)
    assert executor.prepared == ["trees"]
    assert loader.take_ready() == []
    executor.ready.add("trees")
    assert loader.take_ready() == ["extra_trees"]
    assert executor.prepared == ["trees", "torch"]
    assert not loader.is_done
    executor.ready.add("torch")
    assert loader.take_ready() == ["mlp", "snn"]
    assert loader.is_done


def test_many_cores_start_all_servers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor()
    loader = loader_on(16, executor, monkeypatch)
    assert executor.prepared == ["trees", "torch"]
    executor.ready.add("torch")
    assert loader.take_ready() == ["mlp", "snn"]
    assert not loader.is_done
