"""Targets and features with large offsets lose nothing on their way from a table to predictions, files and other programs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tabapp.bundle.export.onnx_export import PARITY, onnx_inputs, write_onnx
from tabapp.bundle.export.script import write_script
from tabapp.bundle.export.sql import write_sql
from tabapp.bundle.prediction.load import load_bundle
from tabapp.cli.main import run_command_line
from tests.bundle.portable import DERIVED, PARAMS, make_bundle
from tests.bundle.test_script import run_script
from tests.bundle.test_sql import run_query

NOISE = 30.0


def table(n_rows: int, seed: int) -> pl.DataFrame:
    """Rows whose target is about 1.7e9 and varies by hundreds, half of it by a feature of about 1e10; and a tiny feature."""
    generator = np.random.default_rng(seed)
    a, tiny = generator.uniform(-1, 1, n_rows), 1e-30 * generator.normal(size=n_rows)
    ticks = generator.integers(0, 4000, n_rows) / 2
    color = generator.integers(0, 3, n_rows)
    y = 1.7e9 + 300 * a + 0.4 * ticks + 2e32 * tiny + 50 * color + generator.normal(0, NOISE, n_rows)
    numbers = {"a": a, "ticks": 1e10 + ticks, "tiny": tiny}
    cells = {name: [repr(float(value)) for value in values] for name, values in numbers.items()}
    return pl.DataFrame(
        cells
        | {"color": [["red", "green", "blue"][code] for code in color], "outcome": [f"{value:.2f}" for value in y]}
    )


TRAINING, NEW = table(500, 0), table(200, 1)
TRUTH = NEW["outcome"].cast(pl.Float64).to_numpy()


def rmse(prediction: np.ndarray) -> float:
    return float(np.sqrt(np.mean((prediction - TRUTH) ** 2)))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("offset"), "regression", ["lightgbm", "linear"], frame=TRAINING)


@pytest.mark.parametrize("name", PARAMS)
def test_a_model_predicts_as_if_there_were_no_offset(name, tmp_path):
    found = []
    for offset in (0.0, 1.7e9):
        moved = pl.col("outcome").cast(pl.Float64) - 1.7e9 + offset
        near = {"ticks": pl.col("ticks").cast(pl.Float64) - 1e10, "tiny": pl.col("tiny").cast(pl.Float64) * 2.0**100}
        frames = [
            frame.with_columns(
                moved.cast(pl.String).alias("outcome"),
                *(value.cast(pl.String).alias(column) for column, value in near.items() if not offset),
            )
            for frame in (TRAINING, NEW)
        ]
        place = tmp_path / str(bool(offset))
        path = make_bundle(place, "regression", [name], frame=frames[0])
        found.append(load_bundle(path).predictor.predict_frame(frames[1]).values - offset + 1.7e9)
    expected, prediction = found
    assert rmse(prediction) < 1.02 * rmse(expected) + 0.5
    assert len(np.unique(prediction % 64)) > 50


def test_every_digit_of_predictions_and_intervals_is_written(bundle, tmp_path):
    NEW.drop("outcome").write_csv(tmp_path / "new.csv")
    out = tmp_path / "out.csv"
    assert run_command_line(["predict", str(bundle), str(tmp_path / "new.csv"), "-o", str(out), "-q"]) == 0
    prediction = load_bundle(bundle).predictor.predict_frame(NEW.drop("outcome"))
    written = pl.read_csv(out)
    for name, values in (("prediction", prediction.values), ("low", prediction.low), ("high", prediction.high)):
        assert written[name].to_list() == values.tolist()
    assert (written["low"] < written["prediction"]).all()
    assert (written["prediction"] < written["high"]).all()


def test_onnx_predicts_doubles(bundle, tmp_path):
    pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    result = write_onnx(bundle, tmp_path / "model.onnx")
    assert all(difference <= PARITY for difference in result.difference.values())
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    loaded = load_bundle(bundle)
    typed = loaded.predictor.typed_rows(NEW)[0]
    inputs = {each.name for each in session.get_inputs()}
    (found,) = session.run(None, {k: v for k, v in onnx_inputs(typed, loaded.contents).items() if k in inputs})
    assert found.dtype == np.float64
    expected = loaded.predictor.predict_frame(NEW).values
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=PARITY * np.ptp(expected))


@pytest.mark.parametrize(
    ("names", "changes"), [(["lightgbm", "linear"], {}), (["extra_trees"], {}), (["lightgbm"], DERIVED)]
)
def test_sql_predicts_like_the_bundle(names, changes, tmp_path):
    training, new = (frame.drop("color") if changes else frame for frame in (TRAINING, NEW))
    bundle = make_bundle(tmp_path, "regression", names, changes=changes, frame=training)
    write_sql(bundle, tmp_path / "model.sql")
    predictor = load_bundle(bundle).predictor
    _, found = run_query((tmp_path / "model.sql").read_text(), predictor.typed_rows(new)[0])
    expected = predictor.to_frame(predictor.predict_frame(new)).to_numpy()
    np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=0, atol=1e-5 * np.ptp(expected))


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost", "extra_trees"])
def test_a_script_trains_on_the_centered_target(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    bundle = make_bundle(tmp_path, "regression", [name], frame=TRAINING)
    write_script(bundle, tmp_path / "model.py")
    TRAINING.write_csv(tmp_path / "training.csv")
    NEW.drop("outcome").write_csv(tmp_path / "new.csv")
    run_script(
        monkeypatch, tmp_path / "model.py", tmp_path / "training.csv", tmp_path / "new.csv", tmp_path / "out.csv"
    )
    found = pl.read_csv(tmp_path / "out.csv")["prediction"].to_numpy()
    expected = load_bundle(bundle).predictor.predict_frame(NEW).values
    assert np.corrcoef(found, expected)[0, 1] > 0.9
    assert len(np.unique(found % 64)) > 50
    run_script(monkeypatch, tmp_path / "model.py", tmp_path / "training.csv")
    assert "neg_root_mean_squared_error: -" in capsys.readouterr().out
