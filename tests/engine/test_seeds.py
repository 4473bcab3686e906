"""Runs with several seeds of each final model: reproducible, in the bundle, and resumed after kill -9."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tabapp.bundle.files.contents import open_bundle
from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.engine.finish.refit import Refitter
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder, list_runs
from tests.engine.test_run import finished_fits, start, tabapp
from tests.tables import write_wine
from tests.waiting import HANG_SECONDS, wait_until

OPTIONS = ["--models", "lightgbm", "--trials", "1", "--folds", "3", "--seeds", "2", "--workers", "2"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wine(tmp_path_factory.mktemp("data") / "wine.csv")


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    runs = tmp_path_factory.mktemp("seeds")
    done = tabapp("--auto", str(table), *OPTIONS, "--runs-dir", str(runs))
    assert done.returncode == 0, done.stderr
    return list_runs(runs)[0]


def ensemble_of(folder: RunFolder) -> ev.EnsembleChanged:
    found = folder.state().ensemble
    assert found is not None
    return found


def further_fits(folder: RunFolder) -> list[str]:
    events = EventReader(folder.events).read_new()
    return [event.fit for event in events if isinstance(event, ev.FitFinished) and event.seed]


def test_every_seed_of_the_members_is_in_the_bundle(run: RunFolder) -> None:
    assert sorted(further_fits(run)) == [f"lightgbm-0000-f{fold}s1" for fold in range(3)]
    assert [member.seeds for member in ensemble_of(run).members] == [2]
    (candidate,) = open_bundle(run.bundle).ensemble.candidates
    assert sorted(model.fold for model in candidate.folds) == [0, 0, 1, 1, 2, 2]
    assert len({model.model for model in candidate.folds}) == 6
    finished = FinishedRun(run)
    ((member, _),) = finished.members
    assert member.seeds == 2
    state = run.state()
    assert "seed 2" in "\n".join(line.text for line in state.feed)
    row = next(row for row in state.leaderboard if row.model == "lightgbm")
    assert row.score == pytest.approx(finished.scorer.value(member))


@pytest.mark.slow
def test_every_seed_is_trained_again_on_all_rows(run: RunFolder, tmp_path: Path) -> None:
    finished = FinishedRun(run, tmp_path / "scratch")
    ((member, weight),) = finished.members
    source = Refitter(finished.models, tmp_path).refit(member, weight)
    first, second = source.folds
    assert (first.seed, second.seed) == (0, 1)
    contents = [{p.name: p.read_bytes() for p in each.model.iterdir()} for each in (first, second)]
    assert contents[0] != contents[1]


@pytest.mark.slow
def test_a_killed_run_resumes_with_the_same_result(run: RunFolder, table: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    process = start("--auto", str(table), *OPTIONS, "--runs-dir", str(runs))
    wait_until(lambda: any(further_fits(folder) for folder in list_runs(runs)), "the first fit of another seed")
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(HANG_SECONDS)
    _, alive = psutil.wait_procs(children, timeout=HANG_SECONDS)
    assert not alive
    (folder,) = list_runs(runs)
    done = tabapp("resume", str(folder.path))
    assert done.returncode == 0, done.stderr
    fits = finished_fits(folder)
    # A fit may have been saved without its event.
    assert len(fits) == len(set(fits)) > 3
    assert sorted(fit.name for fit in folder.fits.iterdir()) == sorted(fit.name for fit in run.fits.iterdir())
    expected, found = ensemble_of(run), ensemble_of(folder)
    assert (found.members, found.score, found.low, found.high, found.identity) == (
        expected.members, expected.score, expected.low, expected.high, expected.identity,
    )  # fmt: skip
