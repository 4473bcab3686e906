"""Features of a fold: fitted on its training rows only, with training rows encoded out of fold."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tabapp.engine.fit import features as run_features
from tabapp.engine.fit.features import RunFeatures, features_folder
from tabapp.engine.fit.jobs import FitJob, decode_result
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.fit.run_fit import run_fit
from tabapp.engine.loop.recovery import recover
from tabapp.engine.machine.contention import Contention
from tabapp.engine.plan.make_plan import make_plan, write_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.engine.plan.write_rows import write_rows
from tabapp.features.arrays import FeatureRecipe
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder, create_run

ENCODED = FeatureRecipe(target_encoding=True)


def make_run(tmp_path: Path, name: str = "runs") -> RunFolder:
    generator = np.random.default_rng(0)
    shop, answer = generator.integers(0, 90, 400), generator.integers(0, 2, 400)
    rows = [f"s{s},{x:.3f},{y}" for s, x, y in zip(shop, generator.normal(size=400), answer, strict=True)]
    (tmp_path / "shops.csv").write_text("\n".join(["shop,x,y", *rows]) + "\n")
    config = RunConfig(data=str(tmp_path / "shops.csv"), target="y", folds=4)
    folder = create_run(config, tmp_path / name)
    reading = read_data(config)
    schema = infer(reading, config)
    write_rows(folder, config, reading, schema, make_plan(config, schema))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path)


def test_features_do_not_depend_on_the_target_of_held_out_rows(folder: RunFolder) -> None:
    data = RunData(folder)
    shown = RunFeatures(data, 0, folder).saved(ENCODED, 0)
    assert "shop share of 1" in shown.spec.numeric
    features = features_folder(folder, ENCODED, 0)
    files = {path.name: path.read_bytes() for path in features.rglob("*") if path.is_file()}
    numeric = np.array(shown.table.numeric)
    features.rename(features.with_name("before"))
    held_out = data.held_out(0).places
    data.target = data.target.copy()
    data.target[held_out] = 1 - data.target[held_out]
    again = RunFeatures(data, 0, folder).saved(ENCODED, 0).table
    assert {path.name: path.read_bytes() for path in features.rglob("*") if path.is_file()} == files
    np.testing.assert_array_equal(again.numeric, numeric)


@pytest.mark.parametrize("damage", ["own fold", "no fold", "below", "length"])
def test_second_folds_that_cannot_be_are_made_again(folder: RunFolder, damage: str) -> None:
    whole = dict(np.load(folder.path / "splits.npz"))
    assert (whole["second_fold"] >= 0).sum() == 40
    second = whole["second_fold"].copy()
    if damage == "length":
        second = second[:-1]
    else:
        second[0] = {"own fold": whole["fold"][0], "no fold": 4, "below": -2}[damage]
    np.savez(folder.path / "splits.npz", **{**whole, "second_fold": second})
    config = folder.config()
    write_plan(folder.plan, make_plan(config, infer(read_data(config), config)))
    warnings: list[str] = []
    recover(folder, config, warnings.append)
    assert len(warnings) == 1
    np.testing.assert_array_equal(RunData(folder).second_fold, whole["second_fold"])


def test_a_run_of_an_earlier_version_has_no_second_folds(folder: RunFolder) -> None:
    whole = dict(np.load(folder.path / "splits.npz"))
    del whole["second_fold"]
    np.savez(folder.path / "splits.npz", **whole)
    config = folder.config()
    write_plan(folder.plan, make_plan(config, infer(read_data(config), config)))
    recover(folder, config, pytest.fail)
    data = RunData(folder)
    assert (data.second_fold == -1).all()
    assert all(len(data.training(fold)) + len(data.held_out(fold)) == 400 for fold in range(4))


def test_processes_take_turns_to_prepare_large_tables(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second to come finds the features of the first."""
    monkeypatch.setattr(run_features, "LARGE_BYTES", 0)
    features, prepare = RunFeatures(RunData(folder), 0, folder), RunFeatures._prepare
    tried: list[bool] = []

    def while_another_tries(*arguments: Any) -> None:
        with (folder.features / "lock").open("w") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        tried.append(True)
        prepare(*arguments)

    monkeypatch.setattr(RunFeatures, "_prepare", while_another_tries)
    features.saved(ENCODED, 0)
    assert tried
    with (folder.features / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    place = features_folder(folder, ENCODED, 0)
    written = (place / "numeric.npy").stat().st_mtime_ns
    prepare(features, place, ENCODED, 0)
    assert (place / "numeric.npy").stat().st_mtime_ns == written


def test_training_rows_are_encoded_out_of_fold_and_held_out_rows_by_all_training_rows(folder: RunFolder) -> None:
    data = RunData(folder)
    features = RunFeatures(data, 0, folder)
    encoded, raw = features.saved(ENCODED, 1), features.saved(FeatureRecipe(), 1)
    table, plain = encoded.table, raw.table
    assert encoded.spec.numeric == (*raw.spec.numeric, "shop share of 1")
    # The seed of the topics of texts depends on the recipe.
    same = ["topic" not in name for name in raw.spec.numeric]
    np.testing.assert_array_equal(table.numeric[:, :-1][:, same], plain.numeric[:, same])
    np.testing.assert_array_equal(table.categorical, plain.categorical)
    shop, shown = data.frame["shop"].to_numpy(), table.numeric[:, -1]
    held_out, training = data.held_out(1).places, data.training(1).places
    common = next(name for name in np.unique(shop[held_out]) if (shop[training] == name).sum() >= 5)
    assert len(np.unique(shown[held_out][shop[held_out] == common])) == 1
    assert len(np.unique(shown[training][shop[training] == common])) > 1


@pytest.mark.parametrize("recipe", [ENCODED, FeatureRecipe(derived=True)])
def test_targets_of_held_out_rows_change_no_feature(tmp_path: Path, recipe: FeatureRecipe) -> None:
    contents: list[dict[str, bytes]] = []
    for name, rows in (("as it is", None), ("held-out rows", "held_out"), ("training rows", "training")):
        folder = make_run(tmp_path, name)
        data = RunData(folder)
        if rows is not None:
            data.target = data.target.copy()
            changed = getattr(data, rows)(1).places
            data.target[changed] = np.random.default_rng(0).permutation(data.target[changed])
        RunFeatures(data, 0, folder).saved(recipe, 1)
        place = features_folder(folder, recipe, 1)
        files = sorted(path for path in place.rglob("*") if path.is_file())
        contents.append({path.relative_to(place).as_posix(): path.read_bytes() for path in files})
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]


def job_of(folder: RunFolder, model: str, device: str = "cpu") -> FitJob:
    return FitJob(
        fit=f"{model}-0000-f0",
        run=str(folder.path),
        model=model,
        trial=0,
        fold=0,
        params={},
        recipe=ENCODED,
        task="binary",
        n_classes=2,
        metric="roc_auc",
        run_seed=0,
        device=device,
        libraries="trees",
        n_threads=1,
        soft_deadline=None,
    )


def fit_in_order(folder: RunFolder, models: tuple[str, ...]) -> dict[str, bytes]:
    """Run one fit of each model; returns their held-out predictions."""
    for model in models:
        run_fit(job_of(folder, model))
    return {model: (folder.fits / f"{model}-0000-f0" / "oof.npy").read_bytes() for model in models}


def test_fits_do_not_depend_on_which_model_uses_the_features_first(tmp_path: Path) -> None:
    one, other = make_run(tmp_path, "one"), make_run(tmp_path, "other")
    assert fit_in_order(one, ("lightgbm", "linear")) == fit_in_order(other, ("linear", "lightgbm"))


FIT_IN_NEW_PROCESS = """
import sys, msgspec
from tabapp.engine.fit.run_fit import run_fit
from tabapp.engine.fit.jobs import FitJob
(result,) = run_fit(msgspec.json.decode(sys.argv[1], type=FitJob))
print(result.summary["device"], result.n_bytes, "torch" in sys.modules)
"""


@pytest.mark.parametrize("model", ["xgboost", "catboost"])
def test_a_booster_on_a_gpu_waits_for_no_import_of_torch(folder: RunFolder, model: str) -> None:
    """Torch, which cannot see the memory that boosters take of a GPU, takes longer to import than their fits."""
    job = msgspec.json.encode(job_of(folder, model, "cuda:0")).decode()
    command = [sys.executable, "-c", FIT_IN_NEW_PROCESS, job]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    device, n_bytes, has_torch = done.stdout.split()
    assert device in ("cpu", "cuda:0")
    assert (n_bytes, has_torch) == ("0", "False")


def test_a_result_says_how_long_its_fit_waited_for_a_processor(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Contention, "slowdown", lambda self: 2.0)
    [result] = run_fit(job_of(folder, "linear"))
    saved = decode_result((folder.fits / result.fit / "metrics.json").read_bytes())
    assert saved.quiet_seconds == result.quiet_seconds == pytest.approx((result.seconds + result.predict_seconds) / 2)
