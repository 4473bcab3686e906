"""The example in docs/reference/plugins.md works: install it as a package, find it, train, save and draw hyperparameters."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import optuna
import pytest

from tabapp import metrics
from tabapp.models.contract import FitStopped, FittedModel, Plugin
from tabapp.task import Task
from tests.plugins.tables import make_context, make_table, shape_of

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "plugins.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The only code block of a language in the document."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return found


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed package: the module, and metadata with its entry point."""
    (tmp_path / "cosine_ridge.py").write_text(block("python"), encoding="utf-8")
    project = tomllib.loads(block("toml"))["project"]
    metadata = tmp_path / "cosine_ridge-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["tabapp.models"]
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    (metadata / "entry_points.txt").write_text(f"[tabapp.models]\n{lines}\n")
    return tmp_path


@pytest.fixture
def plugin(package: Path) -> Plugin:
    spec = importlib.util.spec_from_file_location("cosine_ridge_example", package / "cosine_ridge.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CosineRidge()


@pytest.mark.parametrize(
    ("kind", "heading"), [(Plugin, "## Members of a plugin"), (FittedModel, "## Members of a fitted model")]
)
def test_every_member_is_documented(kind: type, heading: str) -> None:
    section = TEXT.split(heading)[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)", section, re.MULTILINE)
    members = {name for name in (*vars(kind), *kind.__annotations__) if not name.startswith("_")}
    assert sorted(documented) == sorted(members)


def test_installed_package_is_found(package: Path) -> None:
    code = (
        "from tabapp.models import registry\n"
        "found = registry.find('cosine_ridge')\n"
        "print(registry.names()[-1], found.plugin.title, found.reason, sep='|')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "cosine_ridge|Cosine ridge|None"


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_example_learns_and_saves(plugin: Plugin, task: Task, tmp_path: Path) -> None:
    table, spec, n_classes = make_table(task, n_rows=400, cardinalities=())
    train, valid = table.take(slice(0, 300)), table.take(slice(300, None))
    shape = shape_of(train, spec, n_classes)
    assert plugin.supports(task, shape) is None
    assert plugin.supports(task, type(shape)(300, 0, 2, n_classes))
    params = plugin.defaults(task, shape, "cpu")
    reports: list[float] = []
    context = make_context(task, spec, n_classes, tmp_path, on_report=lambda step, value: reports.append(value))
    model = plugin.fit(train, valid, params, context)
    prediction = model.predict(valid)
    assert prediction.dtype == (np.float64 if task == "regression" else np.float32)
    assert len(reports) == 1
    if task == "regression":
        assert metrics.loss("rmse", valid.target, prediction) < 0.5 * valid.target.std()
    else:
        np.testing.assert_allclose(prediction.sum(axis=1), 1, atol=1e-5)
        assert metrics.score("accuracy", valid.target, prediction) > 0.75
    again = plugin.fit(train, valid, params, context).predict(valid)
    np.testing.assert_array_equal(again, prediction)
    (tmp_path / "model").mkdir()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(plugin.load(tmp_path / "model").predict(valid), prediction)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = plugin.search_space(study.ask(), task, shape, "cpu")
    assert isinstance(drawn, plugin.params_type)
    assert plugin.cost(task, shape, drawn, "cpu").seconds > 0


def test_example_can_be_stopped(plugin: Plugin, tmp_path: Path) -> None:
    table, spec, _ = make_table("regression", cardinalities=())

    def stop(step: int, value: float) -> None:
        raise FitStopped

    params = plugin.defaults("regression", shape_of(table, spec, 1), "cpu")
    with pytest.raises(FitStopped):
        plugin.fit(table, table, params, make_context("regression", spec, 1, tmp_path, on_report=stop))


def test_entry_point_names_the_class(plugin: Plugin) -> None:
    points = tomllib.loads(block("toml"))["project"]["entry-points"]["tabapp.models"]
    assert points == {plugin.name: f"cosine_ridge:{type(plugin).__name__}"}
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 60
