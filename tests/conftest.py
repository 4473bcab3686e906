"""Fixtures of all tests: isolation from the configuration and folders of the developer, and a clock for deadlines."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Generator
from itertools import count
from pathlib import Path

import pytest

# Tests run in several processes; threads of torch that wait for each other would make some of them thirty times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Excludes modules and tests from garbage collection: they live as long as the process, and traversing them takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def isolated_state(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """The key of the tests' runs, which fixtures of modules make, too."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
        yield


@pytest.fixture(autouse=True)
def isolated_configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("TABAPP_CONFIG", str(folder / "no-config.toml"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.delenv("TABAPP_THEME", raising=False)
    if "TABAPP_PLUGINS_DIR" not in os.environ:
        monkeypatch.setenv("TABAPP_PLUGINS_DIR", str(folder / "no-plugins"))


@pytest.fixture
def ticking_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """A clock in place of `time.monotonic` that advances by a millisecond each time it is read."""
    ticks = count(1)
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks) / 1000)
    return time.monotonic
