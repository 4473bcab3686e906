"""Scripts that train the best model of a bundle again, run as they are."""

from __future__ import annotations

import re
import runpy
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tabapp.bundle.export.script import _feature, write_script
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.main import run_command_line
from tabapp.data.schema import Column
from tabapp.data.typed import typed_column
from tabapp.errors import UsageError
from tests.bundle.making import make_contents, text_table
from tests.bundle.portable import BOOSTERS, DERIVED, POISSON, make_bundle

pytest.importorskip("pandas")


def run_script(monkeypatch, script, *arguments):
    monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("lightgbm", "binary"),
        ("catboost", "regression"),
        ("linear", "multiclass"),
        pytest.param("xgboost", "multiclass", marks=pytest.mark.slow),
        pytest.param("extra_trees", "regression", marks=pytest.mark.slow),
        pytest.param("lightgbm", "regression", marks=pytest.mark.slow),
        pytest.param("xgboost", "regression", marks=pytest.mark.slow),
        pytest.param("catboost", "multiclass", marks=pytest.mark.slow),
        pytest.param("linear", "regression", marks=pytest.mark.slow),
        pytest.param("hist_gradient_boosting", "multiclass", marks=pytest.mark.slow),
        pytest.param("random_forest", "binary", marks=pytest.mark.slow),
    ],
)
def test_a_script_trains_and_predicts_without_tabapp(name, task, tmp_path, monkeypatch, capsys):
    bundle = make_bundle(tmp_path, task, [name])
    script = tmp_path / "model.py"
    assert run_command_line(["export", str(bundle), "--python", str(script)]) == 0
    assert "import tabapp" not in script.read_text()
    training, new = text_table(task, n_rows=300), text_table(task, n_rows=80, seed=5)
    training.write_csv(tmp_path / "training.csv")
    new.drop("outcome").write_csv(tmp_path / "new.csv")
    capsys.readouterr()
    run_script(monkeypatch, script, tmp_path / "training.csv")
    (score,) = re.findall(r": (-?[\d.e+]+)", capsys.readouterr().out)
    limits = {"binary": (0.85, 1), "multiclass": (-1.0, 0), "regression": (-110, 0)}[task]
    assert limits[0] < float(score) < limits[1]
    run_script(monkeypatch, script, tmp_path / "training.csv", tmp_path / "new.csv", tmp_path / "out.csv")
    found = pl.read_csv(tmp_path / "out.csv")
    predictor = load_bundle(bundle).predictor
    expected = predictor.to_frame(predictor.predict_frame(new))
    assert found.columns == [column for column in expected.columns if column not in ("low", "high")]
    column = found.columns[min(1, found.width - 1)]
    assert np.corrcoef(found[column].to_numpy(), expected[column].to_numpy())[0, 1] > 0.7


def test_a_script_labels_rows_by_the_threshold_of_the_bundle(tmp_path, monkeypatch):
    bundle = make_bundle(tmp_path, "binary", ["linear"], threshold=0.9)
    write_script(bundle, tmp_path / "model.py")
    text_table("binary", n_rows=200).write_csv(tmp_path / "training.csv")
    run_script(monkeypatch, tmp_path / "model.py", *[tmp_path / "training.csv"] * 2, tmp_path / "out.csv")
    found = pl.read_csv(tmp_path / "out.csv")
    assert (found["prediction"] == "yes").to_list() == (found["probability_yes"] >= 0.9).to_list()
    assert found["prediction"].n_unique() == 2


def test_a_date_column_becomes_its_parts(tmp_path, monkeypatch):
    contents = make_contents(tmp_path / "made", "regression", booster="lightgbm")
    write_bundle(tmp_path / "model.tabapp", replace(contents, candidates=contents.candidates[1:]))
    assert write_script(tmp_path / "model.tabapp", tmp_path / "model.py") == "lightgbm"
    names = runpy.run_path(str(tmp_path / "model.py"))
    text_table("regression", n_rows=5).write_csv(tmp_path / "rows.csv")
    made = names["features"](names["read"](tmp_path / "rows.csv"))
    dates = text_table("regression", n_rows=5)["joined"].str.to_date()
    assert made["joined month"].tolist() == dates.dt.month().to_list()
    assert made["joined days"].tolist() == dates.to_physical().to_list()


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("iso", ["2024-03-13", "2024-03-13T03:05:06Z", "2024-03-13 03:05:06+02:00", "9999-12-31", "soon", None]),
        ("day first", ["03/04/2024", "28.10.2021 05:30", "2024-03-13"]),
        ("month first", ["03/04/2024", "3/13/2024 3:05 PM", "31 May 2024"]),
        ("%d/%m/%Y", ["03/04/2024", "28/10/2021"]),
        ("epoch s", ["1710299106", "1710299107"]),
        ("excel", ["45364", "45364.5"]),
    ],
)
def test_a_script_reads_the_same_moments(form, texts):
    column = Column(name="when", kind="datetime", reason="", datetime_format=form, open_ends=("9999-12-31", "soon"))
    expected = typed_column(pl.Series("when", texts, dtype=pl.String), column)
    pandas = pytest.importorskip("pandas")
    names = {"pd": pandas, "number": lambda cells: pandas.to_numeric(cells, errors="coerce"), "made": {}}
    names["table"] = pandas.DataFrame({"when": texts}, dtype="string")
    exec("\n".join(_feature(column)), names)
    read = [None if pandas.isna(each) else each.to_pydatetime() for each in names["dates"]]
    assert read == expected.to_list()


def test_features_made_from_two_numbers_are_made_again(tmp_path, monkeypatch):
    bundle = make_bundle(tmp_path, "regression", ["lightgbm"], changes=DERIVED)
    write_script(bundle, tmp_path / "model.py")
    text_table("regression", n_rows=300).write_csv(tmp_path / "training.csv")
    names = runpy.run_path(str(tmp_path / "model.py"))
    made = names["features"](names["read"](tmp_path / "training.csv"))
    size, age = made["size"].to_numpy(), made["age"].to_numpy()
    expected = {"size + age": size + age, "size - age": size - age, "size × age": size * age, "size / age": size / age}
    found = [name for name in expected if name in made]
    assert found
    for name in found:
        np.testing.assert_array_equal(made[name].to_numpy(), expected[name])
    run_script(monkeypatch, tmp_path / "model.py", *[tmp_path / "training.csv"] * 2, tmp_path / "out.csv")
    assert len(pl.read_csv(tmp_path / "out.csv")) == 300


@pytest.mark.parametrize("name", BOOSTERS)
def test_a_script_minimizes_the_poisson_deviance(name, tmp_path, monkeypatch):
    bundle = make_bundle(tmp_path, "regression", [name], changes=POISSON)
    write_script(bundle, tmp_path / "model.py")
    assert "poisson" in (tmp_path / "model.py").read_text().lower()
    training, new = text_table("regression", n_rows=300), text_table("regression", n_rows=80, seed=5)
    training.write_csv(tmp_path / "training.csv")
    new.write_csv(tmp_path / "new.csv")
    run_script(monkeypatch, tmp_path / "model.py", *(tmp_path / f"{part}.csv" for part in ("training", "new", "out")))
    found = pl.read_csv(tmp_path / "out.csv")["prediction"].to_numpy()
    expected = load_bundle(bundle).predictor.predict_frame(new).values
    assert np.corrcoef(found, expected)[0, 1] > 0.7
    assert found.mean() == pytest.approx(expected.mean(), rel=0.1)


def test_members_that_no_script_can_contain_are_named(tmp_path):
    bundle = make_bundle(tmp_path, "binary", ["k_neighbors"])
    with pytest.raises(UsageError, match=r"\(k_neighbors\) cannot be written as a script"):
        write_script(bundle, tmp_path / "model.py")
