"""What a run loads in the background once its first fits have started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tabapp.engine.fit.library_loading import BackgroundLoader

MODELS: dict[str, Any] = {"extra_trees": "trees", "mlp": "torch", "prior_fitted": "torch", "snn": "torch"}


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


def loader_on(
    n_cores: int, executor: Executor, monkeypatch: pytest.MonkeyPatch, *, first: Any = None, imported: bool = True
) -> BackgroundLoader:
    options: dict[str, Any] = {"boosters": (), "ranks_parameters": False, "pending": ("mlp", "snn")}
    loader: Any = BackgroundLoader(MODELS, cast(Any, executor), first=first, n_cores=n_cores, **options)
    monkeypatch.setattr(loader, "_start_imports", lambda: executor.prepare("imports"))
    monkeypatch.setattr(loader, "_imported", SimpleNamespace(is_set=lambda: imported))
    loader.start()
    return loader


def test_few_cores_start_one_server_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor()
    loader = loader_on(2, executor, monkeypatch)
    assert executor.prepared == ["trees", "imports"]
    assert loader.take_ready() == []
    executor.ready.add("trees")
    assert loader.take_ready() == ["extra_trees"]
    assert executor.prepared == ["trees", "imports", "torch"]
    assert not loader.is_done
    executor.ready.add("torch")
    assert loader.take_ready() == ["mlp", "prior_fitted", "snn"]
    assert loader.is_done


def test_many_cores_start_all_servers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor()
    loader = loader_on(16, executor, monkeypatch)
    assert executor.prepared == ["trees", "torch", "imports"]
    executor.ready.add("torch")
    assert loader.take_ready() == ["mlp", "prior_fitted", "snn"]
    assert not loader.is_done


def test_the_libraries_of_the_model_that_comes_first_load_first(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor()
    loader = loader_on(2, executor, monkeypatch, first="torch")
    assert executor.prepared == ["torch"]
    executor.ready.add("torch")
    assert "prior_fitted" in loader.take_ready()
    # Neither another server nor imports of the engine take time from the first.
    assert executor.prepared == ["torch", "trees", "imports"]


def test_a_model_whose_plugin_is_imported_does_not_wait_for_the_imports_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor = Executor()
    loader = loader_on(2, executor, monkeypatch, first="torch", imported=False)
    executor.ready.add("torch")
    assert loader.take_ready() == ["prior_fitted"]
    assert not loader.is_done
