"""Bundles as ONNX files: ONNX Runtime predicts what the bundle predicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tabapp.bundle.load import load_bundle
from tabapp.bundle.onnx_export import ENSEMBLE, PARITY, onnx_inputs, write_onnx
from tabapp.bundle.write import write_bundle
from tabapp.cli.main import run_command_line
from tabapp.errors import UsageError
from tests.bundle.making import make_contents
from tests.bundle.portable import PARAMS, make_bundle, new_rows

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")


def run(path: Path, rows: pl.DataFrame, bundle: Path) -> list[np.ndarray]:
    loaded = load_bundle(bundle)
    typed = loaded.predictor.typed_rows(rows)[0]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    needed = {each.name for each in session.get_inputs()}
    return session.run(None, {k: v for k, v in onnx_inputs(typed, loaded.contents).items() if k in needed})


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_onnx_predicts_like_the_bundle(task, tmp_path):
    bundle = make_bundle(tmp_path, task, list(PARAMS))
    result = write_onnx(bundle, tmp_path / "onnx")
    names = {f"{name}-0.onnx" for name in PARAMS} | {ENSEMBLE}
    assert {path.name for path in result.difference} == names == {path.name for path in (tmp_path / "onnx").iterdir()}
    assert result.left_out == {}
    assert all(difference is not None and difference <= PARITY for difference in result.difference.values())
    rows = new_rows(task)
    expected = load_bundle(bundle).predictor.predict_frame(rows).values
    found = run(tmp_path / "onnx" / ENSEMBLE, rows, bundle)
    scale = np.ptp(expected) if task == "regression" else 1.0
    np.testing.assert_allclose(found[-1].reshape(expected.shape), expected, atol=PARITY * scale)
    if task != "regression":
        classes = load_bundle(bundle).contents.schema.classes
        assert found[0].tolist() == [classes[code] for code in found[1].argmax(axis=1)]


def test_labels_follow_the_threshold_of_the_bundle(tmp_path):
    bundle = make_bundle(tmp_path, "binary", ["linear"], threshold=0.9)
    write_onnx(bundle, tmp_path / "all.onnx")
    rows = new_rows("binary")
    loaded = load_bundle(bundle)
    expected = loaded.predictor.to_frame(loaded.predictor.predict_frame(rows))
    assert run(tmp_path / "all.onnx", rows, bundle)[0].tolist() == expected["prediction"].to_list()
    assert (expected["probability_yes"] > 0.5).sum() > (expected["prediction"] == "yes").sum() > 0


def test_members_without_a_counterpart_are_listed(tmp_path, capfd):
    bundle = make_bundle(tmp_path, "binary", ["lightgbm", "k_neighbors"])
    with pytest.raises(UsageError, match=r"cannot be written as ONNX: k_neighbors-0: it is neither trees nor"):
        write_onnx(bundle, tmp_path / "all.onnx")
    assert run_command_line(["export", str(bundle), "--onnx", str(tmp_path / "onnx")]) == 0
    captured = capfd.readouterr()
    assert captured.out.split() == [str(tmp_path / "onnx" / "lightgbm-0.onnx")]
    assert "k_neighbors-0" in captured.err
    assert "differ by at most" in captured.err


def test_a_column_without_a_counterpart_is_named(tmp_path):
    """The features of the date are used by the models."""
    path = tmp_path / "model.tabapp"
    contents = make_contents(tmp_path / "made", "binary", booster="xgboost")
    write_bundle(path, replace(contents, candidates=[replace(contents.candidates[1], weight=1.0)]))
    with pytest.raises(UsageError, match="the datetime column 'joined' has no operators in ONNX"):
        write_onnx(path, tmp_path / "all.onnx")
