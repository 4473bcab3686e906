"""Disks that fill up, become read-only or vanish at every stage of a run. Needs the right to mount a small file system."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabapp.run.record.folder import list_runs
from tests.tables import write_wine
from tests.torture.disturbing import HANG_SECONDS, OPTIONS, command, complete_fits, scores_of, start
from tests.waiting import wait_until

SIZES = tuple(map(int, os.environ.get("TABAPP_TORTURE_SIZES", "200,1200,2500").split(",")))
"""KiB of the disk."""

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=500m", "tmpfs", str(place)], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=HANG_SECONDS)


@pytest.mark.parametrize("size", SIZES)
def test_a_full_disk_is_named_and_the_run_resumes_when_there_is_space(disk: Path, tmp_path: Path, size: int) -> None:
    data = write_wine(tmp_path / "wine.csv")
    remount(disk, f"size={size}k")
    done = run("--auto", str(data), *OPTIONS, "--runs-dir", str(disk / "runs"))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "fault of tabapp" not in done.stderr
    assert "space" in done.stderr or "disk" in done.stderr, done.stderr
    remount(disk, "size=500m")
    if not (found := list_runs(disk / "runs")):
        return
    before = complete_fits(found[0])
    resumed = run("resume", str(found[0].path), "--json")
    assert resumed.returncode == 0, resumed.stderr
    after = complete_fits(found[0])
    assert {fit: after.get(fit) for fit in before} == before
    assert scores_of(found[0])


def test_a_disk_that_becomes_read_only_ends_the_run_and_it_resumes(disk: Path, tmp_path: Path) -> None:
    data = write_wine(tmp_path / "wine.csv")
    process = start("--auto", str(data), *OPTIONS, "--runs-dir", str(disk / "runs"))
    wait_until(lambda: any(complete_fits(folder) for folder in list_runs(disk / "runs")), "the first fit")
    # Files that are open for writing stay so; new ones cannot be made.
    subprocess.run(["mount", "-o", "remount,ro,force", str(disk)], check=False, capture_output=True)
    remounted = subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=False, capture_output=True)
    if remounted.returncode:
        process.kill()
        process.wait(HANG_SECONDS)
        pytest.skip("the disk is busy and cannot become read-only here")
    assert process.wait(HANG_SECONDS) != 0
    remount(disk, "rw")
    folder = list_runs(disk / "runs")[0]
    before = complete_fits(folder)
    resumed = run("resume", str(folder.path), "--json")
    assert resumed.returncode == 0, resumed.stderr
    after = complete_fits(folder)
    assert {fit: after.get(fit) for fit in before} == before


def test_a_vanished_run_folder_ends_the_run(tmp_path: Path) -> None:
    data, runs = write_wine(tmp_path / "wine.csv"), tmp_path / "runs"
    process = subprocess.Popen(
        command("--auto", str(data), *OPTIONS, "--runs-dir", str(runs)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: any(complete_fits(folder) for folder in list_runs(runs)), "the first fit")
    shutil.rmtree(runs, ignore_errors=True)
    _, errors = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode not in (0, None)
    assert "Traceback" not in errors
    assert "fault of tabapp" not in errors


def test_a_table_that_changes_during_the_run_does_not_change_it(tmp_path: Path) -> None:
    data, runs = write_wine(tmp_path / "wine.csv"), tmp_path / "runs"
    undisturbed = run("--auto", str(data), *OPTIONS, "--runs-dir", str(tmp_path / "undisturbed"))
    assert undisturbed.returncode == 0
    process = start("--auto", str(data), *OPTIONS, "--runs-dir", str(runs))
    wait_until(lambda: any(folder.plan.exists() for folder in list_runs(runs)), "the plan")
    data.write_text("changed\n1\n")
    assert process.wait(HANG_SECONDS) == 0
    assert scores_of(list_runs(runs)[0]) == scores_of(list_runs(tmp_path / "undisturbed")[0])
