"""The program in a real terminal: tmux plays the keys and reads the screen. Skipped where there is no tmux."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabapp.run.folder import list_runs
from tests.tables import write_wine

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Terminal:
    """A tmux session of its own, in which one command runs."""

    def __init__(self, folder: Path, width: int, height: int) -> None:
        self._server = f"tabapp-{uuid.uuid4().hex[:8]}"
        self._folder = folder
        self._size = (width, height)

    def tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-L", self._server, *words], capture_output=True, text=True, timeout=20)
        return done.stdout

    def run(self, *arguments: str) -> None:
        """Start tabapp; what it leaves behind is followed by its exit code."""
        command = shlex.join([sys.executable, "-m", "tabapp", *arguments])
        shell = f"env TERM=xterm-256color COLORTERM=truecolor {command}; echo EXIT=$?; sleep 60"
        width, height = map(str, self._size)
        words = ["-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-c", str(self._folder), shell]
        self.tmux(*words)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def wait(self, text: str, seconds: float = 60) -> str:
        """Wait until a text is on the screen; returns the screen."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            screen = self.screen()
            if text in screen:
                return screen
            time.sleep(0.1)
        raise AssertionError(f"{text!r} did not appear:\n{self.screen()}")

    def keys(self, *names: str) -> None:
        self.tmux("send-keys", *names)

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture(params=[(120, 36), (80, 24)], ids=["120x36", "80x24"])
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, *request.param)
    yield terminal
    terminal.close()


def test_from_a_table_to_an_exported_bundle_with_keys_only(terminal: Terminal, tmp_path: Path) -> None:
    data = write_wine(tmp_path / "wine.csv")
    runs = tmp_path / "runs"
    terminal.run(str(data), "--budget", "12s", "--models", "lightgbm,mlp", "--runs-dir", str(runs))
    terminal.wait("wine.csv")
    terminal.wait("cultivar")
    terminal.wait("log loss")
    terminal.keys("C-r")
    terminal.wait("LightGBM")
    until = time.monotonic() + 60
    while list_runs(runs)[0].state().finished is None and time.monotonic() < until:
        time.sleep(0.2)
    terminal.keys("5")
    terminal.wait("proline")
    terminal.keys("e")
    terminal.wait("wine.tabapp")
    terminal.keys("Enter")
    until = time.monotonic() + 10
    while not (tmp_path / "wine.tabapp").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert (tmp_path / "wine.tabapp").exists()
    terminal.keys("q")
    terminal.wait("EXIT=0", 20)
    words = [sys.executable, "-m", "tabapp", "predict", "wine.tabapp", "wine.csv", "-o", "out.csv"]
    assert subprocess.run(words, cwd=tmp_path, timeout=60).returncode == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 179


def test_looking_and_leaving_is_no_failure_and_leaves_no_run(terminal: Terminal, tmp_path: Path) -> None:
    data = write_wine(tmp_path / "wine.csv")
    terminal.run(str(data), "--runs-dir", str(tmp_path / "runs"))
    terminal.wait("log loss")
    terminal.keys("q")
    terminal.wait("EXIT=0", 20)
    assert list_runs(tmp_path / "runs") == []
