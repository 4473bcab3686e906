"""What `import tabapp` offers, and what it loads."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

import tabapp
from tests.test_imports import assert_light, loaded_by

PUBLIC = [
    "BudgetError", "BundleError", "Cost", "DataError", "FeatureContributions", "FeatureRecipe", "FeatureSpec", "FitContext",
    "FitStopped", "FittedModel", "Params", "Plugin", "Predictor", "Profile",
    "RowNeighbors", "Run", "Shape", "TabappError", "Table", "TableWarning", "TargetsPredictor", "Task", "Trial",
    "UsageError", "__version__", "fit", "load", "profile", "resume", "runs", "sklearn",
]  # fmt: skip
METHODS = {
    "Run": [
        "attention", "export", "id", "importances", "leaderboard", "metric", "path", "predictor", "report", "score", "status",
        "summaries", "target", "targets", "task", "test_score", "warnings",
    ],
    "TargetsPredictor": ["metrics", "path", "predict", "predict_interval", "predict_proba", "targets"],
    "Predictor": [
        "classes", "explain", "metrics", "path", "predict", "predict_interval", "predict_proba", "schema", "target", "task",
    ],
}  # fmt: skip


def test_the_public_names_are_exactly_these():
    assert sorted(tabapp.__all__) == PUBLIC
    assert dir(tabapp) == PUBLIC
    for name in PUBLIC:
        assert getattr(tabapp, name) is not None


@pytest.mark.parametrize("name", METHODS)
def test_the_members_of_the_classes_are_exactly_these(name):
    members = [member for member in dir(getattr(tabapp, name)) if not member.startswith("_")]
    assert members == METHODS[name]


def test_every_public_name_is_documented():
    for name in PUBLIC:
        value = getattr(tabapp, name)
        if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
            assert inspect.getdoc(value), name
    for name, members in METHODS.items():
        for member in members:
            assert inspect.getdoc(inspect.getattr_static(getattr(tabapp, name), member)), f"{name}.{member}"


def test_the_estimators_are_all_that_the_module_offers():
    assert sorted(tabapp.sklearn.__all__) == ["TabappClassifier", "TabappRegressor"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        tabapp.fitt


def test_the_import_loads_nothing_else_of_tabapp():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, json, tabapp; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = json.loads(done.stdout)
    assert [name for name in modules if name.split(".")[0] == "tabapp"] == ["tabapp"]
    assert_light(set(modules))


@pytest.mark.parametrize(
    "code",
    [
        "import tabapp\ndir(tabapp)\ntabapp.__version__",
        "from tabapp import DataError, TabappError",
        "from tabapp import Run, fit, load, profile, resume, runs",
        "from tabapp import runs\nruns()",
    ],
)
def test_names_load_no_library_for_numbers_before_they_work(code, tmp_path):
    assert_light(loaded_by(code, environment={"TABAPP_RUNS_DIR": str(tmp_path)}))
