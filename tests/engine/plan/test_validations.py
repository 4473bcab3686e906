"""Runs of every validation end with a verified bundle, also with models that store training rows and with rows without a target."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from tabapp.bundle.files.records import TRAINING_ROWS, TrainingRows
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.write import write_bundle
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.finish import export
from tabapp.engine.fit.numbering import ScoredRows, UsableRows
from tabapp.engine.fit.run_data import RunData
from tabapp.features.arrays import Table
from tabapp.models import registry
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder, list_runs
from tests.engine.finished_runs import make_run
from tests.waiting import HANG_SECONDS

ROWS, WITHOUT_TARGET = 160, 8
STORING = ("k_neighbors", "modern_nca", "tabr", "npt", "xrfm")
OPTIONS: dict[str, dict[str, Any]] = {
    "holdout": {"validation": "holdout", "folds": None},
    "cv": {"folds": 2},
    "group": {"group": "site", "folds": 2},
    "time": {"time": "day", "folds": None},
}


def write_table(path: Path, rows: int = ROWS) -> Path:
    """A number to predict, with groups, times, and rows without a target."""
    generator = np.random.default_rng(3)
    x, z = generator.normal(size=(2, rows)).round(3)
    y = [f"{value:.3f}" for value in 10 * x + z + np.arange(rows)]
    frame = pl.DataFrame({
        "site": [f"S{i % 8}" for i in range(rows)],
        "day": [str(np.datetime64("2024-01-01") + i) for i in range(rows)],
        "x": x,
        "z": z,
        "y": ["" if i % (rows // WITHOUT_TARGET) == 5 else value for i, value in enumerate(y)],
    })  # fmt: skip
    frame.write_csv(path)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("table") / "data.csv")


def run(table: Path, place: Path, *options: str, timeout: float = HANG_SECONDS) -> RunFolder:
    words = [sys.executable, "-m", "tabapp", "--auto", str(table), "--target", "y", "--trials", "1", *options]
    done = subprocess.run(
        [*words, "--runs-dir", str(place), "--out", str(place / "b.tabapp")],
        capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder,) = list_runs(place)
    return folder


def check_training_rows(bundle: Path, table: Path) -> None:
    """A bundle names rows of the file, with the target that they have there."""
    file = pl.read_csv(table, infer_schema=False)["y"]
    with zipfile.ZipFile(bundle) as archive:
        stored = msgspec.json.decode(archive.read(TRAINING_ROWS), type=TrainingRows)
    assert stored.targets
    for number, target in stored.targets.items():
        assert float(file[number]) == pytest.approx(target, rel=1e-6)
    for numbers in stored.numbers.values():
        assert set(numbers) <= set(stored.targets)


@pytest.fixture(scope="module")
def holdout(table: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(table, tmp_path_factory.mktemp("holdout"), "--models", "k_neighbors", "--validation", "holdout")


def test_a_holdout_with_a_model_that_stores_training_rows_ends_with_a_bundle(holdout: RunFolder, table: Path) -> None:
    data = RunData(holdout)
    assert len(data.scored) < len(data.all) == ROWS - WITHOUT_TARGET
    load_bundle(holdout.bundle)
    check_training_rows(holdout.bundle, table)
    finished = EventReader(holdout.events).read_new()[-1]
    assert isinstance(finished, ev.RunFinished)
    assert (finished.status, finished.exit_code) == ("ok", 0)


def test_exports_of_such_a_holdout_name_the_same_rows(holdout: RunFolder, table: Path, tmp_path: Path) -> None:
    for refit in (False, True):
        out = tmp_path / f"{refit}.tabapp"
        options = export.messages.ExportOptions(refit=refit, half=True)
        export.export_run(holdout, out, options, lambda message: None)
        check_training_rows(out, table)


@pytest.mark.parametrize("validation", ["holdout", "group", "time"])
def test_every_model_that_stores_training_rows_names_rows_of_the_file(
    table: Path, tmp_path: Path, validation: str
) -> None:
    # One scheme for all in the default tests: networks take seconds.
    models = STORING if validation == "time" else STORING[:1]
    folder = make_run(tmp_path, table, "y", models, **OPTIONS[validation], seconds=0.5)
    finished = FinishedRun(folder)
    for model in models:
        bundle = tmp_path / f"{model}.tabapp"
        write_bundle(bundle, contents_of(finished, model))
        check_training_rows(bundle, table)


def contents_of(finished: FinishedRun, model: str) -> export.BundleContents:
    """What a bundle of one model of a run has."""
    stored = finished.contents
    scores = export._Scores(stored.manifest.metrics, export.stored_intervals(stored.ensemble))
    (candidate,) = (c for c in finished.candidates.values() if c.model == model)
    return export._contents(finished, [finished.models.source(candidate, 1.0)], scores, "")


@pytest.mark.slow
@pytest.mark.parametrize("validation", OPTIONS)
def test_every_model_ends_with_a_bundle_in_every_validation(tmp_path: Path, validation: str) -> None:
    # Some networks need a thousand rows for training.
    table = write_table(tmp_path / "data.csv", rows=1_300)
    models = tuple(name for name in registry.names() if not registry.find(name).reason)
    folder = make_run(tmp_path, table, "y", models, **OPTIONS[validation], seconds=1.0)
    load_bundle(folder.bundle)
    finished = FinishedRun(folder)
    assert {candidate.model for candidate in finished.candidates.values()} == set(models)
    for model in models:
        bundle = tmp_path / f"{model}.tabapp"
        write_bundle(bundle, contents_of(finished, model))
        assert load_bundle(bundle).contents.ensemble.candidates[0].model == model
        if registry.get(model).contains_training_rows:
            check_training_rows(bundle, table)


def test_positions_of_one_numbering_are_refused_in_another(holdout: RunFolder) -> None:
    data = RunData(holdout)
    scored, usable = len(data.scored), len(data.target)
    among = data.among_scored(data.held_out(0))
    assert (type(among), type(data.held_out(0))) == (ScoredRows, UsableRows)
    values = np.arange(usable)
    np.testing.assert_array_equal(data.scored.of(values)[among.places], data.held_out(0).of(values))
    for rows, array in ((data.scored, np.zeros(scored)), (among, values), (among, data.frame)):
        with pytest.raises(ValueError, match=r"positions among \d+ rows are not those of \d+ rows"):
            rows.of(array)
    with pytest.raises(ValueError, match="positions among"):
        among.put(values, values[:scored])
    with pytest.raises(ValueError, match=f"a position is not one of {scored} rows"):
        ScoredRows(data.held_out(0).places, scored)
    with pytest.raises(ValueError, match="a position is not one of"):
        data.among_scored(data.training(0))


def test_rows_are_chosen_joined_and_set_in_their_order() -> None:
    table = Table(numeric=np.arange(6, dtype=np.float32)[:, None], categorical=np.zeros((6, 0), dtype=np.int32))
    rows = UsableRows.where(np.array([True, False, True, True, False, True]))
    assert rows.places.tolist() == [0, 2, 3, 5]
    last, first = rows.at(slice(2, None)), rows.at(np.array([True, False, False, False]))
    both = UsableRows.joined([last, first])
    assert both.of(np.arange(6)).tolist() == [3, 5, 0]
    assert both.of(table).numeric[:, 0].tolist() == [3, 5, 0]
    assert both.of(None) is None
    values = np.zeros(6)
    both.put(values, np.array([1.0, 2.0, 3.0]))
    assert values.tolist() == [3, 0, 0, 1, 0, 2]
