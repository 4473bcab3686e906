"""A bundle has one model with all rows of a model that trains nothing, in place of those of the folds."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp.bundle.prediction.load import load_bundle
from tabapp.engine.analyses.averages import averaging_of_ensemble
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.loop.board import predict_ms_per_1k
from tabapp.engine.loop.fold_models import folds_within
from tabapp.ensemble.averaging import NO_AVERAGING
from tests.engine.finished_runs import make_run

pytest.importorskip("lightpfn")

N_FOLDS = 3


@pytest.fixture
def run(light: Path, tmp_path: Path) -> FinishedRun:
    """A run of LightPFN on 3 folds."""
    random = np.random.default_rng(0)
    number = random.normal(size=120)
    label = np.where(number + random.normal(size=120) > 0, "yes", "no")
    pl.DataFrame({"a": number, "b": random.choice(["x", "y", "z"], 120), "t": label}).write_csv(tmp_path / "data.csv")
    return FinishedRun(make_run(tmp_path / "runs", tmp_path / "data.csv", "t", ("lightpfn",), N_FOLDS))


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
