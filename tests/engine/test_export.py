"""Bundles rebuilt from a finished run: refitted, within a time limit, distilled, in half precision."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.files.records import FORMAT_VERSION
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.threshold import set_threshold
from tabapp.cli.main import run_command_line
from tabapp.data.reading.read import read_table
from tabapp.engine.analyses.diagnosing import choose_bundle_threshold
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.finish import export, speed
from tabapp.engine.loop.selection import select_ensemble
from tabapp.errors import UsageError
from tabapp.explain.decision import choose_threshold
from tabapp.features.arrays import Table
from tabapp.models.prepared_fit import LEAST_SHARE, soft_table
from tabapp.run.protocol import exporting as messages
from tabapp.run.record.folder import EventLog, RunFolder
from tests.engine.finished_runs import make_run
from tests.tables import write_mixed, write_shops

USAGE = 2


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shops(tmp_path_factory.mktemp("table") / "shops.csv", rows=300)


@pytest.fixture(scope="module")
def folder(table: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs"), table, "sold", ("lightgbm", "linear"))


@pytest.fixture
def fixed_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every measured step takes 2 ms."""
    for module in (speed, export):
        monkeypatch.setattr(module, "processor_ms", lambda work, repeats=1: (work(), 2.0)[1])


def exported(folder: RunFolder, out: Path, **options: object) -> list[messages.AnyExportMessage]:
    found: list[messages.AnyExportMessage] = []
    export.export_run(folder, out, messages.ExportOptions(**options), found.append)
    return found


def state_of(folder: RunFolder) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.path.rglob("*")}


def test_a_refitted_bundle_has_one_model_of_each_candidate_trained_on_all_rows(folder, table, tmp_path):
    before = state_of(folder)
    found = exported(folder, tmp_path / "new.tabapp", refit=True)
    assert state_of(folder) == before, "an export does not change the run"
    old, new = open_bundle(folder.bundle), load_bundle(tmp_path / "new.tabapp")
    members = {c.model: c for c in new.contents.ensemble.candidates}
    assert [c.model for c in old.ensemble.candidates] == list(members)
    weights = [candidate.weight for candidate in members.values()]
    assert [candidate.weight for candidate in old.ensemble.candidates] == pytest.approx(weights, abs=1e-5)
    assert all(len(candidate.folds) == 1 for candidate in members.values())
    assert new.contents.manifest.metrics == old.manifest.metrics
    assert "trained again on all rows" in new.contents.manifest.validation
    (compared,) = [message for message in found if isinstance(message, messages.Compared)]
    assert [row.models for row in compared.rows] == [2 * len(members), len(members)]
    assert compared.rows[1].n_bytes == (tmp_path / "new.tabapp").stat().st_size < compared.rows[0].n_bytes
    assert isinstance(found[-1], messages.Written)
    rows = pl.read_csv(table, infer_schema=False)
    both = [bundle.predictor.predict_frame(rows).values[:, 1] for bundle in (load_bundle(folder.bundle), new)]
    assert np.corrcoef(both)[0, 1] > 0.9


def test_refitted_boosters_have_the_mean_number_of_trees_of_the_folds(folder, tmp_path):
    run = FinishedRun(folder)
    boosted = next(c for (model, _), c in run.candidates.items() if model == "lightgbm")
    source = export.Refitter(run.models, tmp_path).refit(boosted, 1.0)
    facts = json.loads((source.folds[0].model / "model.json").read_text())["facts"]
    trees = [result.summary["trees"] for result in boosted.results.values()]
    assert facts == {"trees": round(sum(trees) / len(trees)), "refit": True}


def test_a_limit_selects_the_best_ensemble_within_it(folder, tmp_path, fixed_times):
    """A model takes 2 ms, and so do the features of a fold; the two models have different features."""
    run = FinishedRun(folder)
    best = min(run.candidates.values(), key=run.scorer.loss)
    exported(folder, tmp_path / "one.tabapp", limit_ms=4.0, refit=True)
    contents = open_bundle(tmp_path / "one.tabapp")
    assert [candidate.model for candidate in contents.ensemble.candidates] == [best.model]
    assert contents.manifest.metrics[0].score == pytest.approx(run.scorer.score(best).value)
    assert "within 4 ms" in contents.manifest.validation
    exported(folder, tmp_path / "all.tabapp", limit_ms=16.0)
    contents = open_bundle(tmp_path / "all.tabapp")
    assert {len(candidate.folds) for candidate in contents.ensemble.candidates} == {2}
    score = contents.manifest.metrics[0].score
    assert score >= run.contents.manifest.metrics[0].score - 1e-9, "both models are within the limit"


def test_smaller_boosters_leave_the_fits_of_pruned_trials_alone(folder, tmp_path, fixed_times):
    copy = RunFolder(Path(shutil.copytree(folder.path, tmp_path / folder.path.name)))
    shutil.copytree(copy.fits / "lightgbm-0000-f0", copy.fits / "lightgbm-0001-f0")
    before = state_of(copy)
    with pytest.raises(UsageError, match="within 3 ms here"):
        exported(copy, tmp_path / "small.tabapp", limit_ms=3.0)
    assert state_of(copy) == before


def test_a_limit_that_no_model_keeps_names_the_fastest(folder, tmp_path, fixed_times):
    with pytest.raises(UsageError, match=r"within 3 ms here\. The fastest, \w+, needs 8 ms.* --refit"):
        exported(folder, tmp_path / "none.tabapp", limit_ms=3.0)
    assert not (tmp_path / "none.tabapp").exists()


def test_models_that_the_user_excluded_are_not_selected(folder, monkeypatch):
    run = FinishedRun(folder)
    monkeypatch.setattr(FinishedRun, "left_out", {"linear"})
    assert {candidate.model for candidate in speed.pool_of(run)} == {"lightgbm"}


def test_a_distilled_bundle_has_one_model_and_its_own_score(folder, table, tmp_path, fixed_times):
    exported(folder, tmp_path / "small.tabapp", distill="linear")
    loaded = load_bundle(tmp_path / "small.tabapp")
    (member,) = loaded.contents.ensemble.candidates
    assert (member.model, len(member.folds)) == ("linear", 1)
    scores = {name: value for value in loaded.contents.manifest.metrics for name in [value.name]}
    run = FinishedRun(folder)
    linear = next(c for (model, _), c in run.candidates.items() if model == "linear")
    assert 0.6 < scores["roc_auc"].score != run.scorer.score(linear).value


@pytest.fixture
def decided(folder, tmp_path) -> RunFolder:
    """A copy of the run whose bundle has a threshold by a cost."""
    shutil.copytree(folder.path, tmp_path / "decided")
    copy = RunFolder(tmp_path / "decided")
    event = choose_bundle_threshold(FinishedRun(copy), "cost:fn=5,fp=1")
    log = EventLog(copy.events)
    log.append(event)
    log.close()
    return copy


def threshold_and_note(folder: RunFolder, out: Path, **options: object) -> tuple[float | None, str]:
    (compared,) = [m for m in exported(folder, out, **options) if isinstance(m, messages.Compared)]
    return open_bundle(out).ensemble.threshold, compared.threshold_note


@pytest.mark.slow
def test_a_smaller_ensemble_gets_a_threshold_of_its_own(decided, tmp_path, fixed_times):
    run = FinishedRun(decided)
    old = run.contents.ensemble.threshold
    assert old is not None
    best = min(run.candidates.values(), key=run.scorer.loss)
    selected = select_ensemble([best], run.scorer, run.plan.metric, run.plan.seed)
    truth, folds = run.scorer.target[selected.covered], run.scorer.folds[selected.covered]
    expected = choose_threshold("cost:fn=5,fp=1", truth, selected.prediction, folds, seed=run.plan.seed).value
    found, note = threshold_and_note(decided, tmp_path / "small.tabapp", limit_ms=8.0)
    assert found == expected
    assert f"chosen again for these models by cost (fn 5, fp 1): {expected:.3f} instead of {old:.3f}" in note
    found, note = threshold_and_note(decided, tmp_path / "all.tabapp", refit=True)
    assert found == old
    assert f"The threshold {old:.3f} fits the models of the folds" in note


def test_a_distilled_model_gets_a_threshold_of_its_own(decided, tmp_path, fixed_times):
    found, note = threshold_and_note(decided, tmp_path / "student.tabapp", distill="linear")
    assert found is not None
    assert 0 < found < 0.5
    assert f"{found:.3f} instead of" in note


@pytest.mark.slow
def test_a_threshold_of_an_unknown_metric_is_kept(decided, tmp_path, fixed_times):
    set_threshold(decided.bundle, 0.123)
    found, note = threshold_and_note(decided, tmp_path / "small.tabapp", limit_ms=8.0)
    assert found == 0.123
    assert "is kept, but not chosen again: its metric is not known" in note


def test_no_threshold_needs_no_sentence(folder, tmp_path, fixed_times):
    assert threshold_and_note(folder, tmp_path / "small.tabapp", distill="linear") == (None, "")


@pytest.mark.slow
def test_a_regression_can_be_distilled(tmp_path, fixed_times):
    data = write_mixed(tmp_path / "mixed.csv", rows=200)
    exported(make_run(tmp_path / "runs", data, "price", ("linear",)), tmp_path / "small.tabapp", distill="lightgbm")
    loaded = load_bundle(tmp_path / "small.tabapp")
    assert [candidate.model for candidate in loaded.contents.ensemble.candidates] == ["lightgbm"]
    frame = read_table(data).frame
    found = loaded.predictor.predict_frame(frame)
    known = frame["price"].is_not_null().to_numpy()
    truth = frame["price"].cast(pl.Float64).to_numpy()
    inside = (found.low <= truth) & (truth <= found.high)
    assert inside[known].mean() > 0.8, "the intervals are those of the new model"


def test_soft_targets_become_weighted_rows():
    table = Table(numeric=np.arange(2, dtype=np.float32)[:, None], categorical=np.zeros((2, 0), np.int32))
    soft = soft_table(table, np.array([[0.25, 0.75], [LEAST_SHARE / 2, 1 - LEAST_SHARE / 2]]))
    assert soft.numeric[:, 0].tolist() == [0, 0, 1]
    assert soft.target is not None
    assert soft.target.tolist() == [0, 1, 1]
    assert soft.weight == pytest.approx([0.25, 0.75, 1 - LEAST_SHARE / 2])


def test_the_command_shows_size_speed_and_score_before_it_writes(folder, tmp_path, capfd):
    arguments = ["export", str(folder.path), "--refit", "--half", "-o", str(tmp_path / "new.tabapp")]
    assert run_command_line(arguments) == 0
    captured = capfd.readouterr()
    assert captured.out.split() == [str(tmp_path / "new.tabapp")]
    lines = captured.err.splitlines()
    (header,) = [number for number, line in enumerate(lines) if "1,000 rows" in line and "roc_auc" in line]
    assert lines[header + 1].startswith("bundle of the run")
    assert lines[header + 2].startswith("this export")
    assert load_bundle(tmp_path / "new.tabapp").contents.manifest.format_version == FORMAT_VERSION


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--distill", "linear", "--refit"], "Omit --refit"),
        (["--limit-ms", "0"], "is not above 0"),
        (["--limit-ms", "5", "--limit-rows", "0"], "is not above 0"),
        (["--distill", "no_model"], "no_model"),
    ],
    ids=" ".join,
)
def test_options_that_are_not_valid_are_one_sentence(options, part, folder, tmp_path, capfd):
    out = tmp_path / "x.tabapp"
    assert run_command_line(["export", str(folder.path), "-q", "-o", str(out), *options]) == USAGE
    assert part in capfd.readouterr().err
    assert not out.exists()


def test_a_bundle_has_no_rows_to_train_on(folder, tmp_path, capfd):
    (tmp_path / "b.tabapp").write_bytes(folder.bundle.read_bytes())
    assert (
        run_command_line(["export", str(tmp_path / "b.tabapp"), "--refit", "-o", str(tmp_path / "x.tabapp")]) == USAGE
    )
    assert "has no training rows" in capfd.readouterr().err


def test_a_damaged_run_is_named(folder, tmp_path):
    shutil.copytree(folder.path, tmp_path / "run")
    (tmp_path / "run" / "splits.npz").write_bytes(b"PK")
    with pytest.raises(UsageError, match=r"is not complete: .* `tabapp resume"):
        exported(RunFolder(tmp_path / "run"), tmp_path / "x.tabapp", refit=True)
