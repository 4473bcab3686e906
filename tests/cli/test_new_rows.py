"""New rows compared with training by `predict`, `evaluate` and `explain`, and the options for reading them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.commands import evaluate as evaluating
from tabapp.cli.commands import explain as explaining
from tabapp.cli.commands import predict as predicting
from tabapp.errors import DataError
from tests.bundle.making import make_contents, register_linear, text_table
from tests.cli.test_predicting import call, read_in_parts


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        folder = tmp_path_factory.mktemp("bundle")
        write_bundle(folder / "model.tabapp", make_contents(folder / "made", "binary"))
        return folder / "model.tabapp"


@pytest.fixture
def rows() -> pl.DataFrame:
    return text_table("binary", n_rows=60, seed=7).drop("outcome")


def predicted(bundle, table, folder, *options):
    """The predictions of a table, and what is said about it."""
    table.write_csv(folder / "rows.csv")
    result = call(predicting.predict, bundle, folder / "rows.csv", "-o", folder / "out.csv", *options)
    return pl.read_csv(folder / "out.csv"), result.stderr


CHANGES = {
    "range": (pl.col("age").cast(pl.Float64) * 1000).cast(pl.String).alias("age"),
    "unseen": pl.lit("violet").alias("color"),
    "spelling": pl.col("color").str.to_uppercase().alias("color"),
    "format": (pl.col("age").str.replace(".", ",", literal=True) + "00").alias("age"),
}


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("finding", CHANGES)
def test_columns_that_differ_from_training_are_reported_or_refused(bundle, rows, tmp_path, monkeypatch, finding, parts):
    if parts:
        read_in_parts(monkeypatch)
    changed = rows.with_columns(CHANGES[finding])
    name = next(name for name in rows.columns if not changed[name].equals(rows[name]))
    found, stderr = predicted(bundle, changed, tmp_path)
    assert found.height == rows.height
    (note,) = [line for line in stderr.splitlines() if f"'{name}'" in line]
    checked = call(predicting.predict, bundle, tmp_path / "rows.csv", "--check")
    assert checked.return_value == 0
    assert f"{finding}: '{name}' " in checked.stdout
    assert checked.stdout.split(f"'{name}' ")[1].splitlines()[0].rstrip(".") in note
    (tmp_path / "out.csv").unlink()
    with pytest.raises(DataError, match=rf"^\S+rows\.csv: '{name}' .*\. Omit --strict to predict it anyway\.$"):
        predicted(bundle, changed, tmp_path, "--strict")
    assert not (tmp_path / "out.csv").exists()
    checked = call(predicting.predict, bundle, tmp_path / "rows.csv", "--check", "--strict")
    assert checked.return_value == 3
    assert f"refused: '{name}' " in checked.stdout
    assert "would be rejected." in checked.stdout


def test_rows_like_those_of_training_are_not_reported(bundle, rows, tmp_path):
    for table in (rows, rows[:1], rows[:0]):
        assert predicted(bundle, table, tmp_path, "--strict")[1].count("\n") == 1


@pytest.mark.parametrize("finding", ["spelling", "format"])
def test_rows_in_another_spelling_have_the_same_predictions(bundle, rows, tmp_path, finding):
    expected = predicted(bundle, rows, tmp_path)[0]
    assert predicted(bundle, rows.with_columns(CHANGES[finding]), tmp_path)[0].equals(expected)


def test_the_options_for_reading_apply_to_new_rows(bundle, rows, tmp_path):
    expected = predicted(bundle, rows, tmp_path)[0]
    numbers = rows.with_columns(CHANGES["format"], pl.col("size").str.replace(".", ",", literal=True))
    text = numbers.write_csv(separator=";").replace("red", "röd")
    (tmp_path / "other.csv").write_bytes(text.encode("cp1252"))
    options = ["--decimal", ",", "--delimiter", ";", "--encoding", "cp1252"]
    written = tmp_path / "other-out.csv"
    call(predicting.predict, bundle, tmp_path / "other.csv", "-o", written, "--keep", *options)
    found = pl.read_csv(written, infer_schema=False)
    assert set(found["color"]) >= {"röd", "green"}
    same = (rows["color"] != "red").fill_null(True)
    assert found.filter(same)["probability_yes"].cast(pl.Float64).to_list() == pytest.approx(
        expected.filter(same)["probability_yes"].to_list()
    )
    wrong = call(predicting.predict, bundle, tmp_path / "other.csv", "--check", "--decimal", ".")
    assert "range: 'age'" in wrong.stdout


def test_evaluate_and_explain_compare_rows_with_training(bundle, rows, tmp_path):
    table = text_table("binary", n_rows=60, seed=7)
    commands = {
        evaluating.evaluate: ["--drift"],
        explaining.explain: ["--row", "3"],
    }
    for command, options in commands.items():
        expected = run_on(command, bundle, table, tmp_path, options)
        other = run_on(command, bundle, table.with_columns(CHANGES["format"]), tmp_path, options)
        assert "'age' is written with another decimal mark" in other.stderr
        if command is evaluating.evaluate:
            assert other.stdout == expected.stdout
        else:
            assert other.stdout.splitlines()[0] == expected.stdout.splitlines()[0]
        with pytest.raises(DataError, match=r"'age' .*Omit --strict"):
            run_on(command, bundle, table.with_columns(CHANGES["range"]), tmp_path, [*options, "--strict"])


def run_on(command, bundle, table, folder, options):
    table.write_csv(folder / "rows.csv")
    return call(command, bundle, folder / "rows.csv", *options)


def test_a_value_that_is_set_is_spelled_as_in_the_file(bundle, rows, tmp_path):
    for table, value in ((rows, "50.5"), (rows.with_columns(CHANGES["format"]), "50,5")):
        result = run_on(explaining.explain, bundle, table, tmp_path, ["--row", "2", "--set", f"age={value}"])
        first = result.stdout.splitlines()[0]
        assert value in result.stdout
        if value == "50.5":
            expected = first
        assert first == expected
