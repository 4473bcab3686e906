"""`--metric` with a third-party metric and with misclassification costs, from the run to the evaluation of its bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tables import write_breast_cancer

HIT_RATE = """
import numpy as np
from tabapp.metrics import Metric

def hit_rate(truth, prediction, weight):
    found = prediction[np.arange(len(truth)), truth] > 0.7
    return float(np.average(found, weights=weight))

METRIC = Metric(
    name="hit_rate", title="hit rate", description="Share of rows whose class has a probability above 0.7",
    tasks=("binary", "multiclass"), greater_is_better=True, needs_probability=True, function=hit_rate,
)
"""
UNLUCKY = HIT_RATE.replace("hit_rate", "unlucky").replace(
    "    found =", "    if len(truth) > 100: raise ValueError('too many rows')\n    found ="
)


def tabapp(folder: Path, *arguments: str, plugins: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tabapp", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TABAPP_PLUGINS_DIR": str(folder / ("plugins" if plugins else "none"))},
        check=False,
    )


def run(folder: Path, metric: str) -> list[dict[str, Any]]:
    done = tabapp(
        folder, "--auto", str(folder / "cancer.csv"), "--target", "diagnosis", "--positive", "malignant", "--metric", metric,
        "--models", "linear", "--trials", "1", "--folds", "2", "--json", "--runs-dir", str(folder / "runs"),
        "--out", str(folder / "out.tabapp"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("metrics")
    (root / "plugins").mkdir()
    (root / "plugins" / "hit_rate.py").write_text(HIT_RATE)
    (root / "plugins" / "unlucky.py").write_text(UNLUCKY)
    write_breast_cancer(root / "cancer.csv")
    return root


@pytest.mark.slow
def test_third_party_metric_works_from_the_plan_to_the_evaluation(folder: Path) -> None:
    events = run(folder, "hit_rate")
    plan = next(event for event in events if event["ev"] == "plan.made")
    offered = {metric["name"]: metric["description"] for metric in plan["metrics"]}
    assert plan["metric_title"] == "hit rate"
    assert offered["hit_rate"] == "Share of rows whose class has a probability above 0.7"
    last = events[-1]
    assert (last["metric"], last["greater_is_better"]) == ("hit_rate", True)
    assert 0.8 < last["best"]["low"] <= last["best"]["score"] <= last["best"]["high"] <= 1
    assert any("no score by the metric 'unlucky'" in event.get("message", "") for event in events)

    arguments = ("evaluate", str(folder / "out.tabapp"), str(folder / "cancer.csv"), "--json")
    evaluated = tabapp(folder, *arguments)
    assert evaluated.returncode == 0, evaluated.stderr
    first = json.loads(evaluated.stdout)["metrics"][0]
    assert (first["name"], first["title"], first["greater_is_better"]) == ("hit_rate", "hit rate", True)
    assert "'unlucky' is left out: ValueError: too many rows" in evaluated.stderr

    elsewhere = tabapp(folder, *arguments, plugins=False)
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert json.loads(elsewhere.stdout)["metrics"][0]["name"] == "roc_auc"
    assert "metric 'hit_rate' is not installed here" in elsewhere.stderr


@pytest.mark.slow
def test_misclassification_costs_are_a_metric(folder: Path) -> None:
    last = run(folder, "cost:fp=1,fn=5")[-1]
    assert (last["metric"], last["greater_is_better"]) == ("cost:fn=5,fp=1", False)
    assert 0 <= last["best"]["score"] < 0.5
    evaluated = tabapp(folder, "evaluate", str(folder / "out.tabapp"), str(folder / "cancer.csv"))
    assert "cost (fn 5, fp 1)" in evaluated.stdout


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("hit_rat", "There is no metric named 'hit_rat'; did you mean 'hit_rate'?"),
        ("cost:fn=5,tp=1", "The metric cost has no key 'tp'"),
        pytest.param(
            "rmse", "The metric rmse is not defined for a binary task; choose one of roc_auc,", marks=pytest.mark.slow
        ),
    ],
)
def test_wrong_metric_is_a_usage_error(folder: Path, metric: str, message: str) -> None:
    done = tabapp(
        folder, "--auto", str(folder / "cancer.csv"), "--metric", metric, "--target", "diagnosis", "--models", "linear",
        "--runs-dir", str(folder / "runs"),
    )  # fmt: skip
    assert done.returncode == 2
    assert message in done.stderr
