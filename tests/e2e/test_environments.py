"""Replayed runs in terminals of several kinds; captures/ stores the expected screens as text, with numbers normalized."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tabapp.run.record.commands import Start
from tabapp.run.record.folder import RunFolder
from tests.e2e.terminal import PYTHON, TABAPP, Terminal, check_capture
from tests.recordings import events_of
from tests.recordings.replay import ReplayWorker, make_run
from tests.tables import write_wine
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
REPOSITORY = Path(__file__).parent.parent.parent
HUE = re.compile(r"\x1b\[[\d;]*[34]8;2;(\d+);(\d+);(\d+)")


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Opens terminals and closes them at teardown."""
    opened: list[Terminal] = []

    def open_one(width: int = 120, height: int = 36) -> Terminal:
        opened.append(Terminal(tmp_path, width, height))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()


@pytest.fixture
def finished(tmp_path: Path) -> RunFolder:
    """A recorded run that is finished."""
    folder = make_run(tmp_path / "runs", "cancer")
    ReplayWorker(folder, events_of("cancer")).play_all()
    return folder


@pytest.fixture
def active(tmp_path: Path) -> Iterator[RunFolder]:
    """A recorded run in the middle of its fits, locked by a worker that executes commands."""
    folder = make_run(tmp_path / "runs", "cancer")
    words = [sys.executable, "-m", "tests.recordings.replay", str(folder.path), "cancer", "--until", "trial.finished"]
    worker = subprocess.Popen(words, cwd=REPOSITORY)
    for reached, command in ((lambda: folder.state().stage == "ready", Start()), (lambda: folder.state().trials, None)):
        wait_until(lambda reached=reached: worker.poll() is not None or reached(), "the stage of the recording")
        assert worker.poll() is None
        if command is not None:
            folder.send(command)
    yield folder
    worker.kill()
    worker.wait()


def attach(folder: RunFolder) -> str:
    return f"{TABAPP} attach last --runs-dir {shlex.quote(str(folder.path.parent))}"


def test_screen_follows_terminal_resizes(open_terminal, active, tmp_path):
    terminal = open_terminal()
    terminal.start(attach(active), TEXTUAL_ANIMATIONS="none")
    terminal.wait("Leaderboard", "Resources", "MLP")
    for width, height, words in (
        (80, 24, ["Leaderboard", "MLP", "q Quit"]),
        (60, 16, ["Leaderboard", "MLP", "q Quit"]),
        (40, 10, ["cancer.csv", "%"]),
        (120, 36, ["Leaderboard", "Resources"]),
    ):
        terminal.resize(width, height)
        screen = terminal.wait(*words)
        lines = screen.splitlines()
        assert len(lines) <= height
        assert all(len(line) <= width for line in lines)
        check_capture(f"resized-{width}x{height}", terminal.still(), tmp_path)


def test_ctrl_c_asks_before_discarding(open_terminal, active):
    terminal = open_terminal()
    terminal.start(attach(active))
    terminal.wait("Leaderboard", "Linear model")
    terminal.keys("C-c")
    terminal.wait("Run in progress", "Keep running in the background", "Cancel")
    terminal.keys("Escape")
    terminal.until(lambda: "Run in progress" not in terminal.screen(), "the dialog to close")
    terminal.keys("C-c")
    terminal.wait("Discard and quit")
    terminal.keys("d")
    terminal.wait("EXIT=130")
    assert active.state().finished.status == "interrupted"


@pytest.mark.parametrize(
    ("name", "width", "height", "environment", "words"),
    [
        ("truecolor-120x36", 120, 36, {}, ["Leaderboard", "Ensemble", "Events"]),
        ("no-color", 120, 36, {"NO_COLOR": "1"}, ["Leaderboard", "Ensemble", "Events"]),
        ("term-linux", 80, 24, {"TERM": "linux", "COLORTERM": ""}, ["Leaderboard", "Ensemble", "q Quit"]),
        ("small-60x16", 60, 16, {}, ["Leaderboard", "Ensemble", "q Quit"]),
        ("tiny-40x10", 40, 10, {}, ["cancer.csv", "Ensemble"]),
    ],
)
def test_terminal_types(open_terminal, finished, tmp_path, name, width, height, environment, words):
    terminal = open_terminal(width, height)
    terminal.start(attach(finished), **environment)
    terminal.wait(*words)
    check_capture(name, terminal.still(), tmp_path)
    colored = terminal.screen(colors=True)
    if "NO_COLOR" in environment:
        assert all(len(set(hue)) == 1 for hue in HUE.findall(colored)), "grays only"
        # Shades of gray are written as three equal shares.
        shades = re.sub(r"[34]8;2;(\d+);\1;\1", "", colored)
        assert not re.search(r"\x1b\[[\d;]*\b(3|9)[1-6]m|[34]8;2;", shades)
    elif environment.get("TERM") == "linux":
        assert not re.search(r"[34]8;[25];", colored), "sixteen colors only"
        assert re.search(r"\x1b\[(?:[\d;]*;)?7(?:;[\d;]*)?m", colored), "the cursor row is reversed"
    else:
        assert any(len(set(hue)) > 1 for hue in HUE.findall(colored)), "colors are present without NO_COLOR"
    terminal.keys("q")
    screen = terminal.wait("EXIT=0")
    assert "Traceback" not in screen


def test_screen_uses_stderr_when_stdout_is_a_pipe(open_terminal, finished):
    terminal = open_terminal()
    terminal.start(f"{attach(finished)} | cat > summary.txt; cat summary.txt")
    terminal.wait("Leaderboard", "Ensemble")
    terminal.keys("q")
    screen = terminal.wait("EXIT=0")
    assert "Ensemble of 3: ROC AUC" in screen
    assert "\x1b" not in (finished.path.parent.parent / "summary.txt").read_text()


def test_dumb_terminal_gets_plain_lines(open_terminal, finished, tmp_path):
    terminal = open_terminal(100, 50)
    terminal.start(attach(finished), TERM="dumb")
    terminal.wait("EXIT=0")
    check_capture("dumb-attach", terminal.still(), tmp_path)


@pytest.mark.parametrize(
    ("name", "command", "environment"),
    [
        pytest.param("no-stdin", "{tabapp} {data} {options} < /dev/null", {}, marks=pytest.mark.slow),
        pytest.param("dumb", "{tabapp} {data} {options}", {"TERM": "dumb"}, marks=pytest.mark.slow),
        ("piped", "cat {data} | setsid -w {tabapp} - {options}", {}),
    ],
    ids=["no-stdin", "dumb", "piped"],
)
def test_run_without_a_usable_terminal_is_headless(open_terminal, tmp_path, name, command, environment):
    """No stdin, a dumb terminal, and piped data without a controlling terminal: the run reports that there is no screen and
    completes."""
    data = write_wine(tmp_path / "wine.csv")
    options = "--models linear --trials 1 --validation holdout --budget 60s --runs-dir runs"
    terminal = open_terminal(100, 60)
    terminal.start(command.format(tabapp=TABAPP, data=data, options=options), **environment)
    screen = terminal.wait("EXIT=0")
    assert "No terminal to draw on" in screen
    assert "Use it  tabapp predict" in screen
    if name == "dumb":
        assert "\x1b" not in terminal.screen(colors=True)
    # The order of unimportant features differs between machines.
    check_capture(f"headless-{name}", terminal.still().partition("Importances")[0], tmp_path)


def test_piped_table_leaves_keys_to_the_terminal(open_terminal, tmp_path):
    data = write_wine(tmp_path / "wine.csv")
    options = "--models linear --trials 1 --validation holdout --budget 60s --runs-dir runs"
    terminal = open_terminal()
    terminal.start(f"cat {data} | {TABAPP} - {options}; stty -a")
    terminal.wait("stdin.csv", "178 rows", "cultivar", "ctrl+r starts")
    terminal.keys("t")
    terminal.wait("Target: the column to predict")
    terminal.keys("Escape")
    terminal.until(lambda: "Target: the column" not in terminal.screen(), "the dialog to close")
    terminal.keys("C-r")
    terminal.wait("Ensemble", "✓ done in")
    terminal.keys("q")
    screen = terminal.wait("EXIT=0")
    assert "Ensemble (best single)" in screen
    assert " echo " in screen
    assert " icanon " in screen


def test_crash_with_a_piped_table_restores_the_terminal(open_terminal, tmp_path):
    """The injected fault is an action of the Data screen that divides by zero."""
    data = write_wine(tmp_path / "wine.csv")
    faulty = (
        "import sys; from tabapp.cli.main import run_command_line; from tabapp.tui.screens.data import DataView; "
        "DataView.action_edit = lambda self, name: 1 / 0; sys.exit(run_command_line(sys.argv[1:]))"
    )
    terminal = open_terminal()
    words = f"{PYTHON} -c {shlex.quote(faulty)} - --models linear --runs-dir runs"
    terminal.start(f"cat {data} | {words} || echo CODE=$?; stty -a; ls")
    terminal.wait("stdin.csv", "ctrl+r starts")
    terminal.keys("t")
    screen = terminal.wait("CODE=1", "EXIT=0")
    assert "Traceback" not in screen
    assert "1 / 0" not in screen
    assert " echo " in screen
    assert " icanon " in screen
