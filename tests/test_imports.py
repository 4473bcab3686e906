"""Imports at run time, checked in new processes; the static contracts in `pyproject.toml` do not cover them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

from tests.run.recording import write_run
from tests.waiting import HANG_SECONDS

NUMERIC_LIBRARIES = (
    "catboost", "joblib", "lightgbm", "matplotlib", "numpy", "optuna", "pandas", "plotly", "polars", "psutil", "pyarrow",
    "safetensors", "scipy", "sklearn", "sqlalchemy", "torch", "xgboost",
)  # fmt: skip
ENGINE_ROOMS = (
    "tabapp.processes.engine", "tabapp.engine", "tabapp.bundle", "tabapp.explain", "tabapp.ensemble", "tabapp.nn", "tabapp.models",
    "tabapp.features", "tabapp.data", "tabapp.metrics", "tabapp_plugins",
)  # fmt: skip
BOOSTERS = ("catboost", "lightgbm", "xgboost")


def loaded_by(code: str, *, environment: dict[str, str] | None = None) -> set[str]:
    """The modules that a new interpreter has imported after running code, including parent packages."""
    script = f"""
import json, sys
from contextlib import suppress
with suppress(SystemExit):
{os.linesep.join("    " + line for line in code.strip().splitlines())}
sys.stdout.flush()
print()
print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env={**os.environ, **(environment or {})},
        check=True,
    )
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    return modules | {name.rpartition(".")[0] for name in modules if "." in name}


def command(*arguments: str) -> str:
    """Code that runs a command line in the same way as `tabapp`."""
    return f"sys.argv = {['tabapp', *arguments]!r}\nfrom tabapp.__main__ import main\nmain()"


def assert_light(modules: set[str]) -> None:
    assert not modules & set(NUMERIC_LIBRARIES)
    assert not modules & set(ENGINE_ROOMS)


def test_probe_detects_imports():
    modules = loaded_by("import numpy.linalg\nimport tabapp.metrics")
    assert {"numpy", "numpy.linalg", "tabapp.metrics"} <= modules
    with pytest.raises(AssertionError):
        assert_light(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("run", "--help"),
        ("predict", "--help"),
        ("models", "--help"),
        ("runs",),
        ("runs", "--json"),
        ("info",),
        ("no-such-file.csv",),
        ("--auto", "no-such-file.csv", "--no-such-option"),
    ],
    ids=" ".join,
)
def test_commands_without_data_import_no_numeric_library(arguments, tmp_path):
    write_run(tmp_path)
    modules = loaded_by(command(*arguments), environment={"TABAPP_RUNS_DIR": str(tmp_path)})
    assert_light(modules)
    assert "textual" not in modules


@pytest.mark.parametrize("arguments", [("--version",), ("--help",)], ids=" ".join)
def test_version_and_help_import_no_interface(arguments):
    modules = loaded_by(command(*arguments))
    assert not modules & {"rich", "asyncio", "multiprocessing", "tabapp.headless", "tabapp.tui"}


def test_version_imports_no_configuration():
    assert "tabapp.run" not in loaded_by(command("--version"))


def test_views_import_no_engine():
    modules = (
        "tabapp",
        "tabapp.run.protocol.client",
        "tabapp.run.record.folder",
        "tabapp.run.record.state",
        "tabapp.headless.follow",
        "tabapp.headless.live",
        "tabapp.headless.summary",
        "tabapp.tui.app",
        "tabapp.tui.screens.palette",
        "tabapp.tui.screens.help",
    )
    loaded = loaded_by(f"import {', '.join(modules)}")
    assert set(modules) <= loaded
    assert_light(loaded)


def test_view_imports_no_numeric_library_after_following_a_run(tmp_path):
    folder = write_run(tmp_path)
    modules = loaded_by(command("attach", "--auto", folder.run, "--runs-dir", str(tmp_path)))
    assert "tabapp.headless.follow" in modules
    assert_light(modules)


def test_screen_imports_no_numeric_library_after_showing_a_run(tmp_path):
    folder = write_run(tmp_path)
    modules = loaded_by(
        f"""
import asyncio
from pathlib import Path
from tabapp.run.record.folder import RunFolder
from tabapp.tui.app import AttachedApp

async def look():
    app = AttachedApp(RunFolder(Path({str(folder.path)!r})), runs_dir=Path({str(tmp_path)!r}))
    async with app.run_test(size=(120, 36)) as pilot:
        for key in ("1", "2", "5", "question_mark", "escape"):
            await pilot.press(key)
        await pilot.pause()

asyncio.run(look())
"""
    )
    assert "tabapp.tui.screens.run" in modules
    assert_light(modules)


def test_worker_help_does_not_import_the_engine():
    modules = loaded_by("sys.argv = ['worker', '--help']\nfrom tabapp.processes.engine import main\nmain()")
    assert not modules & set(NUMERIC_LIBRARIES)
    assert "tabapp.engine" not in modules


def test_listing_models_imports_no_model():
    modules = loaded_by("from tabapp.models import registry\nassert 'xgboost' in registry.names()")
    assert "tabapp_plugins" not in modules
    assert not modules & {*BOOSTERS, "torch"}


@pytest.mark.parametrize("booster", BOOSTERS)
def test_booster_does_not_import_other_boosters(booster):
    modules = loaded_by(f"from tabapp.models import registry\nregistry.get({booster!r})")
    assert f"tabapp_plugins.trees.{booster}_model" in modules
    assert not modules & ({*BOOSTERS, "torch"} - {booster})


@pytest.mark.parametrize(
    "model", ["mlp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("resnet", "ft_transformer"))]
)
def test_deep_model_imports_no_booster(model):
    modules = loaded_by(f"from tabapp.models import registry\nregistry.get({model!r})")
    assert f"tabapp_plugins.{model}" in modules
    assert not modules & set(BOOSTERS)


def test_the_process_of_a_bundle_starts_before_numeric_libraries_are_imported():
    modules = loaded_by("import tabapp.bundle.confined.early_start, tabapp.bundle.files.targets")
    assert not modules & {*NUMERIC_LIBRARIES, "tabapp.metrics"}


def test_predicting_with_boosters_imports_no_pandas_and_no_scikit_learn():
    modules = loaded_by(
        """
import tabapp.bundle.confined.box, tabapp.bundle.prediction.predict
from tabapp.models.lean_imports import import_for_prediction
import_for_prediction(["catboost", "lightgbm", "xgboost", "linear", "extra_trees"])
"""
    )
    assert {*BOOSTERS, "safetensors"} <= modules
    assert not modules & {"pandas", "sklearn", "torch", "matplotlib", "pyarrow"}


def test_a_plugin_that_needs_scikit_learn_gets_it_after_the_boosters():
    modules = loaded_by(
        """
from tabapp.models.lean_imports import import_for_prediction
import_for_prediction(["k_neighbors", "lightgbm"])
import pandas, sklearn.neighbors
"""
    )
    assert {"lightgbm", "pandas", "sklearn"} <= modules


def test_predicting_leaves_out_what_scikit_learn_imports_for_other_uses():
    modules = loaded_by(
        """
from tabapp.models.lean_imports import import_for_prediction
import_for_prediction(["k_neighbors"], with_texts=True)
"""
    )
    assert {"sklearn.neighbors", "sklearn.feature_extraction.text"} <= modules
    assert "scipy.stats" not in modules


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not list the open libraries")
def test_the_libraries_of_torch_open_before_its_import():
    loaded_by(
        """
from pathlib import Path
from tabapp.models.lean_imports import _open_torch
_open_torch()
assert "torch" not in sys.modules and "libtorch_cpu" in Path("/proc/self/maps").read_text()
import torch
assert (torch.ones(2, 2) @ torch.ones(2, 2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]
"""
    )


def test_no_garbage_is_collected_among_what_a_prediction_imports():
    loaded_by(
        """
import gc
from tabapp.models.lean_imports import import_for_prediction
def n_collections():
    return sum(each["collections"] for each in gc.get_stats())

before = n_collections()
import_for_prediction(["k_neighbors"])
assert n_collections() < before + 20 and gc.isenabled()
assert gc.get_freeze_count() > 100_000 and len(gc.get_objects()) < 1_000
"""
    )


def test_what_was_left_out_is_imported_when_it_is_used():
    loaded_by(
        """
from tabapp.models.lean_imports import import_for_prediction
import_for_prediction(["k_neighbors"], with_texts=True)
import numpy
from sklearn.metrics import label_ranking_average_precision_score
assert label_ranking_average_precision_score(numpy.array([[1, 0, 1]]), numpy.array([[0.9, 0.1, 0.8]])) == 1.0
import scipy.stats
assert scipy.stats.norm.cdf(0) == 0.5
import sklearn.preprocessing._data
assert sklearn.preprocessing._data.stats is not scipy.stats
assert sklearn.preprocessing._data.stats.norm.cdf(0) == 0.5
"""
    )


def test_ranking_hyperparameters_imports_no_scikit_learn():
    modules = loaded_by(
        """
from tabapp.engine.fit.library_loading import PARAMETER_RANKING
from tabapp.models.lean_imports import import_packages
import_packages([PARAMETER_RANKING], lean=True)
from optuna.importance import PedAnovaImportanceEvaluator
"""
    )
    assert "optuna.importance" in modules
    assert not modules & {"pandas", "sklearn"}


def test_engine_imports_no_model_before_a_fit():
    modules = loaded_by("import tabapp.engine.session, tabapp.engine.loop.conductor, tabapp.engine.finish.run_end")
    assert not modules & {*BOOSTERS, "torch", "textual", "tabapp.tui", "tabapp.headless", "tabapp.cli"}


def test_what_is_planned_at_once_imports_no_network():
    modules = loaded_by(
        """
from tabapp.models import registry, stated
early = [name for name in registry.names() if stated.imports_lightly(name)]
assert {"lightgbm", "linear", "prior_fitted", "xrfm"} <= set(early)
assert all(registry.find(name).plugin for name in early)
"""
    )
    assert not modules & {*BOOSTERS, "sklearn", "torch"}


@pytest.mark.parametrize("libraries", ["boosters", "trees", "torch"])
def test_fit_servers_import_nothing_that_built_in_models_do_not_use(libraries: str):
    modules = loaded_by(f"import tabapp.engine.fit.preload_{libraries}")
    assert not modules & {"matplotlib", "pandas", "pyarrow", "scipy.stats"}
    expected = {"boosters": {*BOOSTERS}, "trees": {*BOOSTERS, "sklearn.linear_model"}, "torch": {"sklearn", "torch"}}
    assert expected[libraries] <= modules


def test_inspecting_a_bundle_imports_no_model_library():
    modules = loaded_by("from tabapp.bundle.files.contents import open_bundle")
    assert not modules & {*BOOSTERS, "torch", "optuna"}


def test_no_import_circle_even_for_type_checking():
    graph = grimp.build_graph("tabapp", "tabapp_plugins", exclude_type_checking_imports=False)
    order = TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    order.prepare()  # raises CycleError, which names the circle


def test_the_search_for_circles_finds_one():
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
