import json
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tabapp.bundle.files import contents
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.threshold import set_threshold
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.commands import evaluate as evaluating
from tabapp.cli.commands import explain as explaining
from tabapp.cli.commands import inspect as inspecting
from tabapp.cli.commands import monitor as monitoring
from tabapp.cli.commands import predict as predicting
from tabapp.data.reading import stream
from tabapp.errors import BundleError, DataError, TabappError, UsageError
from tests.bundle.making import make_contents, register_linear, text_table
from tests.waiting import HANG_SECONDS

TASKS = ["binary", "multiclass", "regression"]


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        found = {}
        for task in TASKS:
            folder = tmp_path_factory.mktemp(task)
            found[task] = folder / "model.tabapp"
            write_bundle(found[task], make_contents(folder, task))
        return found


@pytest.fixture
def data(tmp_path):
    """A CSV of 30 new rows for each task."""
    paths = {task: tmp_path / f"{task}.csv" for task in TASKS}
    for task, path in paths.items():
        text_table(task, n_rows=30, seed=7).write_csv(path)
    return paths


def call(command, *arguments, stdin=None):
    """Run a command and raise its errors."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], input=stdin, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def sentence(error: TabappError) -> str:
    text = str(error)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predict_writes_what_the_bundle_predicts(bundles, data, tmp_path, task, suffix):
    out = tmp_path / f"out{suffix}"
    call(predicting.predict, bundles[task], data[task], "-o", out)
    written = pl.read_csv(out) if suffix == ".csv" else pl.read_parquet(out)
    predictor = load_bundle(bundles[task]).predictor
    expected = predictor.to_frame(predictor.predict_frame(text_table(task, n_rows=30, seed=7)))
    assert written.columns == expected.columns
    assert written.height == 30
    numbers = [name for name in expected.columns if expected[name].dtype == pl.Float64]
    np.testing.assert_allclose(written.select(numbers).to_numpy(), expected.select(numbers).to_numpy(), rtol=1e-6)
    assert written["prediction"].to_list() == pytest.approx(expected["prediction"].to_list(), rel=1e-6)


def test_predictions_go_to_stdout_and_notes_to_stderr(bundles, data, tmp_path):
    plain = call(predicting.predict, bundles["binary"], data["binary"])
    assert plain.stdout.splitlines()[0] == "prediction,probability_no,probability_yes"
    assert len(plain.stdout.splitlines()) == 31
    assert plain.stderr == ""
    table = pl.read_csv(data["binary"], infer_schema=False).with_columns(surplus=pl.lit("1"))
    table.write_csv(tmp_path / "more.csv")
    noted = call(predicting.predict, bundles["binary"], tmp_path / "more.csv", "-o", "-")
    assert noted.stdout == plain.stdout
    assert noted.stderr.count("surplus") == 1
    assert call(predicting.predict, bundles["binary"], tmp_path / "more.csv", "-q").stderr == ""


def test_repairs_are_noted_with_what_was_done(bundles, data, tmp_path):
    table = tmp_path / "with_total.csv"
    table.write_text(
        data["binary"].read_text() + "Total" + "," * data["binary"].read_text().split("\n")[0].count(",") + "\n"
    )
    words = "totals or remarks ('Total') → dropped; fill in the other cells of a line that is a row."
    for command, *options in (
        (predicting.predict,),
        (predicting.predict, "--check"),
        (explaining.explain,),
        (evaluating.evaluate,),
        (monitoring.monitor,),
    ):
        assert words in call(command, bundles["binary"], table, *options).stderr, command.name


def test_the_threshold_that_labels_rows_is_named(bundles, data, tmp_path):
    bundle = tmp_path / "model.tabapp"
    shutil.copy(bundles["binary"], bundle)
    assert "probability of" not in call(predicting.predict, bundle, data["binary"]).stderr
    set_threshold(bundle, 0.31)
    words = "Rows are labeled yes from a probability of 0.31, the threshold of the bundle for 'outcome'."
    out = tmp_path / "out.csv"
    for options in ([], ["-o", out], ["--check"]):
        assert words in call(predicting.predict, bundle, data["binary"], *options).stderr
    assert call(predicting.predict, bundle, data["binary"], "-q").stderr == ""
    for options in (["-o", out], ["--check"]):
        last = json.loads(call(predicting.predict, bundle, data["binary"], "--json", *options).stdout.splitlines()[-1])
        assert last["labels"] == [{"target": "outcome", "positive": "yes", "threshold": 0.31}]
    assert "labeled yes from a probability of 0.31" in call(explaining.explain, bundle, data["binary"]).stderr


def test_data_is_read_from_stdin(bundles, data):
    from_file = call(predicting.predict, bundles["binary"], data["binary"])
    from_stdin = call(predicting.predict, bundles["binary"], "-", stdin=data["binary"].read_bytes())
    assert from_stdin.stdout == from_file.stdout


def test_keep_prepends_the_input_and_renames_clashing_columns(bundles, data, tmp_path):
    table = pl.read_csv(data["regression"], infer_schema=False).with_columns(low=pl.lit("7"))
    table.write_csv(tmp_path / "clash.csv")
    result = call(predicting.predict, bundles["regression"], tmp_path / "clash.csv", "--keep", "-o", tmp_path / "o.csv")
    written = pl.read_csv(tmp_path / "o.csv", infer_schema=False)
    assert written.columns == [*table.columns[:-1], "low_input", "prediction", "low", "high"]
    assert written.select(table.columns[:-1]).equals(table.select(table.columns[:-1]))
    assert "low_input" in result.stderr


def test_missing_columns_are_reported_or_filled(bundles, data, tmp_path):
    table = pl.read_csv(data["binary"], infer_schema=False).drop("size").with_columns(age=pl.lit("old"))
    table.write_csv(tmp_path / "less.csv")
    with pytest.raises(DataError) as caught:
        call(predicting.predict, bundles["binary"], tmp_path / "less.csv", "-o", tmp_path / "o.csv")
    assert caught.value.exit_code == 3
    for part in ("less.csv", "'size'", "'age'", "--missing-columns fill"):
        assert part in sentence(caught.value)
    assert not (tmp_path / "o.csv").exists()
    filled = call(predicting.predict, bundles["binary"], tmp_path / "less.csv", "--missing-columns", "fill")
    assert len(filled.stdout.splitlines()) == 31
    assert "'size'" in filled.stderr


@pytest.mark.parametrize("output", ["out.xlsx", "out", "missing/out.csv", "."])
def test_invalid_output_is_rejected_before_any_work(tmp_path, output):
    with pytest.raises(UsageError) as caught:
        call(predicting.predict, tmp_path / "no.tabapp", tmp_path / "no.csv", "-o", f"{tmp_path}/{output}")
    assert caught.value.exit_code == 2
    sentence(caught.value)


def test_invalid_inputs_give_one_sentence(bundles, data, tmp_path):
    (tmp_path / "cut.tabapp").write_bytes(bundles["binary"].read_bytes()[:5000])
    for bundle in (tmp_path / "none.tabapp", tmp_path / "cut.tabapp", data["binary"], tmp_path):
        for command in (predicting.predict, evaluating.evaluate):
            with pytest.raises(BundleError) as caught:
                call(command, bundle, data["binary"])
            assert sentence(caught.value)
        with pytest.raises(BundleError):
            call(inspecting.inspect, bundle)
    for table in (tmp_path / "none.csv", tmp_path):
        for command in (predicting.predict, evaluating.evaluate):
            with pytest.raises(DataError) as caught:
                call(command, bundles["binary"], table)
            assert sentence(caught.value)


@pytest.mark.parametrize("task", TASKS)
def test_evaluate_scores_every_metric_of_the_task(bundles, data, task):
    found = json.loads(call(evaluating.evaluate, bundles[task], data[task], "--json").stdout)
    assert found["rows"] == found["scored"] == 30
    assert found["metrics"][0]["name"] == found["metric"]
    n_metrics = {"binary": 7, "multiclass": 6, "regression": 5}[task]
    assert len(found["metrics"]) == n_metrics
    for value in found["metrics"]:
        assert value["low"] <= value["score"] <= value["high"]


def test_evaluate_agrees_with_scikit_learn_on_what_predict_writes(bundles, data):
    from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

    found = json.loads(call(evaluating.evaluate, bundles["binary"], data["binary"], "--json").stdout)
    scores = {value["name"]: value["score"] for value in found["metrics"]}
    written = pl.read_csv(call(predicting.predict, bundles["binary"], data["binary"]).stdout.encode())
    truth = pl.read_csv(data["binary"])["outcome"]
    positive = written["probability_yes"].to_numpy()
    assert scores["roc_auc"] == pytest.approx(roc_auc_score(truth == "yes", positive))
    assert scores["log_loss"] == pytest.approx(log_loss(truth == "yes", positive))
    assert scores["accuracy"] == pytest.approx(accuracy_score(truth, written["prediction"]))


def test_evaluate_skips_rows_without_target_or_with_unknown_classes(bundles, data, tmp_path):
    table = pl.read_csv(data["binary"], infer_schema=False)
    target = table["outcome"].to_list()
    kept = target.copy()
    target[0], target[1], target[2], target[5] = None, "maybe", "maybe", "never"
    table.with_columns(outcome=pl.Series(target)).write_csv(tmp_path / "odd.csv")
    result = call(evaluating.evaluate, bundles["binary"], tmp_path / "odd.csv", "--json")
    found = json.loads(result.stdout)
    assert (found["rows"], found["scored"], found["without_target"]) == (30, 26, 1)
    assert found["unknown_classes"] == {"maybe": 2, "never": 1}
    assert "'maybe' (2)" in result.stderr
    rest = [row for row in range(30) if row not in (0, 1, 2, 5)]
    table.with_columns(outcome=pl.Series(kept))[rest].write_csv(tmp_path / "rest.csv")
    clean = json.loads(call(evaluating.evaluate, bundles["binary"], tmp_path / "rest.csv", "--json").stdout)
    assert clean["metrics"] == found["metrics"]


def test_evaluate_without_scorable_rows_is_an_error(bundles, data, tmp_path):
    table = pl.read_csv(data["binary"], infer_schema=False)
    table.drop("outcome").write_csv(tmp_path / "bare.csv")
    table.with_columns(outcome=pl.lit("maybe")).write_csv(tmp_path / "unknown.csv")
    for name in ("bare.csv", "unknown.csv"):
        with pytest.raises(DataError, match="outcome") as caught:
            call(evaluating.evaluate, bundles["binary"], tmp_path / name)
        assert name in sentence(caught.value)


def test_evaluate_with_one_class_leaves_undefined_metrics_empty(bundles, data, tmp_path):
    table = pl.read_csv(data["binary"], infer_schema=False).filter(pl.col("outcome") == "yes")
    table.write_csv(tmp_path / "yes.csv")
    found = json.loads(call(evaluating.evaluate, bundles["binary"], tmp_path / "yes.csv", "--json").stdout)
    scores = {value["name"]: value["score"] for value in found["metrics"]}
    assert scores["roc_auc"] is None
    assert 0 <= scores["accuracy"] <= 1
    assert "—" in call(evaluating.evaluate, bundles["binary"], tmp_path / "yes.csv").stdout


def test_inspect_lists_members_with_their_checksums(bundles):
    described = json.loads(call(inspecting.inspect, bundles["multiclass"], "--json").stdout)
    with zipfile.ZipFile(bundles["multiclass"]) as archive:
        names = set(archive.namelist()) - {"manifest.json"}
    members = described["manifest"]["members"]
    assert {member["path"] for member in members} == names
    assert all(set(member) == {"path", "kind", "bytes", "sha256"} for member in members)
    assert described["verified"] is True
    assert [column["name"] for column in described["schema"]["columns"]][-1] == "outcome"
    shown = call(inspecting.inspect, bundles["multiclass"]).stdout
    for part in (
        "outcome (multiclass)",
        "'high, very'",
        "log loss",
        "joined",
        "ensemble.json",
        members[0]["sha256"][:16],
    ):
        assert part in shown


def test_inspect_shows_what_members_report_of_any_type(bundles, monkeypatch):
    original = contents.open_bundle

    def with_summaries(path, **options):
        found = original(path, **options)
        member = found.ensemble.candidates[0].model
        rows = (
            {"model": member, "summary": {"trees": 120, "used columns": {"age": 0.75}}},
            {"model": "another", "summary": {"secret": 1}},
            {"model": member, "summary": ["no", "mapping"]},
            {"summary": {}},
        )
        return replace(found, manifest=msgspec.structs.replace(found.manifest, leaderboard=rows))

    assert "Reported by the fitted models" not in call(inspecting.inspect, bundles["binary"]).stdout
    monkeypatch.setattr(contents, "open_bundle", with_summaries)
    shown = call(inspecting.inspect, bundles["binary"]).stdout
    assert "Reported by the fitted models" in shown
    assert "used columns" in shown
    assert "age 0.75" in shown
    assert "secret" not in shown


def test_inspect_loads_no_model_and_no_model_library(bundles):
    """Runs in a subprocess: inspecting a bundle imports no model library."""
    program = (
        "import sys; from click.testing import CliRunner; from tabapp.cli.commands.inspect import inspect;"
        f"result = CliRunner().invoke(inspect, [{str(bundles['binary'])!r}], catch_exceptions=False);"
        "assert result.exit_code == 0, result.output;"
        "print(sorted(m for m in sys.modules if m in ('torch', 'lightgbm', 'xgboost', 'catboost', 'sklearn')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    assert done.stdout.strip() == "[]"


def test_module_imports_no_heavy_library():
    heavy = ("numpy", "polars", "torch", "rich")
    program = f"import sys, tabapp.cli.commands.predict; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    assert done.stdout.strip() == "[]"


def test_check_compares_a_file_without_predicting(bundles, data, tmp_path):
    assert call(predicting.predict, bundles["binary"], data["binary"], "--check").return_value == 0
    pl.read_csv(data["binary"], infer_schema=False).drop("size").write_csv(tmp_path / "less.csv")
    refused = call(predicting.predict, bundles["binary"], tmp_path / "less.csv", "--check", "--json")
    report = json.loads(refused.stdout)
    assert (refused.return_value, report["event"], report["refused"], report["rows"]) == (3, "checked", True, 30)
    assert [f["column"] for f in report["findings"] if f["refused"]] == ["size"]
    filled = call(predicting.predict, bundles["binary"], tmp_path / "less.csv", "--check", "--missing-columns", "fill")
    assert filled.return_value == 0
    assert "'size' is not in the file" in filled.stdout


def test_json_reports_progress_and_first_predictions(bundles, data, tmp_path):
    result = call(
        predicting.predict, bundles["regression"], data["regression"], "-o", tmp_path / "o.csv", "--json", "--keep"
    )
    messages = [json.loads(line) for line in result.stdout.splitlines()]
    shares = [line["share"] for line in messages if line["event"] == "progress"]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert (messages[-1]["event"], messages[-1]["rows"]) == ("predicted", 30)
    assert messages[-1]["columns"] == ["prediction", "low", "high"]
    written = pl.read_csv(tmp_path / "o.csv")
    assert [float(row[0]) for row in messages[-1]["preview"]] == pytest.approx(written["prediction"].to_list())
    table = pl.read_csv(data["regression"], infer_schema=False)
    shown = dict(zip(messages[-1]["inputs"], zip(*messages[-1]["input_rows"], strict=True), strict=True))
    assert list(shown["size"]) == table["size"].to_list()
    (found,) = messages[-1]["distributions"]
    assert sum(found["counts"]) == 30
    assert (found["low"], found["high"]) == pytest.approx((written["prediction"].min(), written["prediction"].max()))
    with pytest.raises(UsageError, match="-o"):
        call(predicting.predict, bundles["regression"], data["regression"], "--json")


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_json_counts_all_predictions(bundles, data, tmp_path, monkeypatch, task):
    arguments = bundles[task], data[task], "-o", tmp_path / "o.csv", "--json"
    whole = json.loads(call(predicting.predict, *arguments).stdout.splitlines()[-1])
    (found,) = whole["distributions"]
    written = pl.read_csv(tmp_path / "o.csv")
    if task == "multiclass":
        counted = dict(written["prediction"].value_counts().iter_rows())
        assert {label: number for label, number in found["classes"] if number} == counted
    else:
        share = written[f"probability_{found['label']}"]
        assert found["counts"][0] == (share < 0.05).sum()
        assert sum(found["counts"]) == written.height
    read_in_parts(monkeypatch)
    parts = json.loads(call(predicting.predict, *arguments).stdout.splitlines()[-1])
    assert parts["distributions"] == whole["distributions"]
    assert parts["inputs"] == whole["inputs"]


@pytest.mark.parametrize(
    "suffix", [".csv", ".parquet", *(pytest.param(each, marks=pytest.mark.slow) for each in (".arrow", ".jsonl"))]
)
def test_a_large_file_is_predicted_in_parts_with_the_same_result(bundles, tmp_path, monkeypatch, suffix):
    """Rows whose mistyped cells are all in one part are accepted, as in the whole file."""
    table = text_table("regression", n_rows=200, seed=7).with_columns(more=pl.lit("1"))
    table[150, "age"] = "old"
    table.write_csv(tmp_path / "rows.csv")
    arguments = [bundles["regression"], tmp_path / "rows.csv", "--keep", "-o"]
    whole = call(predicting.predict, *arguments, tmp_path / f"whole{suffix}")
    read_in_parts(monkeypatch)
    parts = call(predicting.predict, *arguments, tmp_path / f"parts{suffix}")
    assert parts.stderr == whole.stderr.replace("whole.", "parts.")
    reader = {
        ".csv": partial(pl.read_csv, infer_schema_length=None),
        ".parquet": pl.read_parquet,
        ".arrow": pl.read_ipc,
        ".jsonl": pl.read_ndjson,
    }[suffix]
    found, expected = reader(tmp_path / f"parts{suffix}"), reader(tmp_path / f"whole{suffix}")
    assert found.columns == expected.columns
    assert found.height == 200
    assert found["age"].to_list() == expected["age"].to_list()
    numbers = ["prediction", "low", "high"]
    np.testing.assert_allclose(found.select(numbers).to_numpy(), expected.select(numbers).to_numpy(), rtol=1e-6)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_a_large_file_is_scored_in_parts_with_the_same_result(bundles, tmp_path, monkeypatch, task):
    """With rows without a target, of an unknown class, and with mistyped cells."""
    table = text_table(task, n_rows=200, seed=7)
    table[3, "outcome"], table[150, "age"] = None, "old"
    if task == "binary":
        table[7, "outcome"], table[190, "outcome"] = "perhaps", "perhaps"
    table.write_csv(tmp_path / "rows.csv")
    arguments = [bundles[task], tmp_path / "rows.csv", "--drift", "--json"]
    whole = call(evaluating.evaluate, *arguments)
    read_in_parts(monkeypatch)
    parts = call(evaluating.evaluate, *arguments)
    assert parts.stderr == whole.stderr
    found, expected = json.loads(parts.stdout), json.loads(whole.stdout)
    assert found["scored"] == (197 if task == "binary" else 199)
    assert found["unknown_classes"] == ({"perhaps": 2} if task == "binary" else {})
    for row, other in zip(found.pop("metrics"), expected.pop("metrics"), strict=True):
        assert row == pytest.approx(other, nan_ok=True)
    for row, other in zip(found.pop("drift"), expected.pop("drift"), strict=True):
        assert row == pytest.approx(other)
    assert found == expected
    table.with_columns(outcome=pl.lit("")).write_csv(tmp_path / "rows.csv")
    with pytest.raises(DataError, match=r"rows\.csv: no row has a known value in the target column 'outcome'"):
        call(evaluating.evaluate, *arguments)


def test_a_large_file_is_checked_in_parts_with_the_same_result(bundles, tmp_path, monkeypatch):
    table = text_table("binary", n_rows=200, seed=7).drop("size").with_columns(more=pl.lit("1"))
    for row in (20, 150):
        table[row, "age"], table[row, "color"] = f"old {row}", f"color {row}"
    table.write_csv(tmp_path / "rows.csv")
    arguments = [bundles["binary"], tmp_path / "rows.csv", "--check"]
    whole = call(predicting.predict, *arguments)
    read_in_parts(monkeypatch)
    parts = call(predicting.predict, *arguments)
    assert (parts.stdout, parts.return_value) == (whole.stdout, whole.return_value)
    assert parts.return_value == 3
    for words in (
        "'size' is not in the file",
        "2 of 200 values that are not numbers",
        "has 2 values not seen in training",
    ):
        assert words in parts.stdout


def read_in_parts(monkeypatch):
    """Read files of a few kilobytes in parts."""
    monkeypatch.setattr(stream, "LARGE_TEXT", 100)
    monkeypatch.setattr(stream, "BLOCK", 500)


def test_a_large_file_of_the_wrong_kind_writes_nothing(bundles, data, tmp_path, monkeypatch):
    read_in_parts(monkeypatch)
    table = pl.read_csv(data["binary"], infer_schema=False).with_columns(age=pl.lit("old"))
    table.write_csv(tmp_path / "wrong.csv")
    with pytest.raises(DataError, match=r"^\S+wrong.csv: columns differ from training: 'age' \(30 of 30"):
        call(predicting.predict, bundles["binary"], tmp_path / "wrong.csv", "-o", tmp_path / "o.csv")
    assert not (tmp_path / "o.csv").exists()
    table.drop("age").write_csv(tmp_path / "less.csv")
    with pytest.raises(DataError, match="columns are missing: 'age'"):
        call(predicting.predict, bundles["binary"], tmp_path / "less.csv", "-o", tmp_path / "o.csv")


def test_an_encoding_that_a_later_part_shows_starts_the_predictions_again(bundles, tmp_path, monkeypatch):
    table = text_table("binary", n_rows=100, seed=7).drop("outcome")
    content = table.write_csv().encode() + "0.5,20.0,grün,2024-01-01\n".encode("cp1252")
    (tmp_path / "rows.csv").write_bytes(content)
    whole = call(predicting.predict, bundles["binary"], tmp_path / "rows.csv")
    read_in_parts(monkeypatch)
    parts = call(predicting.predict, bundles["binary"], tmp_path / "rows.csv")
    assert parts.stdout == whole.stdout
