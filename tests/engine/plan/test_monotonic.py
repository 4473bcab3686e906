"""Runs with `--monotonic`: what competes, what the bundle predicts, and what is refused."""

from __future__ import annotations

import json
import shlex
import warnings
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tabapp
from tabapp.cli.main import run_command_line
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig, command_line, with_exact_names
from tabapp.run.options.keywords import config_from_keywords

N_ROWS = 300


def write_table(folder: Path) -> pl.DataFrame:
    generator = np.random.default_rng(0)
    age, income = generator.uniform(20, 60, N_ROWS).round(2), generator.uniform(1, 9, N_ROWS).round(3)
    signal = 0.05 * age - 0.3 * income + generator.normal(0, 1.5, N_ROWS)
    color = generator.choice(["red", "green", "blue"], N_ROWS)
    bought = np.where(signal > np.median(signal), "yes", "no")
    table = pl.DataFrame({"age": age, "income": income, "color": color, "price": signal.round(4), "bought": bought})
    table.write_csv(folder / "table.csv")
    return table


def run(folder: Path, *more: str) -> int:
    arguments = ["--auto", str(folder / "table.csv"), "--runs-dir", str(folder / "runs"), "--quiet", "--trials", "2"]
    return run_command_line([*arguments, "--folds", "2", "--out", str(folder / "b.tabapp"), *more])


def check_directions(path: Path, table: pl.DataFrame) -> None:
    """The predictions of a bundle rise with the age and fall with the income."""
    bundle = tabapp.load(path)

    def predictions(column: str, values: np.ndarray) -> np.ndarray:
        """(30, values) predictions of the first rows with each value in turn."""
        rows = table.drop("price", "bought").head(30)
        stacked = pl.concat(rows.with_columns(pl.lit(float(value)).alias(column)) for value in values)
        # Some values are outside of the training range.
        with warnings.catch_warnings(action="ignore"):
            found = bundle.predict(stacked) if bundle.task == "regression" else bundle.predict_proba(stacked)["yes"]
        return np.asarray(found, dtype=float).reshape(len(values), 30).T

    ages, incomes = predictions("age", np.linspace(15, 65, 26)), predictions("income", np.linspace(0, 10, 26))
    assert np.diff(ages, axis=1).min() >= -1e-6
    assert np.diff(incomes, axis=1).max() <= 1e-6
    assert (ages[:, -1] - ages[:, 0]).min() > 0


@pytest.mark.parametrize("target", [pytest.param("price", marks=pytest.mark.slow), "bought"])
def test_the_predictions_of_a_bundle_keep_to_the_directions(target: str, tmp_path: Path) -> None:
    table = write_table(tmp_path)
    options = ["--target", target, "--ignore", "bought" if target == "price" else "price"]
    options += ["--monotonic", "age=+", "--monotonic", "income=-", "--models", "lightgbm,xgboost,catboost,linear"]
    assert run(tmp_path, *options) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["monotonic"] == {"age": 1, "income": -1}
    reasons = {model["name"]: model.get("reason") for model in plan["models"]}
    assert "cannot keep its predictions from falling or rising" in reasons["linear"]
    assert {name for name, reason in reasons.items() if reason is None} == {"lightgbm", "xgboost", "catboost"}
    check_directions(tmp_path / "b.tabapp", table)
    with zipfile.ZipFile(tmp_path / "b.tabapp") as archive:
        assert "`age`: only rises; `income`: only falls" in archive.read("MODEL_CARD.md").decode()


@pytest.mark.slow
def test_models_that_are_trained_later_keep_to_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_table(tmp_path)
    options = ["--target", "price", "--ignore", "bought", "--monotonic", "age=+,income=-", "--models", "lightgbm"]
    assert run(tmp_path, *options) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    for options in (["--refit"], ["--distill", "xgboost"]):
        out = tmp_path / f"{options[0]}.tabapp"
        assert run_command_line(["export", str(folder), *options, "-o", str(out), "--quiet"]) == 0
        check_directions(out, table)
    assert run_command_line(["export", str(folder), "--distill", "linear", "-o", str(tmp_path / "l.tabapp")]) == 2
    assert "'linear' cannot keep its predictions from" in capsys.readouterr().err
    assert run_command_line(["export", str(folder), "--python", str(tmp_path / "model.py")]) == 0
    assert "monotone_constraints=[1, -1, 0]" in (tmp_path / "model.py").read_text()


def test_constraints_that_are_not_possible_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(tmp_path)
    for options, sentence in (
        ("--target price --monotonic agee=+", "'agee' is not a feature column; did you mean 'age'?"),
        ("--target price --monotonic price=+", "'price' is not a feature column"),
        ("--target price --monotonic color=-", "'color' is categorical, not numeric"),
        ("--target color --monotonic age=+", "for a number or two classes; 'color' has 3 classes"),
        ("--target price,bought --monotonic age=+", "--monotonic is for one target"),
        (
            "--target price --monotonic age=+ --models linear",
            "None of the selected models can run (linear: cannot keep",
        ),
    ):
        assert run(tmp_path, *options.split()) == 2
        assert sentence in capsys.readouterr().err


def test_python_takes_the_same_constraints() -> None:
    assert config_from_keywords("t.csv", {"monotonic": {"age": "+"}}).monotonic == {"age": "+"}
    given = config_from_keywords("t.csv", {"monotonic": "age=+,a=b=-"})
    assert with_exact_names(given, ["age", "a=b"]).monotonic == {"age": "+", "a=b": "-"}
    with pytest.raises(UsageError, match="monotonic='age=up' is not valid"):
        config_from_keywords("t.csv", {"monotonic": {"age": "up"}})
    with pytest.raises(UsageError, match="does not have the form COLUMN"):
        config_from_keywords("t.csv", {"monotonic": "age"})


def test_the_command_of_a_run_contains_them() -> None:
    words = shlex.split(command_line(RunConfig(data="t.csv", monotonic={"age": "+", "income": "-"})))
    assert words[-4:] == ["--monotonic", "age=+", "--monotonic", "income=-"]
