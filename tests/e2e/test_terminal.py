"""The program in a real terminal, driven by tmux. Skipped where tmux is not installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder, list_runs
from tests.e2e.terminal import Terminal
from tests.tables import write_wine
from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture(params=[(120, 36), pytest.param((80, 24), marks=pytest.mark.slow)], ids=["120x36", "80x24"])
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, *request.param)
    yield terminal
    terminal.close()


def test_from_a_table_to_an_exported_bundle_by_keyboard(terminal: Terminal, tmp_path: Path) -> None:
    data = write_wine(tmp_path / "wine.csv")
    runs = tmp_path / "runs"
    terminal.run(str(data), "--trials", "1", "--folds", "2", "--models", "lightgbm", "--runs-dir", str(runs))
    terminal.wait("wine.csv")
    terminal.wait("cultivar")
    terminal.wait("log loss")
    terminal.keys("C-r")
    terminal.wait("LightGBM")
    terminal.until(lambda: list_runs(runs)[0].state().finished is not None, "the end of the run")
    terminal.keys("5")
    terminal.wait("proline")
    terminal.keys("e")
    terminal.wait("wine.tabapp")
    terminal.keys("Enter")
    terminal.until((tmp_path / "wine.tabapp").exists, "the exported bundle")
    terminal.keys("q")
    terminal.wait("EXIT=0")
    words = [sys.executable, "-m", "tabapp", "predict", "wine.tabapp", "wine.csv", "-o", "out.csv"]
    assert subprocess.run(words, cwd=tmp_path, timeout=HANG_SECONDS).returncode == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 179


def test_leaving_before_the_start_succeeds_and_keeps_no_run(terminal: Terminal, tmp_path: Path) -> None:
    data = write_wine(tmp_path / "wine.csv")
    terminal.run(str(data), "--runs-dir", str(tmp_path / "runs"))
    terminal.wait("log loss")
    terminal.keys("q")
    terminal.wait("EXIT=0")
    assert list_runs(tmp_path / "runs") == []


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def newest_run(runs: Path) -> RunFolder:
    return list_runs(runs)[0]


def count_fits(folder: RunFolder) -> int:
    return len(folder.state().fits)


@pytest.mark.slow
def test_ctrl_r_right_after_the_first_paint_starts_newest_run(wide: Terminal, tmp_path: Path) -> None:
    data, runs = write_wine(tmp_path / "wine.csv"), tmp_path / "runs"
    options = ["--trials", "1", "--budget", "120s", "--models", "lightgbm,linear"]
    wide.run(str(data), *options, "--runs-dir", str(runs))
    wide.wait("Start run", "ctrl+r")
    time.sleep(0.1)
    wide.keys("C-r")
    wide.wait("Leaderboard", seconds=180)
    wide.until(lambda: newest_run(runs).state().fitting_since is not None, "the start of the run", 180)
    wide.keys("q")
    wide.until(lambda: "Discard and quit" in wide.screen() or "EXIT=" in wide.screen(), "the question or the end", 180)
    if "EXIT=" not in wide.screen():
        wide.keys("d")
    wide.wait("EXIT=", seconds=180)


def test_run_continues_in_the_background_and_can_be_attached(wide: Terminal, tmp_path: Path) -> None:
    data, runs = write_wine(tmp_path / "wine.csv"), tmp_path / "runs"
    wide.run(str(data), "--budget", "120s", "--models", "lightgbm", "--runs-dir", str(runs))
    wide.wait("ctrl+r starts")
    wide.keys("C-r")
    wide.wait("Leaderboard", "LightGBM")
    wide.keys("q")
    wide.wait("Run in progress", "Keep running in the background")
    wide.keys("b")
    screen = wide.wait("EXIT=0")
    folder = newest_run(runs)
    assert "continues in the background" in screen
    assert folder.is_running()
    wide.close()
    again = Terminal(tmp_path, 80, 24)
    try:
        again.run("attach", "last", "--runs-dir", str(runs))
        again.wait("Leaderboard", "left")
        again.until(lambda: count_fits(folder) > 2, "a few fits")
        again.keys("q")
        again.wait("Finish now")
        again.keys("f")
        screen = again.wait("EXIT=0")
        assert "Bundle: " in screen.replace("\n", "")
    finally:
        again.close()
    assert folder.state().finished is not None
    assert folder.bundle.is_file()


@pytest.mark.slow
def test_killed_engine_is_reported_and_the_run_can_be_resumed(wide: Terminal, tmp_path: Path) -> None:
    data, runs = write_wine(tmp_path / "wine.csv"), tmp_path / "runs"
    options = ["--trials", "1", "--budget", "120s", "--models", "lightgbm,linear"]
    wide.run(str(data), *options, "--runs-dir", str(runs))
    wide.wait("ctrl+r starts")
    wide.keys("C-r")
    wide.wait("Leaderboard")
    folder = newest_run(runs)
    wide.until(lambda: count_fits(folder) >= 2, "two fits")
    started = [event for event in EventReader(folder.events).read_new() if isinstance(event, ev.RunStarted)]
    os.kill(started[-1].pid, signal.SIGKILL)
    wide.wait("The engine has stopped", "SIGKILL", "Completed fits are kept")
    fits = count_fits(folder)
    wide.keys("Escape")
    wide.wait("✗ the engine has stopped")
    wide.keys("7")
    wide.wait("■ stopped")
    wide.keys("r")
    wide.wait("Leaderboard")
    wide.until(lambda: folder.state().finished is not None, "the end of the run")
    assert count_fits(folder) > fits
    wide.wait("✓ done")
    wide.keys("q")
    wide.wait("EXIT=0")
    assert folder.bundle.is_file()
