"""Bundles with a pre-trained model: one context with all rows, and weights inside or outside of the file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tabapp_plugins.foundation import networks

from tabapp.bundle.files.archive import Entry, open_archive, write_archive
from tabapp.bundle.files.contents import decode_contents
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.with_weights import write_with_weights
from tabapp.engine.analyses.averages import averaging_of_ensemble
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.loop.board import predict_ms_per_1k
from tabapp.engine.loop.fold_models import folds_within
from tabapp.ensemble.averaging import NO_AVERAGING
from tabapp.errors import BundleError
from tabapp.weights import place
from tests.engine.finished_runs import make_run
from tests.engine.test_run import kill_and_resume
from tests.foundation.conftest import write_table

pytest.importorskip("lightpfn")

N_FOLDS = 3
WATCH = """
import os, socket, sys
with open(os.path.join(os.path.dirname(os.environ["ATTEMPTS"]), "started.txt"), "a") as file:
    print(sys.argv, file=file)
def count(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto") and not (
        event != "socket.getaddrinfo" and arguments[0].family == socket.AF_UNIX
    ):
        with open(os.environ["ATTEMPTS"], "a") as file:
            print(event, arguments, file=file)
sys.addaudithook(count)
"""
"""Records the processes that start, and their attempts to connect."""


@pytest.fixture
def run(light: Path, tmp_path: Path) -> FinishedRun:
    """A run of LightPFN on 3 folds."""
    return FinishedRun(make_run(tmp_path / "runs", write_table(tmp_path), "t", ("lightpfn",), N_FOLDS))


def test_its_context_is_every_row(run: FinishedRun) -> None:
    bundle = load_bundle(run.folder.bundle)
    (candidate,) = bundle.contents.ensemble.candidates
    (stored,) = candidate.folds
    rows = bundle.contents.training_rows
    assert rows is not None
    assert sorted(rows.numbers[stored.model]) == sorted(run.numbers.tolist())
    model = bundle.predictor.models[stored.model]
    assert model.summary()["context_rows"] == len(run.numbers)
    assert all(bundle.neighbors(bundle.reference_rows()))


def test_its_speed_and_its_gain_are_those_of_one_model(run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    ((member, _),) = run.members
    speeds = [1e6 * result.predict_seconds / result.n_rows for result in member.results.values()]
    assert predict_ms_per_1k(member) == pytest.approx(sum(speeds) / N_FOLDS, rel=1e-3)
    monkeypatch.setattr(run.models.__class__, "predict", lambda *given: pytest.fail("a fold model predicted"))
    assert averaging_of_ensemble(run.models, run.members, run.data.scored) == NO_AVERAGING
    saved = run.models.out_of_fold(member, run.data.scored)
    assert np.array_equal(saved, run.scorer.out_of_fold(member)[0])


def test_the_folds_that_explain_it_are_read_in_time(run: FinishedRun) -> None:
    ((member, _),) = run.members
    results = {
        fold: msgspec.structs.replace(r, seconds=10.0, predict_seconds=1.0) for fold, r in member.results.items()
    }
    member = replace(member, results=results)
    now = time.monotonic()
    assert folds_within(member, None) == [0, 1, 2]
    assert folds_within(member, now + 30.0) == [0, 1]
    assert folds_within(member, now - 5.0) == [0]
    assert folds_within(replace(member, model="tabr"), now) == [0, 1, 2]


def test_a_bundle_with_its_weights_needs_no_others(
    run: FinishedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole.tabapp"
    write_with_weights(run.folder.bundle, whole)
    expected = load_bundle(run.folder.bundle).predictor.predict_frame(load_bundle(run.folder.bundle).sample)
    monkeypatch.setenv(place.FOLDER_VARIABLE, str(tmp_path / "none"))
    networks.forget()
    with pytest.raises(BundleError, match="tabapp weights fetch lightpfn"):
        load_bundle(run.folder.bundle)
    found = load_bundle(whole)
    assert np.array_equal(found.predictor.predict_frame(found.sample).values, expected.values)


def test_embedded_weights_with_another_hash_are_refused(
    run: FinishedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, forged = tmp_path / "whole.tabapp", tmp_path / "forged.tabapp"
    write_with_weights(run.folder.bundle, whole)
    (tmp_path / "members").mkdir()
    with open_archive(whole, is_own=True) as archive:
        manifest = decode_contents(archive).manifest
        archive.extract(tmp_path / "members")
    entries = [Entry(member.path, member.kind, tmp_path / "members" / member.path) for member in manifest.members]
    (weights,) = (entry.content for entry in entries if entry.kind == "weights")
    assert isinstance(weights, Path)
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    write_archive(forged, entries, manifest)
    monkeypatch.setenv(place.FOLDER_VARIABLE, str(tmp_path / "none"))
    networks.forget()
    with pytest.raises(BundleError, match=r"lightpfn-classifier .* are not installed"):
        load_bundle(forged)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_resumes_after_kills(light: Path, tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 2, 3, ["lightpfn", "linear"], 1)


@pytest.mark.slow
def test_a_run_connects_to_nothing(light: Path, tmp_path: Path) -> None:
    """Every process of a run, of a prediction and of an explanation counts its attempts to connect."""
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    table = write_table(tmp_path)
    counted = tmp_path / "attempts.txt"
    watched = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "ATTEMPTS": str(counted),
        "TABAPP_RUNS_DIR": str(tmp_path / "runs"),
    }
    bundle = str(tmp_path / "out.tabapp")
    for command in (
        ["--auto", str(table), "--target", "t", "--models", "lightpfn,linear", "--trials", "1", "--out", bundle],
        ["predict", bundle, str(table), "-o", str(tmp_path / "predicted.csv")],
        ["explain", bundle, str(table), "--row", "3"],
        ["weights"],
        ["models"],
    ):
        subprocess.run(
            [sys.executable, "-m", "tabapp", *command], env=watched, check=True, capture_output=True, cwd=tmp_path
        )
    assert (tmp_path / "started.txt").read_text().count("\n") > 5
    assert not counted.exists()
