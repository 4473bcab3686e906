"""Runs that are killed, interrupted, suspended and copied at random moments: nothing complete is lost, and results stay equal.

`make torture` runs the long form: TABAPP_TORTURE_RUNS runs, and TABAPP_TORTURE_STOP seconds of sleep for suspended processes. The
variable TABAPP_TORTURE_SEED is the seed of the first run, which continues a series.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from tabapp import files
from tabapp.run.record.folder import RunFolder, list_runs
from tests.tables import write_wine
from tests.torture.disturbing import (
    DISTURBANCES,
    HANG_SECONDS,
    OPTIONS,
    QUICK,
    Count,
    command,
    complete_fits,
    disturbed_run,
    scores_of,
)

RUNS = int(os.environ.get("TABAPP_TORTURE_RUNS", "3"))
FIRST_SEED = int(os.environ.get("TABAPP_TORTURE_SEED", "0"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wine(tmp_path_factory.mktemp("torture") / "wine.csv")


def undisturbed(data: Path, runs: Path) -> dict[str, tuple[float | None, int, float]]:
    subprocess.run(
        command("--auto", str(data), *OPTIONS, "--runs-dir", str(runs)),
        check=True,
        capture_output=True,
        timeout=HANG_SECONDS,
    )
    return scores_of(list_runs(runs)[0])


def test_a_fit_counts_as_complete_once_its_folder_has_its_name(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.fits.mkdir()
    with files.new_folder(folder.fits / "linear-0000-f0") as temporary:
        (temporary / "metrics.json").write_text("{}")
        assert not complete_fits(folder)
    assert list(complete_fits(folder)) == ["linear-0000-f0"]


@pytest.mark.slow
def test_a_run_whose_server_is_killed_and_which_is_copied_finishes(data: Path, tmp_path: Path) -> None:
    count = Count()
    folder = disturbed_run(data, tmp_path / "run", ["SIGKILL server", "copy"], random.Random(4), count, QUICK)
    assert count.is_clean, count
    assert "elsewhere1" in str(folder.path)
    finished = folder.state().finished
    assert finished is not None
    assert finished.status == "ok"


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_runs_survive_random_disturbances(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = undisturbed(data, tmp_path / "undisturbed")
    count = Count()
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        generator = random.Random(seed)
        kinds = [generator.choice(list(DISTURBANCES)) for _ in range(3)]
        folder = disturbed_run(data, tmp_path / f"run{seed}", kinds, generator, count)
        count.different += scores_of(folder) != expected
        with capsys.disabled():
            print(f"\n{count}", end="", flush=True)
    assert count.is_clean, count
