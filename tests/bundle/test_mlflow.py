"""Bundles as MLflow models, loaded by MLflow alone."""

from __future__ import annotations

import pytest

from tabapp.bundle.export.mlflow_folder import write_mlflow
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.prediction.load import load_bundle
from tabapp.cli.main import run_command_line
from tabapp.errors import UsageError
from tests.bundle.making import text_table
from tests.bundle.portable import make_bundle


def test_a_folder_has_the_bundle_and_its_signature(tmp_path, capsys):
    bundle = make_bundle(tmp_path, "binary", ["linear"])
    folder = tmp_path / "mlflow"
    assert run_command_line(["export", str(bundle), "--mlflow", str(folder)]) == 0
    assert capsys.readouterr().out.split() == [str(folder)]
    assert (folder / "artifacts" / "model.tabapp").read_bytes() == bundle.read_bytes()
    description = (folder / "MLmodel").read_text()
    assert "probability_yes" in description
    assert "tabapp==" in (folder / "requirements.txt").read_text()
    with pytest.raises(UsageError, match="is not empty"):
        write_mlflow(open_bundle(bundle), folder)


@pytest.mark.filterwarnings("ignore:.*type hint:UserWarning")  # of MLflow's own modules
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_mlflow_predicts_like_the_bundle(task, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    pd = pytest.importorskip("pandas")
    bundle = make_bundle(tmp_path, task, ["linear"])
    write_mlflow(open_bundle(bundle), tmp_path / "mlflow")
    model = mlflow.pyfunc.load_model(str(tmp_path / "mlflow"))
    rows = text_table(task, n_rows=40, seed=3).drop("outcome", "joined")
    frame = pd.DataFrame(rows.to_dict(as_series=False)).astype({"size": float, "age": float})
    found = model.predict(frame)
    predictor = load_bundle(bundle).predictor
    expected = predictor.to_frame(predictor.predict_frame(rows))
    assert list(found.columns) == expected.columns
    for name in expected.columns:
        assert found[name].tolist() == pytest.approx(expected[name].to_list(), rel=1e-9)
