"""The preliminary bundle of a run in progress."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from tabapp.bundle.prediction.load import load_bundle
from tabapp.engine.finish.preview import write_preview
from tabapp.errors import UsageError
from tabapp.run.protocol.exporting import ExportOptions, PreviewWritten, run_export
from tabapp.run.record.event_lines import decode
from tabapp.run.record.folder import EventLog, RunFolder
from tests.engine.finished_runs import make_run
from tests.tables import write_shops


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shops(tmp_path_factory.mktemp("table") / "shops.csv", rows=300)


@pytest.fixture(scope="module")
def folder(table: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run as it was before its end: with an ensemble in its events, without a bundle."""
    made = make_run(tmp_path_factory.mktemp("runs"), table, "sold", ("lightgbm", "linear"))
    ensemble = decode((made.path / "ensemble.json").read_bytes())
    log = EventLog(made.events)
    log.append(ensemble)
    log.close()
    for name in ("ensemble.json", "model.tabapp"):
        (made.path / name).unlink()
    return made


def test_the_best_models_so_far_predict_and_are_marked(folder, table, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    found = []
    run_export(folder, tmp_path / "p.tabapp", ExportOptions(preview=True), found.append)
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before, "the run is not changed"
    (made,) = [message for message in found if isinstance(message, PreviewWritten)]
    state = folder.state()
    assert state.finished is None
    loaded = load_bundle(tmp_path / "p.tabapp")
    manifest, ensemble = loaded.contents.manifest, loaded.contents.ensemble
    known = {(member.model, member.trial) for member in state.ensemble.members}
    assert {(each.model, each.trial) for each in ensemble.candidates} <= known
    assert made.members == len(ensemble.candidates)
    assert made.score == pytest.approx(state.ensemble.score, abs=0.02)
    assert "preliminary: the best models so far" in manifest.validation
    rows = pl.read_csv(table, infer_schema=False)
    assert len(loaded.predictor.predict_frame(rows).values) == 300


def test_without_a_score_it_says_so(folder, tmp_path):
    early = tmp_path / "early"
    shutil.copytree(folder.path, early)
    (early / "events.jsonl").write_bytes(b"")
    with pytest.raises(UsageError, match="has no result yet"):
        write_preview(RunFolder(early), tmp_path / "p.tabapp", lambda text: None)
    assert not (tmp_path / "p.tabapp").exists()
