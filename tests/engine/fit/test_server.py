"""Fit servers: each has its own libraries, and a process forked from it ends with them loaded."""

from __future__ import annotations

import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tabapp.engine.fit import servers as server
from tabapp.engine.fit.library_loading import libraries_of
from tabapp.engine.fit.servers import SERVERS, FitProcess, start_all, start_first
from tabapp.models import registry
from tabapp.models.stated import Libraries


def send_loaded(connection: Connection) -> None:
    """Send which libraries a new process finds loaded."""
    names = ("polars", "sklearn", "pandas", "lightgbm", "catboost", "xgboost", "torch")
    connection.send([name for name in names if name in sys.modules])


@pytest.mark.parametrize(
    ("libraries", "loaded"),
    [
        ("boosters", ["polars", "lightgbm", "catboost", "xgboost"]),
        pytest.param(
            "trees", ["polars", "sklearn", "pandas", "lightgbm", "catboost", "xgboost"], marks=pytest.mark.slow
        ),
        pytest.param("torch", ["polars", "sklearn", "torch"], marks=pytest.mark.slow),
    ],
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
    assert libraries == "torch" or found == loaded


def send_imports_of_a_fit(connection: Connection) -> None:
    """Send the modules of other packages that a fit of a network imports in a new process."""
    import msgspec
    import numpy as np

    from tabapp.models.checks.tables import make_context, make_table, shape_of

    table, spec, n_classes = make_table("binary", n_rows=60, n_numeric=2, cardinalities=(3,))
    before = set(sys.modules)
    plugin = registry.get("mlp")
    params = msgspec.structs.replace(plugin.defaults("binary", shape_of(table, spec, n_classes), "cpu"), max_epochs=1)
    with TemporaryDirectory() as folder:
        parts = table.take(np.arange(40)), table.take(np.arange(40, 60))
        plugin.fit(*parts, params, make_context("binary", spec, n_classes, Path(folder)))
    imported = set(sys.modules) - before
    connection.send((len(imported), {name.partition(".")[0] for name in imported}, "torch._dynamo" in sys.modules))


def test_a_fit_of_a_network_imports_little() -> None:
    assert SERVERS["torch"].wait(120)
    ours, theirs = Pipe()
    process = FitProcess("torch", send_imports_of_a_fit, (theirs,))
    process.start()
    theirs.close()
    n_modules, packages, has_compiler = ours.recv()
    process.join()
    # The first optimizer of a process imports 900 modules of torch and sympy, unless they are kept from it.
    assert n_modules < 50
    assert "sympy" not in packages
    assert not has_compiler, "the server would load it, too"


def test_the_libraries_of_a_model() -> None:
    lean = [libraries_of(registry.get(name), features_use_sklearn=False) for name in ("lightgbm", "linear", "mlp")]
    assert lean == ["boosters", "trees", "torch"]
    assert libraries_of(registry.get("lightgbm"), features_use_sklearn=True) == "trees"
    others = type("Others", (type(registry.get("lightgbm")),), {"__module__": "others"})()
    assert libraries_of(others, features_use_sklearn=False) == "trees", "it may pass data frames to the booster"


def test_the_servers_a_waiting_run_starts(started: list[str]) -> None:
    start_all({"lightgbm", "xgboost"})
    assert started == []
    start_all({"lightgbm", "linear", "mlp"})
    assert started == ["trees", "torch"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    for name, each in SERVERS.items():
        monkeypatch.setattr(each, "start", lambda name=name: names.append(name))
    return names


@pytest.mark.parametrize(
    ("models", "first"),
    [((), "boosters"), (("mlp", "xgboost"), "boosters"), (("mlp", "linear"), "trees"), (("mlp", "tabm"), "torch")],
)
def test_the_server_of_the_first_fits_starts_first(
    models: tuple[str, ...], first: Libraries, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "available_cores", lambda: 2)
    start_first(models)
    assert started == [first]


@pytest.mark.parametrize(
    ("models", "servers"),
    [((), ["boosters", "trees", "torch"]), (("xgboost", "lightgbm"), ["boosters"]), (("mlp", "tabm"), ["torch"])],
)
def test_on_many_cores_all_servers_start_at_once(
    models: tuple[str, ...], servers: list[Libraries], started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "available_cores", lambda: 16)
    start_first(models)
    assert list(dict.fromkeys(started)) == servers
