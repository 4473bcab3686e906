"""`tabapp explain` and `Predictor.explain` over bundles in a process of their own."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import polars as pl
import pytest

import tabapp
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.commands.explain import by_column, explain
from tabapp.cli.commands.predict import predict
from tabapp.cli.commands.report import report
from tabapp.data.infer import infer_schema
from tabapp.errors import DataError, UsageError
from tabapp.explain.what_if import changed_rows
from tests.bundle.making import make_contents, register_linear, text_table
from tests.cli.test_predicting import call, sentence
from tests.run.recording import write_run

TASKS = ["binary", "multiclass", "regression"]


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


class Bundles(dict):
    """A bundle for each task, made when it is first used."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder

    def __missing__(self, task):
        place = self._folder / task
        place.mkdir()
        contents = make_contents(place, task, booster="lightgbm" if task == "binary" else None)
        write_bundle(place / "model.tabapp", contents)
        self[task] = place / "model.tabapp"
        return self[task]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    return Bundles(tmp_path_factory.mktemp("bundles"))


@pytest.fixture
def data(tmp_path):
    """A CSV of 12 new rows for each task."""
    paths = {task: tmp_path / f"{task}.csv" for task in TASKS}
    for task, path in paths.items():
        text_table(task, n_rows=12, seed=7).write_csv(path)
    return paths


def explained(*arguments):
    return json.loads(call(explain, *arguments, "--json").stdout)


@pytest.mark.parametrize(
    "task", ["regression", *(pytest.param(task, marks=pytest.mark.slow) for task in ("binary", "multiclass"))]
)
def test_base_plus_contributions_is_the_output_of_predict(bundles, data, tmp_path, task):
    found = explained(bundles[task], data[task], "--rows", "2-4")
    assert [row["row"] for row in found["rows"]] == [2, 3, 4]
    out = tmp_path / "out.csv"
    call(predict, bundles[task], data[task], "-o", out)
    predictions = pl.read_csv(out)
    for row in found["rows"]:
        assert list(row["contributions"]) == ["size", "age", "color", "joined"]
        assert found["base"] + sum(row["contributions"].values()) == pytest.approx(row["output"], abs=1e-9)
        assert row["prediction"] == predictions["prediction"][row["row"]] or task == "regression"
        column = "prediction" if task == "regression" else f"probability_{found['class']}"
        assert row["output"] == pytest.approx(predictions[column][row["row"]], rel=1e-5)
        assert row["error"] == max(row["errors"].values()) == 0.0, "four columns are enumerated"
    if task == "binary":
        alone = explained(bundles[task], data[task], "--row", 2, "--member", "lightgbm")
        assert (alone["member"], alone["unit"]) == ("lightgbm", "log-odds")
        (row,) = alone["rows"]
        assert alone["base"] + sum(row["contributions"].values()) == pytest.approx(row["output"])
        with pytest.raises(UsageError, match="cannot be explained alone"):
            call(explain, bundles[task], data[task], "--member", "test_linear")
        return
    if task != "regression":
        assert found["class"] == found["rows"][0]["prediction"]
        label = "mid" if task == "multiclass" else "no"
        other = explained(bundles[task], data[task], "--row", 2, "--class", label)
        assert other["rows"][0]["output"] == pytest.approx(predictions[f"probability_{label}"][2], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "npt"])
def test_a_network_is_explained_by_integrated_gradients(tmp_path, data, name):
    write_bundle(tmp_path / "model.tabapp", make_contents(tmp_path, "binary", booster=name))
    found = explained(tmp_path / "model.tabapp", data["binary"], "--rows", "0-9", "--member", name)
    assert (found["method"], found["unit"]) == ("integrated gradients", "log-odds")
    for row in found["rows"]:
        assert found["base"] + sum(row["contributions"].values()) == pytest.approx(row["output"])
        assert row["completeness_error"] < 0.01
        assert row["error"] == max(row["errors"].values()) > 0
    text = call(explain, tmp_path / "model.tabapp", data["binary"], "--member", name).stdout
    assert "integrated gradients: the contributions reach the output within" in text


def test_a_regression_by_boosters_alone_is_explained_by_tree_shap(tmp_path, data):
    contents = make_contents(tmp_path, "regression", booster="lightgbm")
    contents = replace(contents, candidates=[each for each in contents.candidates if each.model == "lightgbm"])
    write_bundle(tmp_path / "model.tabapp", contents)
    found = explained(tmp_path / "model.tabapp", data["regression"], "--rows", "0-1")
    out = tmp_path / "out.csv"
    call(predict, tmp_path / "model.tabapp", data["regression"], "-o", out)
    assert (found["method"], found["reference_rows"]) == ("TreeSHAP", 0)
    for row, predicted in zip(found["rows"], pl.read_csv(out)["prediction"], strict=False):
        assert row["output"] == pytest.approx(predicted, rel=1e-5)
        assert row["error"] == 0.0


@pytest.mark.slow
def test_changed_values_change_the_prediction_as_in_the_file(bundles, data, tmp_path):
    rows = pl.read_csv(data["regression"], infer_schema=False)
    changed = rows.with_columns(
        pl.Series("age", ["77.5" if i == 3 else v for i, v in enumerate(rows["age"])]),
        pl.Series("size", [None if i == 3 else v for i, v in enumerate(rows["size"])]),
    )
    path = tmp_path / "changed.csv"
    changed.write_csv(path)
    found = explained(bundles["regression"], data["regression"], "--row", 3, "--set", "age=77.5", "--set", "size=")
    again = tmp_path / "again.json"
    call(explain, bundles["regression"], path, "--row", 3, "-o", again)
    assert found == json.loads(again.read_text())


def test_python_gives_the_same_explanation(bundles, data):
    found = explained(bundles["regression"], data["regression"], "--rows", "0-1")
    predictor = tabapp.load(bundles["regression"])
    frame = pl.read_csv(data["regression"], infer_schema=False).drop("outcome")[:2]
    again = predictor.explain(frame)
    assert again["rows"] == found["rows"]
    assert again["base"] == found["base"]


def test_the_table_lists_the_largest_contribution_first(bundles, data, tmp_path):
    text = call(explain, bundles["regression"], data["regression"], "--row", 1).stdout
    first, header, *lines = text.splitlines()
    assert first.startswith("row 1 · outcome: ")
    assert header.split() == ["column", "value", "contribution", "±"]
    call(explain, bundles["regression"], data["regression"], "--row", 1, "-o", tmp_path / "out.csv")
    table = pl.read_csv(tmp_path / "out.csv")
    assert table.columns == ["row", "prediction", "base", "output", "column", "value", "contribution", "error"]
    assert table.height == 4
    order = table.sort(pl.col("contribution").abs(), descending=True)["column"].to_list()
    assert [line.split()[0] for line in lines] == order


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rows", "4-2"], "ends before it starts"),
        (["--rows", "some"], "is not a range of rows"),
        (["--row", "1", "--rows", "2-3"], "either --row or --rows"),
        (["--set", "age"], "has no value"),
        (["-o", "out.txt"], ".json"),
    ],
)
def test_what_cannot_be_explained_is_one_sentence(bundles, data, arguments, words):
    with pytest.raises(UsageError) as error:
        call(explain, bundles["regression"], data["regression"], *arguments)
    assert words in sentence(error.value)


def test_a_missing_column_is_named_and_can_be_given(bundles, data):
    pl.read_csv(data["regression"], infer_schema=False).drop("age").write_csv(data["regression"])
    with pytest.raises(DataError, match="columns are missing: 'age'"):
        call(explain, bundles["regression"], data["regression"])
    result = call(
        explain, bundles["regression"], data["regression"], "--set", "age=40", "--set", "color=mauve", "--json"
    )
    assert json.loads(result.stdout)["rows"]
    assert "'mauve' is not among the values of 'color'" in result.stderr
    with pytest.raises(UsageError) as error:
        call(explain, bundles["regression"], data["regression"], "--rows", "9-12")
    assert "There is no row 12" in sentence(error.value)


def test_names_of_columns_and_values_may_contain_equals_signs():
    table = text_table("binary", n_rows=20).with_columns(pl.col("age").alias("a"), pl.col("age").alias("a=b"))
    schema = infer_schema(table, target="outcome")
    assert by_column(("a=b=1", "a=2=3", "size=", "c=d=e"), schema) == {"a=b": "1", "a": "2=3", "size": "", "c": "d=e"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"aeg": "3"}, "did you mean 'age'"),
        ({"outcome": "no"}, "has no feature 'outcome'"),
        ({"age": "old"}, "'old' is not a number"),
        ({"joined": "soon"}, "'soon' is not a date"),
    ],
)
def test_a_value_that_cannot_be_set_is_named(settings, words):
    frame = text_table("binary", n_rows=20)
    with pytest.raises(UsageError) as error:
        changed_rows(frame, range(2), settings, infer_schema(frame, target="outcome"))
    assert words in sentence(error.value)


@pytest.mark.slow
def test_a_report_explains_sample_rows_on_request(bundles, tmp_path):
    folder = write_run(tmp_path / "runs")
    words = [folder.run, "--runs-dir", tmp_path / "runs", "-o", tmp_path / "report.json"]
    with pytest.raises(UsageError, match="no bundle"):
        call(report, *words, "--examples", 2)
    shutil.copy(bundles["regression"], folder.bundle)
    call(report, *words, "--examples", 2)
    sections = {each["title"]: each["parts"] for each in json.loads((tmp_path / "report.json").read_text())["sections"]}
    _, *rows = sections["Example rows"]
    assert [len(row["rows"]) for row in rows] == [4, 4]
    call(report, *words)
    assert "Example rows" not in (tmp_path / "report.json").read_text()
