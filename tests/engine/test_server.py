"""Fit servers: each has its own libraries, and a process forked from it ends with them loaded."""

from __future__ import annotations

import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest

from tabapp.engine.server import SERVERS, FitProcess, Libraries, libraries_of, start_first


def send_loaded(connection: Connection) -> None:
    """Send which libraries a new process finds loaded."""
    names = ("polars", "sklearn", "lightgbm", "torch")
    connection.send([name for name in names if name in sys.modules])


@pytest.mark.parametrize(
    ("libraries", "loaded"),
    [("trees", ["polars", "sklearn", "lightgbm"]), ("torch", ["polars", "sklearn", "torch"])],
)
def test_a_process_starts_with_the_libraries_of_its_server(libraries: Libraries, loaded: list[str]) -> None:
    assert SERVERS[libraries].wait(120)
    ours, theirs = Pipe()
    process = FitProcess(libraries, send_loaded, (theirs,))
    process.start()
    theirs.close()
    found = ours.recv()
    process.join()
    assert process.exitcode == 0
    assert [name for name in found if name in loaded] == loaded
    assert ("torch" in found) is (libraries == "torch")


def test_only_deep_models_need_torch() -> None:
    assert [libraries_of(family) for family in ("gbdt", "classic", "deep")] == ["trees", "trees", "torch"]


@pytest.mark.parametrize(("models", "first"), [((), "trees"), (("mlp", "linear"), "trees"), (("mlp", "tabm"), "torch")])
def test_the_server_of_the_first_fits_starts_first(
    models: tuple[str, ...], first: Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    for name, server in SERVERS.items():
        monkeypatch.setattr(server, "start", lambda name=name: started.append(name))
    start_first(models)
    assert started == [first]
