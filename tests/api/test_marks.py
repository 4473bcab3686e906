"""A run on a table whose numbers have marks: its importances, explanations, predictions and exports."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tabapp
from tabapp.bundle.export.code_text import sql_name
from tabapp.bundle.prediction.load import load_bundle
from tabapp.cli.main import run_command_line

COLUMNS = ["lead", "mass", "origin"]


def table(n_rows: int, seed: int) -> pl.DataFrame:
    """The price depends on the number and on the mark of `lead`, and on `mass`, which is in kg or in g."""
    chance = random.Random(seed)
    rows: list[dict[str, str]] = []
    for _ in range(n_rows):
        lead, kg, is_below = chance.uniform(1, 9), chance.uniform(1, 5), chance.random() < 0.4
        price = lead + 20 * is_below + 3 * kg + chance.gauss(0, 0.2)
        mass = f"{kg:.3f} kg" if chance.random() < 0.5 else f"{1000 * kg:.0f} g"
        origin = chance.choice(["well", "tap"])
        rows.append({"lead": f"{'<' * is_below}{lead:.2f}", "mass": mass, "origin": origin, "price": f"{price:.3f}*"})
    return pl.DataFrame(rows)


FAST = {"target": "price", "trials": 1, "folds": 2, "seed": 3, "progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tabapp.Run:
    with pytest.warns(tabapp.TableWarning) as found:
        made = tabapp.fit(table(400, 1), runs_dir=tmp_path_factory.mktemp("runs"), models=["lightgbm"], **FAST)
    assert [str(each.message).partition(" ")[0] for each in found] == ["lead:", "mass:", "price:"]
    return made


@pytest.fixture(scope="module")
def bundle(run: tabapp.Run) -> Path:
    return run.path / "model.tabapp"


def test_numbers_units_and_marks_predict_the_target(run: tabapp.Run):
    new = table(100, 2)
    truth = np.array([float(price.rstrip("*")) for price in new["price"]])
    predicted = np.asarray(run.predictor().predict(new.drop("price")))
    assert np.corrcoef(predicted, truth)[0, 1] > 0.98
    with_units = new.with_columns(
        mass=pl.Series([f"{float(m.split()[0]) / (1000 if ' g' in m else 1)}" for m in new["mass"]])
    )
    same = np.asarray(run.predictor().predict(with_units.with_columns(mass=with_units["mass"] + " kg").drop("price")))
    assert same == pytest.approx(predicted, abs=1e-6)


def test_a_companion_has_no_importance_of_its_own(run: tabapp.Run):
    importances = dict(run.importances().select("feature", "permutation").iter_rows())
    assert set(importances) == set(COLUMNS)
    assert importances["lead"] > importances["mass"] > abs(importances["origin"])


def test_explanations_are_of_the_columns_of_the_file(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from tabapp.explain.rows import Explainer

    loaded = load_bundle(bundle)
    predictor = loaded.predictor
    rows = predictor.typed_rows(pl.DataFrame({"lead": ["<5.00", "5.00"], "mass": ["2 kg"] * 2, "origin": ["tap"] * 2}))[
        0
    ]
    for decompose in (None, predictor.decompose_exactly):
        explainer = Explainer(predictor.predict_typed, predictor.schema, loaded.reference_rows(), decompose=decompose)
        below, plain = explainer.explain(rows, [0, 1]).rows
        assert list(below.contributions) == COLUMNS
        assert below.contributions["lead"] - plain.contributions["lead"] == pytest.approx(20, abs=4)
    new = tmp_path / "new.csv"
    new.write_text("lead,mass,origin\n5.00,2 kg,tap\n")
    assert run_command_line(["explain", str(bundle), str(new), "--set", "lead=<5.00"]) == 0
    assert "lead" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::tabapp.TableWarning")
def test_a_database_needs_the_marks_as_a_column(tmp_path: Path):
    run, target = tabapp.fit(table(400, 1), runs_dir=tmp_path, models=["linear"], **FAST), tmp_path / "model.sql"
    bundle = run.path / "model.tabapp"
    assert run_command_line(["export", str(bundle), "--sql", str(target)]) == 0
    assert "-- The column lead mark has the marks beside the values of lead; NULL is no mark." in target.read_text()
    predictor = load_bundle(bundle).predictor
    new = table(20, 3).drop("price")
    typed = predictor.typed_rows(new)[0]
    with sqlite3.connect(":memory:") as database:
        database.create_function("exp", 1, np.exp)
        names = ", ".join(map(sql_name, typed.columns))
        database.execute(f"CREATE TABLE data ({names})")
        database.executemany(f"INSERT INTO data VALUES ({', '.join('?' * typed.width)})", typed.rows())
        found = [row[0] for row in database.execute(target.read_text())]
    assert found == pytest.approx(predictor.predict_frame(new).values.tolist(), abs=1e-6)


@pytest.mark.slow
def test_onnx_takes_the_marks_as_an_input(bundle: Path, tmp_path: Path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    assert run_command_line(["export", str(bundle), "--onnx", str(tmp_path / "model.onnx")]) == 0
    names = {each.name for each in runtime.InferenceSession(str(tmp_path / "model.onnx")).get_inputs()}
    assert {"lead", "lead mark", "mass"} <= names


def test_a_script_that_cannot_read_the_marks_is_refused(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run_command_line(["export", str(bundle), "--python", str(tmp_path / "model.py")]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert "The numbers of the column 'lead' have marks, units or letters that a script does not read." in sentence
    assert not (tmp_path / "model.py").exists()
