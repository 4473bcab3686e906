"""`tabapp monitor`, `tabapp evaluate --drift` and `tabapp update`."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.update import FEWEST_HELD_OUT, compare_bundles, rows_for_update
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.main import run_command_line
from tabapp.cli.reading import Reader
from tabapp.data.infer import infer_schema
from tabapp.data.reading import stream
from tabapp.errors import DataError
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder
from tests.bundle.making import make_contents, register_linear, text_table

USAGE, DATA, BUNDLE = 2, 3, 5


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


def shifted(rows: pl.DataFrame) -> pl.DataFrame:
    """Older people, a new color, and no dates."""
    older = [f"{float(age) + 60:.1f}" for age in rows["age"]]
    color = ["violet" if i % 2 else color for i, color in enumerate(rows["color"])]
    return rows.with_columns(
        pl.Series("age", older), pl.Series("color", color), pl.lit(None, dtype=pl.String).alias("joined")
    )


@pytest.fixture
def files(tmp_path) -> list[Path]:
    """A table like the training table, the same without a target, and a shifted one."""
    same, later = text_table("binary", n_rows=300, seed=4), text_table("binary", n_rows=200, seed=5)
    paths = [tmp_path / name for name in ("january.csv", "february.csv", "march.csv")]
    same.write_csv(paths[0])
    same.drop("outcome").write_csv(paths[1])
    shifted(later).write_csv(paths[2])
    return paths


def test_monitor_finds_the_columns_that_have_changed(bundle, files, capsys):
    assert run_command_line(["monitor", str(bundle), *map(str, files), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [file["file"] for file in found["files"]] == ["january.csv", "february.csv", "march.csv"]
    same, unlabeled, changed = found["files"]
    assert max(column["stability"] for column in same["columns"]) < 0.25
    assert unlabeled["score"] is None
    assert same["score"]["metric"] == found["trained"]["metric"] == "roc_auc"
    assert same["score"]["low"] < same["score"]["score"] < same["score"]["high"]
    assert same["score"]["rows"] == 300
    columns = {column["column"]: column for column in changed["columns"]}
    assert {name for name, column in columns.items() if column["stability"] > 0.25} == {"age", "color", "joined"}
    assert columns["color"]["new_levels"] == 100
    assert (columns["joined"]["missing"], columns["joined"]["missing_before"]) == (1.0, 0.0)
    assert sum(changed["predictions"].values()) == pytest.approx(1)
    order = [column["stability"] for column in changed["columns"]]
    assert order == sorted(order, reverse=True)


def test_monitor_reports_or_refuses_another_scale(bundle, tmp_path, capsys):
    rows = text_table("binary", n_rows=80, seed=4)
    rows.with_columns(pl.col("age").cast(pl.Float64) * 1000).write_csv(tmp_path / "scaled.csv")
    assert run_command_line(["monitor", str(bundle), str(tmp_path / "scaled.csv")]) == 0
    assert "'age' has 80 of 80 values outside of the training range" in capsys.readouterr().err
    assert run_command_line(["monitor", str(bundle), str(tmp_path / "scaled.csv"), "--strict"]) == DATA
    assert "Omit --strict" in capsys.readouterr().err


def test_new_rows_with_another_decimal_mark_are_trained_on_in_that_of_the_old_ones():
    old, new = text_table("binary", n_rows=200, seed=1), text_table("binary", n_rows=150, seed=2)
    schema = infer_schema(old, target="outcome")
    expected = rows_for_update(old, new, schema, 0)
    commas = new.with_columns(pl.col("age").str.replace(".", ",", literal=True) + "00")
    found = rows_for_update(old, commas, schema, 0, decimal="auto")
    numbers = pl.col("age", "size").cast(pl.Float64)
    assert found.training.with_columns(numbers).equals(expected.training.with_columns(numbers))
    assert found.held_out.with_columns(numbers).equals(expected.held_out.with_columns(numbers))
    assert "'age' is written with another decimal mark" in found.notes[0]


@pytest.mark.parametrize("suffix", [".html", ".md", ".json"])
def test_monitor_writes_a_report(bundle, files, suffix, tmp_path, capsys):
    out = tmp_path / f"drift{suffix}"
    assert run_command_line(["monitor", str(bundle), *map(str, files), "-o", str(out)]) == 0
    assert capsys.readouterr().out.split() == [str(out)]
    text = out.read_text()
    for part in ("january.csv", "march.csv", "age", "large", "roc_auc"):
        assert part in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_monitor_prints_a_table_for_each_file(bundle, files, capsys):
    assert run_command_line(["monitor", str(bundle), str(files[2])]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].startswith("march.csv · 200 rows · roc_auc 0.")
    assert any(line.startswith("age") and "large" in line for line in captured.out.splitlines())
    assert run_command_line(["monitor", str(bundle), str(files[0]), "-o", "x.docx"]) == 2


def test_monitor_compares_large_files_in_parts_with_the_same_result(bundle, files, capsys, monkeypatch):
    strange = text_table("binary", n_rows=150, seed=6).drop("age")
    strange = strange.with_columns(
        pl.Series("outcome", [None, "maybe", *strange["outcome"].to_list()[2:]], dtype=pl.String), more=pl.lit("1")
    )
    strange.write_csv(files[0].with_name("april.csv"))
    arguments = ["monitor", str(bundle), *map(str, files), str(files[0].with_name("april.csv")), "--json"]
    assert run_command_line(arguments) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(stream, "LARGE_TEXT", 100)
    monkeypatch.setattr(stream, "BLOCK", 1000)
    monkeypatch.setattr(Reader, "read", None)
    assert run_command_line(arguments) == 0
    parts = json.loads(capsys.readouterr().out)
    assert [file["rows"] for file in whole["files"]] == [300, 300, 200, 150]
    assert whole["files"][3]["score"]["rows"] == 148
    assert "'age'" in " ".join(whole["files"][3]["notes"])
    for expected, found in zip(whole["files"], parts["files"], strict=True):
        assert found.pop("predictions") == pytest.approx(expected.pop("predictions"))
        assert found == expected


def test_evaluate_adds_the_drift(bundle, files, capsys):
    assert run_command_line(["evaluate", str(bundle), str(files[2]), "--drift"]) == 0
    assert "march.csv · 200 rows" in capsys.readouterr().out
    assert run_command_line(["evaluate", str(bundle), str(files[2]), "--drift", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["drift"][0]["stability"] > 0.25
    assert run_command_line(["evaluate", str(bundle), str(files[2]), "--json"]) == 0
    assert "drift" not in json.loads(capsys.readouterr().out)


def test_some_new_rows_are_held_out_and_the_others_are_trained_on():
    old, new = text_table("binary", n_rows=100), text_table("binary", n_rows=200, seed=3)
    new = new.with_columns(pl.Series("outcome", [None, *new["outcome"].to_list()[1:]], dtype=pl.String))
    schema = infer_schema(old, target="outcome")
    rows = rows_for_update(old, pl.concat([new, old]).select(reversed(new.columns)), schema, seed=0)
    assert rows.training.columns == old.columns
    assert rows.training.head(100).equals(old)
    assert rows.held_out.height >= FEWEST_HELD_OUT
    both = rows.held_out.join(rows.training, on=old.columns, nulls_equal=True)
    assert both.is_empty(), "copies of training rows are not held out"


def test_the_latest_rows_are_held_out_of_a_table_with_time():
    old, new = text_table("binary", n_rows=100), text_table("binary", n_rows=200, seed=3)
    schema = infer_schema(old, target="outcome", time="joined")
    rows = rows_for_update(old, new, schema, seed=0)
    assert rows.held_out["joined"].min() >= rows.training.slice(100)["joined"].max()


def test_groups_are_held_out_whole():
    table = text_table("binary", n_rows=300).with_columns(pl.Series("person", [f"p{i % 40}" for i in range(300)]))
    old, new = table.head(100), table.slice(100)
    schema = infer_schema(table, target="outcome", group="person")
    rows = rows_for_update(old, new, schema, seed=0)
    assert not set(rows.held_out["person"]) & set(rows.training.slice(100)["person"])


def test_too_few_new_rows_are_named():
    old = text_table("binary", n_rows=100)
    with pytest.raises(DataError, match="40 new rows have a target; at least 100 are needed"):
        rows_for_update(old, text_table("binary", n_rows=40, seed=3), infer_schema(old, target="outcome"), seed=0)


def test_the_same_bundle_has_no_difference(bundle):
    predictor = load_bundle(bundle).predictor
    found = compare_bundles(predictor, predictor, text_table("binary", n_rows=60, seed=9), "roc_auc", seed=0)
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert found.rows == 60
    assert found.verdict == "no significant difference"
    assert found.old == found.new
    assert np.isfinite([value.score for value in found.old]).all()


def test_a_changed_training_file_is_rejected(bundle, files, tmp_path, capsys):
    arguments = ["update", str(bundle), str(files[0]), "--data", str(files[1]), "--runs-dir", str(tmp_path)]
    assert run_command_line(arguments) == DATA
    assert "is not the training file of the bundle" in capsys.readouterr().err
    assert run_command_line(["update", str(bundle), str(files[0]), "--runs-dir", str(tmp_path)]) == DATA
    assert "with --data FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "run", ["/etc", "..", ".", "", "../elsewhere", "a/b", "x" * 300, "a\0b", "../runs/20260101-000000-made-0001"]
)
def test_a_bundle_names_no_run_outside_of_the_folder_of_runs(bundle, files, tmp_path, capsys, run):
    from tests.bundle.test_load import members_of, with_manifest, write_zip

    hostile = with_manifest(members_of(bundle), lambda manifest, members: manifest.update(run=run))
    path = write_zip(tmp_path / "hostile.tabapp", hostile.items())
    assert run_command_line(["update", str(path), str(files[0]), "--runs-dir", str(tmp_path / "runs")]) == BUNDLE
    (sentence,) = capsys.readouterr().err.splitlines()
    assert "which is not the id of a run" in sentence


def with_fingerprint_of(table, bundle, path):
    """A bundle whose training file is a table."""
    from tests.bundle.test_load import members_of, with_manifest, write_zip

    data = {"file": "made.csv", "sha256": hashlib.sha256(table.read_bytes()).hexdigest()}
    return write_zip(
        path, with_manifest(members_of(bundle), lambda manifest, members: manifest.update(data=data)).items()
    )


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "foreign"])
def test_update_uses_the_options_of_own_runs_only(bundle, files, tmp_path, monkeypatch, capsys, is_own):
    created = []
    monkeypatch.setattr("tabapp.run.record.folder.create_run", lambda config, place: created.append(config) or folder)
    monkeypatch.setattr("tabapp.headless.follow.follow", lambda *_, **__: 1)
    path = with_fingerprint_of(files[0], bundle, tmp_path / "a.tabapp")
    folder = RunFolder(tmp_path / "runs" / "20260101-000000-made-0001")
    folder.path.mkdir(parents=True)
    config = RunConfig(
        data=str(files[0]),
        models=("linear",),
        unlabelled="/etc/passwd",
        executor="ray",
        address="evil:1",
        out="/precious",
    )
    folder.save_config(config)
    if not is_own:
        (folder.path / "run.seal").unlink()
    words = ["update", str(path), str(files[2]), "--runs-dir", str(tmp_path / "runs")]
    if is_own:
        assert run_command_line(words) == USAGE
        assert "--executor ray --address ADDRESS" in capsys.readouterr().err
        words += ["--executor", "local"]
    else:
        assert run_command_line(words) == DATA
        (sentence,) = capsys.readouterr().err.splitlines()
        assert "is not in" in sentence
        assert "training file made.csv with --data FILE" in sentence
        os.mkfifo(tmp_path / "pipe")
        assert run_command_line([*words, "--data", str(tmp_path / "pipe")]) == DATA, "it waits for a writer"
        words += ["--data", str(files[0])]
    assert run_command_line(words) == 1
    (new,) = created
    assert (new.executor, new.address, new.out) == ("local", None, None)
    assert (new.unlabelled, new.models) == (("/etc/passwd", ("linear",)) if is_own else (None, ()))


@pytest.mark.slow
def test_update_trains_on_old_and_new_rows(tmp_path, capfd):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    text_table("binary", n_rows=200).write_csv(old)
    text_table("binary", n_rows=300, seed=3).write_csv(new)
    runs = str(tmp_path / "runs")
    options = ["--target", "outcome", "--models", "linear", "--trials", "1", "--folds", "2", "--runs-dir", runs, "-q"]
    assert run_command_line(["--auto", str(old), *options, "--out", str(tmp_path / "old.tabapp")]) == 0
    capfd.readouterr()
    arguments = ["update", str(tmp_path / "old.tabapp"), str(new), "--runs-dir", runs, "--json"]
    assert run_command_line([*arguments, "-o", str(tmp_path / "new.tabapp")]) == 0
    found = json.loads(capfd.readouterr().out[-2000:].partition("{")[2].join(["{", ""]))
    assert found["rows"] == 60
    assert found["low"] <= found["difference"] <= found["high"]
    updated = load_bundle(tmp_path / "new.tabapp").contents.manifest
    assert updated.data["rows"] == 440
    assert updated.metric == "roc_auc"
