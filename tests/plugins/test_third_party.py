"""Third-party models: an installed package and plugin-folder files compete in a run; broken ones affect only their own rows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import write_wine
from tests.waiting import HANG_SECONDS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "plugins.md").read_text(encoding="utf-8")

PRIORS = """
from pathlib import Path
import json, os, signal
import numpy as np
from tabapp import metrics
from tabapp.models.contract import Cost, FeatureRecipe, FittedModel, Params, Plugin

class PriorsParams(Params, frozen=True, kw_only=True):
    smoothing: float = 1.0

class PriorsModel(FittedModel):
    def __init__(self, shares):
        self.shares = shares
    def predict(self, table):
        return np.tile(np.array(self.shares, dtype=np.float32), (len(table), 1))
    def save(self, folder):
        (folder / "model.json").write_text(json.dumps(self.shares))

class Priors(Plugin):
    name, title, family, paper, tasks = "NAME", "Class shares", "classic", "none", ("binary", "multiclass")
    params_type = PriorsParams
    def supports(self, task, shape): return None
    def features(self): return FeatureRecipe()
    def defaults(self, task, shape, device): return PriorsParams()
    def search_space(self, trial, task, shape, device):
        return PriorsParams(smoothing=trial.suggest_float("smoothing", 0.1, 10, log=True))
    def cost(self, task, shape, params, device): return Cost(seconds=0.5, n_bytes=10**7)
    def load(self, folder): return PriorsModel(json.loads((folder / "model.json").read_text()))
    def fit(self, train, valid, params, context):
        BREAK
        counts = np.bincount(train.target, minlength=context.n_classes) + params.smoothing
        model = PriorsModel((counts / counts.sum()).tolist())
        context.report(1, metrics.score(context.metric, valid.target, model.predict(valid)))
        return model
"""


def of_folder(name: str, breaking: str = "pass") -> str:
    return PRIORS.replace("NAME", name).replace("BREAK", breaking)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with the documented package installed and a plugin folder of one correct and several broken files."""
    root = tmp_path_factory.mktemp("third_party")
    package, installed, folder = root / "package", root / "installed", root / "plugins"
    package.mkdir()
    folder.mkdir()
    for language, file in (("python", "cosine_ridge.py"), ("toml", "pyproject.toml")):
        (block,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
        (package / file).write_text(block, encoding="utf-8")
    words = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(installed),
        str(package),
    ]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    (folder / "class_shares.py").write_text(of_folder("class_shares"))
    (folder / "raises.py").write_text(of_folder("raises", "raise ValueError('no idea what to do')"))
    (folder / "dies.py").write_text(of_folder("dies", "os.kill(os.getpid(), signal.SIGSEGV)"))
    (folder / "unsure.py").write_text(
        of_folder("unsure").replace("return Cost(", "raise KeyError('gigabytes') or Cost(")
    )
    nowhere = of_folder("nowhere").replace(
        "return PriorsParams(smoothing=trial", "raise TypeError('no space') or (trial"
    )
    (folder / "nowhere.py").write_text(nowhere)
    worthless = of_folder("worthless") + "    def merit(self, task, shape): return 0.0\n"
    (folder / "worthless.py").write_text(worthless)
    endless = of_folder("endless") + "    def later_share(self, shape): return float('nan')\n"
    (folder / "endless.py").write_text(endless)
    (folder / "tagged.py").write_text(of_folder("tagged") + '    tags = ("neighbors", "training_rows")\n')
    (folder / "unimportable.py").write_text("import a_package_that_nobody_has")
    (folder / "misnamed.py").write_text(of_folder("another_name"))
    (folder / "mlp.py").write_text(of_folder("mlp", "raise ValueError('this is not the mlp')"))
    (folder / "_notes.py").write_text("raise RuntimeError")
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "TABAPP_PLUGINS_DIR": str(folder)}


def tabapp(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tabapp", *arguments]
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        stdin=subprocess.DEVNULL,
        env=environment,
        check=False,
    )


def test_third_party_models_are_listed_with_reasons(environment: dict[str, str]) -> None:
    done = tabapp(environment, "models", "--json")
    assert done.returncode == 0, done.stderr
    listed = {model["name"]: model for model in json.loads(done.stdout)}
    assert listed["cosine_ridge"]["available"]
    assert listed["class_shares"]["available"]
    assert listed["mlp"]["title"] == "MLP"
    assert "mlp.py is not used: an installed model has its name" in done.stderr
    assert "a_package_that_nobody_has" in listed["unimportable"]["reason"]
    assert "must define a Plugin whose name is 'misnamed'" in listed["misnamed"]["reason"]
    assert not listed["tagged"]["available"]
    assert (
        "its tag 'training_rows' is no longer read; set `contains_training_rows = True`" in listed["tagged"]["reason"]
    )
    assert "_notes" not in listed


@pytest.mark.slow
def test_broken_plugins_affect_only_their_own_rows(environment: dict[str, str], tmp_path: Path) -> None:
    data, out = write_wine(tmp_path / "wine.csv"), tmp_path / "out.tabapp"
    models = "cosine_ridge,class_shares,raises,dies,unsure,nowhere,worthless,endless,linear"
    done = tabapp(
        environment, "--auto", str(data), "--models", models, "--trials", "1", "--folds", "2", "--json",
        "--runs-dir", str(tmp_path / "runs"), "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    rows = {row["model"]: row for row in last["leaderboard"]}
    assert rows["cosine_ridge"]["score"] < 0.7
    assert 0.9 < rows["class_shares"]["score"] < 1.3
    assert rows["linear"]["score"] < 0.3
    assert rows["raises"]["status"] == rows["dies"]["status"] == "failed"
    assert "no idea what to do" in rows["raises"]["reason"]
    assert rows["dies"]["reason"] == "its process was killed by SIGSEGV (it crashed inside a library)"
    assert {rows[name]["status"] for name in ("unsure", "nowhere", "worthless", "endless")} == {"skipped"}
    assert rows["unsure"]["reason"] == "its plugin raised KeyError: 'gigabytes'"
    assert rows["nowhere"]["reason"] == "its plugin raised TypeError: no space"
    assert rows["worthless"]["reason"] == "its cost and its merit must be positive"
    assert rows["endless"]["reason"] == "later_share must be positive and finite, and is nan"
    predicted = tabapp(environment, "predict", str(out), str(data), "-o", str(tmp_path / "predictions.csv"))
    assert predicted.returncode == 0, predicted.stderr
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 179
    refused = tabapp(environment, "--auto", str(data), "--models", "unimportable", "--trials", "1")
    assert refused.returncode == 2
    assert "a_package_that_nobody_has" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_check_reports_broken_promises(environment: dict[str, str]) -> None:
    done = tabapp(environment, "models", "--check", "class_shares", "--json")
    assert done.returncode == 1
    broken = {c["check"] for c in json.loads(done.stdout)["checks"] if c["status"] == "broken"}
    assert "learns, saves and loads: binary" in broken
    assert "same seed, same model" not in broken
    done = tabapp(environment, "models", "--check", "xgbost")
    assert done.returncode == 2
    assert "did you mean 'xgboost'" in done.stderr
