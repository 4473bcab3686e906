import zipfile
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp import files
from tabapp.bundle.files.card import model_card
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.files.records import Candidate, Ensemble, Manifest
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.write import models_with_training_rows, write_bundle
from tabapp.data.schema import DataWarning
from tabapp.data.typed import typed_frame
from tabapp.errors import BundleError
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tests.bundle.making import INTERVALS, make_contents, text_table


def test_all_members_are_listed_and_none_is_executable(bundles):
    with zipfile.ZipFile(bundles["binary"]) as archive:
        names = set(archive.namelist())
        manifest = msgspec.json.decode(archive.read("manifest.json"), type=Manifest)
    assert names == {"manifest.json", *(member.path for member in manifest.members)}
    assert {name for name in names if "/" not in name} == {
        *("manifest.json", "schema.json", "ensemble.json", "sample.csv", "sample_output.csv", "MODEL_CARD.md")
    }
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib", ".pt", ".pth", ".py"))]


def test_shared_features_are_stored_once(bundles):
    ensemble = open_bundle(bundles["binary"]).ensemble
    used = [fold.features for candidate in ensemble.candidates for fold in candidate.folds]
    assert len(used) == 4
    assert len(set(used)) == 2


def test_equal_contents_give_equal_bytes(contents, tmp_path):
    write_bundle(tmp_path / "a.tabapp", contents["binary"])
    write_bundle(tmp_path / "b.tabapp", contents["binary"])
    assert (tmp_path / "a.tabapp").read_bytes() == (tmp_path / "b.tabapp").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tabapp", "b.tabapp"]


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_bundle_predicts_like_the_saved_models(bundles, contents, task):
    """The weighted mean over candidates of the mean over folds, computed by hand from the run's folders."""
    frame = text_table(task, n_rows=50, seed=9)
    content = contents[task]
    typed = typed_frame(frame, content.schema)
    expected = 0.0
    for candidate in content.candidates:
        by_fold = [
            registry.get(candidate.model).load(fold.model).predict(FeaturePreparer.load(fold.features).transform(typed))
            for fold in candidate.folds
        ]
        expected = expected + candidate.weight * np.mean(np.asarray(by_fold, dtype=np.float64), axis=0)
    if task == "multiclass":
        expected = expected ** (1 / 0.8)
    if task == "binary":
        expected = expected ** [0.9, 1.2] * [1.1, 0.95]
    if task != "regression":
        expected = expected / np.sum(expected, axis=1, keepdims=True)
    found = load_bundle(bundles[task]).predictor.predict_frame(frame)
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)


def test_sample_output_is_the_prediction_of_the_bundle(bundles):
    loaded = load_bundle(bundles["regression"])
    assert loaded.drift == 0
    with zipfile.ZipFile(bundles["regression"]) as archive:
        sample, stored = (pl.read_csv(archive.read(name)) for name in ("sample.csv", "sample_output.csv"))
    assert sample.columns == text_table("regression").columns
    assert stored.columns == ["prediction", "low", "high"]
    half = 55.5 * np.interp(stored["prediction"], INTERVALS.scale.predictions, INTERVALS.scale.factors)
    np.testing.assert_allclose(stored["high"] - stored["prediction"], half)


def test_a_bundle_without_sample_rows_is_not_written(contents, tmp_path):
    content = contents["binary"]
    with pytest.raises(ValueError, match="sample rows"):
        write_bundle(tmp_path / "a.tabapp", replace(content, sample=content.sample.clear()))
    assert list(tmp_path.iterdir()) == []


def test_model_card_has_the_essential_facts(bundles):
    with zipfile.ZipFile(bundles["multiclass"]) as archive:
        card = archive.read("MODEL_CARD.md").decode()
    for essential in (
        "outcome",
        "multiclass",
        "log loss",
        "0.85 to 0.95",
        "2-fold",
        "`high, very`",
        "joined",
        "test_linear",
    ):
        assert essential in card


def test_bundle_reports_that_it_contains_training_rows(bundles):
    members = {
        name: Candidate(model=name, trial=0, weight=0.5, params={}, folds=()) for name in ("k_neighbors", "lightgbm")
    }
    assert models_with_training_rows(Ensemble(candidates=tuple(members.values()))) == ("k_neighbors",)
    assert models_with_training_rows(Ensemble(candidates=(members["lightgbm"],))) == ()
    contents = open_bundle(bundles["binary"])
    changed = msgspec.structs.replace(contents.manifest, training_rows_in=("k_neighbors",))
    assert "contains training rows" in model_card(changed, contents.schema, contents.ensemble)
    assert "contains training rows" not in model_card(contents.manifest, contents.schema, contents.ensemble)


def test_model_card_has_the_warnings_about_the_data(bundles):
    contents = open_bundle(bundles["binary"])
    warning = DataWarning(check="leak", column="a<b", message="It predicts y.", action="kept; --ignore leaves it out")
    schema = msgspec.structs.replace(contents.schema, warnings=(warning,))
    card = model_card(contents.manifest, schema, contents.ensemble)
    assert "Warnings about the data:\n\n- a&lt;b: It predicts y → kept; --ignore leaves it out\n" in card
    schema = msgspec.structs.replace(contents.schema, warnings=())
    assert "Warnings" not in model_card(contents.manifest, schema, contents.ensemble)


def test_model_card_names_the_folds_of_partial_scores(bundles):
    contents = open_bundle(bundles["binary"])
    row = {"rank": 1, "model": "ensemble", "title": "Ensemble", "score": 0.9, "status": "ok", "reason": "1 of 8 folds"}
    validation = "only 1 of 8 folds of 8-fold cross-validation"
    manifest = msgspec.structs.replace(contents.manifest, leaderboard=[row], validation=validation)
    card = model_card(manifest, contents.schema, contents.ensemble)
    assert "| ok: 1 of 8 folds |" in card
    assert f"Validation: {validation}." in card


def test_weights_are_scaled_and_members_without_weight_are_left_out(contents, tmp_path):
    first, second = contents["binary"].candidates
    changed = replace(contents["binary"], candidates=[replace(first, weight=3.0), replace(second, weight=0.0)])
    write_bundle(tmp_path / "a.tabapp", changed)
    with zipfile.ZipFile(tmp_path / "a.tabapp") as archive:
        ensemble = msgspec.json.decode(archive.read("ensemble.json"), type=Ensemble)
        assert not [name for name in archive.namelist() if "test_linear-3" in name]
    assert [(candidate.model, candidate.weight) for candidate in ensemble.candidates] == [("test_linear", 1.0)]


@pytest.mark.parametrize("broken", ["no candidate", "no fold", "empty folder", "link", "odd name"])
def test_invalid_contents_leave_no_file(contents, tmp_path, broken):
    content = contents["binary"]
    candidate = content.candidates[0]
    folder = tmp_path / "model"
    folder.mkdir()
    if broken == "no candidate":
        candidates = []
    elif broken == "no fold":
        candidates = [replace(candidate, folds=[])]
    else:
        if broken != "empty folder":
            source = candidate.folds[0].model / "coefficients.json"
            (folder / "coefficients.json").write_bytes(source.read_bytes())
        if broken == "link":
            (folder / "other.json").symlink_to("/etc/hostname")
        if broken == "odd name":
            (folder / "a b.json").write_text("{}")
        candidates = [replace(candidate, folds=[replace(candidate.folds[0], model=folder)])]
    with pytest.raises(ValueError, match=r"model|file|member"):
        write_bundle(tmp_path / "a.tabapp", replace(content, candidates=candidates))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_disk_failure_keeps_the_old_bundle(contents, tmp_path, monkeypatch):
    target = tmp_path / "a.tabapp"
    target.write_bytes(b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    for operation in ("rename", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(files.operations, operation, fail)
            with pytest.raises(OSError, match="No space"):
                write_bundle(target, contents["binary"])
        assert target.read_bytes() == b"old"
        assert [path.name for path in tmp_path.iterdir()] == ["a.tabapp"]


def test_bundle_that_predicts_differently_after_loading_is_not_written(contents, tmp_path, monkeypatch):
    """The bundle is loaded before it is renamed."""
    plugin = type(registry.get("test_linear"))
    load, calls = plugin.load, []

    def load_worse_later(self, folder):
        model = load(self, folder)
        calls.append(folder)
        if len(calls) > 4:
            model.coefficients = model.coefficients * 1.01
        return model

    monkeypatch.setattr(plugin, "load", load_worse_later)
    with pytest.raises(BundleError, match="differently"):
        write_bundle(tmp_path / "a.tabapp", contents["binary"])
    assert list(tmp_path.iterdir()) == []


def test_lightgbm_round_trip(tmp_path):
    content = make_contents(tmp_path, "binary", booster="lightgbm")
    manifest = write_bundle(tmp_path / "a.tabapp", content)
    assert "lightgbm" in manifest.libraries
    loaded = load_bundle(tmp_path / "a.tabapp", tolerance=1e-6)
    prediction = loaded.predictor.predict_frame(text_table("binary", n_rows=30, seed=3))
    np.testing.assert_allclose(prediction.values.sum(axis=1), 1)
    assert len(np.unique(prediction.values[:, 1])) > 10
