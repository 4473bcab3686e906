"""Bundles as ONNX files: ONNX Runtime predicts what the bundle predicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tabapp.bundle.export.onnx_dates import MISSING, Dates
from tabapp.bundle.export.onnx_export import ENSEMBLE, PARITY, onnx_inputs, write_onnx
from tabapp.bundle.export.onnx_graph import Graph
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.main import run_command_line
from tabapp.data.infer import infer_schema
from tabapp.errors import UsageError
from tabapp.features.columns import DATE_PARTS, PERIODS, DatetimeStep
from tabapp.models import registry
from tests.bundle.making import fit_candidate, make_contents, text_table
from tests.bundle.portable import BOOSTERS, DERIVED, PARAMS, POISSON, make_bundle, new_rows

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


def test_boosters_with_a_logarithmic_link_predict_like_the_bundle(tmp_path):
    bundle = make_bundle(tmp_path, "regression", BOOSTERS, changes=POISSON)
    result = write_onnx(bundle, tmp_path / "onnx")
    assert result.left_out == {}
    rows = new_rows("regression")
    expected = load_bundle(bundle).predictor.predict_frame(rows).values
    found = run(tmp_path / "onnx" / ENSEMBLE, rows, bundle)
    np.testing.assert_allclose(found[-1].reshape(expected.shape), expected, atol=PARITY * np.ptp(expected))


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_features_of_two_columns_are_computed_like_the_features(task, tmp_path):
    bundle = make_bundle(tmp_path, task, ["lightgbm"], changes=DERIVED)
    result = write_onnx(bundle, tmp_path / "onnx")
    assert result.left_out == {}
    rows = new_rows(task)
    expected = load_bundle(bundle).predictor.predict_frame(rows).values
    found = run(tmp_path / "onnx" / ENSEMBLE, rows, bundle)
    scale = np.ptp(expected) if task == "regression" else 1.0
    np.testing.assert_allclose(found[-1].reshape(expected.shape), expected, atol=PARITY * scale)


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("binary", ["label", "probabilities", "inner/constant_1"]),
        ("multiclass", ["label", "label_input", "inner//Cast_2"]),
        ("regression", ["prediction", "constant_1", 'a"b,c\n']),
    ],
)
def test_columns_named_like_tensors_are_not_confused(task, names, tmp_path):
    renaming = dict(zip(("size", "age", "color"), names, strict=True))
    bundle = make_bundle(tmp_path, task, ["lightgbm", "linear"], frame=text_table(task).rename(renaming))
    result = write_onnx(bundle, tmp_path / "all.onnx")
    assert result.left_out == {}
    rows = new_rows(task).rename(renaming)
    expected = load_bundle(bundle).predictor.predict_frame(rows).values
    found = run(tmp_path / "all.onnx", rows, bundle)
    scale = np.ptp(expected) if task == "regression" else 1.0
    np.testing.assert_allclose(found[-1].reshape(expected.shape), expected, atol=PARITY * scale)


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
    with pytest.raises(
        UsageError, match=r"cannot be written as ONNX: k_neighbors-0: it is neither trees, a linear function nor"
    ):
        write_onnx(bundle, tmp_path / "all.onnx")
    assert run_command_line(["export", str(bundle), "--onnx", str(tmp_path / "onnx")]) == 0
    captured = capfd.readouterr()
    assert captured.out.split() == [str(tmp_path / "onnx" / "lightgbm-0.onnx")]
    assert "k_neighbors-0" in captured.err
    assert "differ by at most" in captured.err


def test_a_column_without_a_counterpart_is_named(tmp_path):
    """The features of the text are used by the models."""
    frame = text_table("binary").with_columns(note=pl.concat_str(pl.lit("on "), "joined", pl.lit(" it was "), "color"))
    schema = infer_schema(frame, target="outcome", kinds={"note": "text"})
    made = fit_one(tmp_path / "made", frame, schema, "xgboost", {"n_trees": 5})
    contents = make_contents(tmp_path / "other", "binary")
    write_bundle(tmp_path / "model.tabapp", replace(contents, schema=schema, candidates=[made], sample=frame.head(7)))
    with pytest.raises(UsageError, match="the text column 'note' has no operators in ONNX"):
        write_onnx(tmp_path / "model.tabapp", tmp_path / "all.onnx")


def test_a_category_whose_texts_are_features_is_named_with_the_option_that_trains_without_them(tmp_path):
    codes = pl.Series("code", [f"G/{i // 2}/S" for i in range(len(text_table("binary")))])
    frame = text_table("binary").with_columns(codes)
    contents = make_contents(tmp_path / "other", "binary")
    for kinds, problem in (({}, "--kind code=categorical trains without its texts"), ({"code": "categorical"}, "")):
        schema = infer_schema(frame, target="outcome", kinds=kinds)
        folder = tmp_path / f"made{len(kinds)}"
        made = fit_one(folder, frame, schema, "xgboost", {"n_trees": 5})
        bundle = folder / "model.tabapp"
        write_bundle(bundle, replace(contents, schema=schema, candidates=[made], sample=frame.head(7)))
        if problem:
            with pytest.raises(UsageError, match=problem):
                write_onnx(bundle, tmp_path / "all.onnx")
        else:
            assert write_onnx(bundle, tmp_path / "all.onnx").difference


def fit_one(folder, frame, schema, name, params):
    plugin = registry.get(name)
    return fit_candidate(folder, plugin, plugin.params_type(**params), frame, schema, 1.0, folder / "features")


NETWORKS = {
    "mlp": {"max_epochs": 2, "widths": (16,)},
    "resnet": {"max_epochs": 2},
    "ft_transformer": {"max_epochs": 2, "n_layers": 1, "d_token": 16},
    "realmlp": {"max_epochs": 2, "widths": (16,)},
    "tabm": {"max_epochs": 2},
    "snn": {"max_epochs": 2},
    "dcn_v2": {"max_epochs": 2},
    "autoint": {"max_epochs": 2},
}
QUICK = ("mlp",)


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS])
@pytest.mark.parametrize(
    "task",
    ["binary", pytest.param("multiclass", marks=pytest.mark.slow), pytest.param("regression", marks=pytest.mark.slow)],
)
def test_networks_and_dates_predict_like_the_bundle(name, task, tmp_path):
    """Quantiles or robust scales of numbers, parts and cycles of dates, and the network."""
    frame = text_table(task)
    schema = infer_schema(frame, target="outcome")
    made = fit_one(tmp_path / "made", frame, schema, name, NETWORKS[name])
    contents = make_contents(tmp_path / "other", task)
    bundle = tmp_path / "model.tabapp"
    write_bundle(bundle, replace(contents, schema=schema, candidates=[made]))
    result = write_onnx(bundle, tmp_path / "all.onnx")
    assert all(difference is not None and difference <= PARITY for difference in result.difference.values())
    rows = new_rows(task)
    rows[3, "joined"], rows[4, "joined"], rows[5, "joined"] = None, "1969-12-31", "2024-02-29"
    rows[6, "size"], rows[7, "size"] = "-100", "100"
    expected = load_bundle(bundle).predictor.predict_frame(rows).values
    found = run(tmp_path / "all.onnx", rows, bundle)
    scale = np.ptp(expected) if task == "regression" else 1.0
    np.testing.assert_allclose(found[-1].reshape(expected.shape), expected, atol=PARITY * scale)
    assert len(run(tmp_path / "all.onnx", rows[:1], bundle)[-1]) == 1


def test_dates_are_computed_like_the_features(tmp_path):
    """Every part of dates from the year 1 to 4000."""
    names = tuple(DATE_PARTS)
    step = DatetimeStep("day", start=123_456_789, parts=names, cycles=tuple(PERIODS))
    generator = np.random.default_rng(0)
    first, last = (np.datetime64(f"{year}-01-01", "us").astype(np.int64) for year in ("0001", "4000"))
    moments = generator.integers(first, last, 2000)
    leap = [np.datetime64(text, "us").astype(np.int64) for text in ("2000-02-29T23:59:59", "1900-03-01", "2023-12-31")]
    values = pl.Series("day", [*moments.tolist(), *leap, None], dtype=pl.Int64).cast(pl.Datetime("us"))
    graph = Graph()
    dates = Dates(graph, step)
    joined = graph.add("Concat", *(dates.number(place) for place in range(len(step.names()))), axis=1)
    model = graph.model([(joined, "numbers", "double", ["rows", len(step.names())])], {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {"day": values.dt.epoch("us").fill_null(MISSING).to_numpy().astype(np.int64)[:, None]}
    np.testing.assert_allclose(session.run(None, inputs)[0], step.numbers(values), atol=1e-6)
