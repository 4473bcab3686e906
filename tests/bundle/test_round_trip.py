"""One bundle predicts the same everywhere: a new process, other file formats, Python, the server and ONNX Runtime."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tabapp
from tabapp.bundle.export.onnx_export import onnx_inputs, write_onnx
from tests.bundle.portable import make_bundle, new_rows
from tests.serve.serving import JSON, serving
from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.slow

OUTLYING = "far outside of the training range"
TREES = ["lightgbm", "xgboost", "catboost", "linear", "extra_trees"]


def predicted(bundle: Path, data: Path, out: Path) -> pl.DataFrame:
    """The predictions of a new process, as Parquet."""
    command = [sys.executable, "-m", "tabapp", "predict", str(bundle), str(data), "-o", str(out), "-q"]
    subprocess.run(command, check=True, timeout=HANG_SECONDS)
    return pl.read_parquet(out)


def assert_same(found: pl.DataFrame, expected: pl.DataFrame, tolerance: float) -> None:
    assert found.columns == expected.columns
    for name in expected.columns:
        if expected[name].dtype == pl.String:
            assert found[name].to_list() == expected[name].to_list()
        else:
            values = expected[name].to_numpy()
            scale = 1.0 if name.startswith("probability") else max(np.ptp(values), 1.0)
            np.testing.assert_allclose(found[name].to_numpy(), values, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("kind", ["trees", "networks"])
def test_every_way_predicts_the_same(task, kind, tmp_path):
    """Trees bit for bit, networks within 1e-5."""
    bundle = make_bundle(tmp_path, task, TREES if kind == "trees" else ["mlp", "tabm"])
    tolerance = 0.0 if kind == "trees" else 1e-5
    rows = new_rows(task).drop("outcome", "joined")
    rows.write_csv(tmp_path / "rows.csv")
    expected = predicted(bundle, tmp_path / "rows.csv", tmp_path / "expected.parquet")
    shuffled = rows.select(reversed(rows.columns)).with_columns(more=pl.lit("x"))
    typed = shuffled.with_columns(pl.col("size", "age").cast(pl.Float64))
    shuffled.write_csv(tmp_path / "shuffled.csv", separator=";")
    typed.write_parquet(tmp_path / "rows.parquet")
    typed.write_ipc(tmp_path / "rows.arrow")
    for name in ("shuffled.csv", "rows.parquet", "rows.arrow"):
        assert_same(predicted(bundle, tmp_path / name, tmp_path / "found.parquet"), expected, tolerance)
    in_python = tabapp.load(bundle)
    with pytest.warns(UserWarning, match=OUTLYING), pytest.warns(UserWarning, match="more"):
        values = in_python.predict(typed)
    assert_same(pl.DataFrame({"prediction": values}), expected.select("prediction"), tolerance)
    if task != "regression":
        with pytest.warns(UserWarning, match=OUTLYING):
            probabilities = in_python.predict_proba(rows)
        named = probabilities.rename({name: f"probability_{name}" for name in probabilities.columns})
        assert_same(named, expected.drop("prediction"), tolerance)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_the_server_and_onnx_predict_the_same(task, tmp_path):
    pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    bundle = make_bundle(tmp_path, task, TREES)
    rows = new_rows(task).drop("outcome", "joined")
    rows.write_csv(tmp_path / "rows.csv")
    expected = predicted(bundle, tmp_path / "rows.csv", tmp_path / "expected.parquet")
    with serving(bundle, log=tmp_path / "log") as server:
        body = json.dumps({"rows": rows.to_dicts()}).encode()
        answer = server.ask("POST", "/predict", body, JSON).json["predictions"]
        found = pl.read_csv(
            io.BytesIO(
                server.ask(
                    "POST", "/predict", (tmp_path / "rows.csv").read_bytes(), {"Content-Type": "text/csv"}
                ).content
            )
        )
    assert_same(found, expected, 0.0)
    assert [each["prediction"] for each in answer] == expected["prediction"].to_list()
    write_onnx(bundle, tmp_path / "model.onnx")
    loaded = in_process = tabapp.load(bundle)._loaded
    typed = in_process.predictor.typed_rows(rows)[0]
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    needed = {each.name for each in session.get_inputs()}
    inputs = {name: value for name, value in onnx_inputs(typed, loaded.contents).items() if name in needed}
    outputs = session.run(None, inputs)[-1]
    columns = ["prediction"] if task == "regression" else expected.columns[1:]
    assert_same(pl.DataFrame(outputs.astype(np.float64), schema=columns), expected.select(columns), 1e-4)
