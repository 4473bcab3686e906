"""How runs end and how their progress is shown. A scripted process stands in for the engine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import pytest

import tabapp
from tabapp.api import progress as progress_module
from tabapp.api.fitting import follow
from tabapp.api.progress import NotebookView, PlainLines, Silent, TerminalView, view_for
from tabapp.headless import follow as follow_module
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.reducing.reduce import replay
from tests.headless.test_follow import PRELUDE
from tests.run.recording import recorded, write_run


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    """A run that has not begun."""
    made = write_run(tmp_path)
    made.events.unlink()
    return made


@pytest.fixture
def engine(monkeypatch):
    """Makes a script the engine of the next run."""
    started: list[subprocess.Popen[bytes]] = []

    def use(script: str) -> list[subprocess.Popen[bytes]]:
        def start(folder: RunFolder) -> subprocess.Popen[bytes]:
            started.append(subprocess.Popen([sys.executable, "-c", PRELUDE + script, str(folder.path)]))
            return started[-1]

        monkeypatch.setattr(follow_module, "start_engine", start)
        return started

    yield use
    for process in started:
        process.kill()
        process.wait()


def test_a_run_that_ends_with_a_bundle_is_returned(folder, engine):
    engine("log.append(finished(folder.run, bundle='model.tabapp'))")
    assert follow(folder, Silent(folder.argument)) == tabapp.Run(folder)


def test_without_progress_the_warnings_of_the_table_are_warnings_of_python(folder, engine):
    engine("for event in recorded(folder.run)[:-1]: log.append(event)\nlog.append(finished(folder.run, bundle='m'))")
    with pytest.warns(tabapp.TableWarning, match=r"^bought: It is rare → kept\.$") as caught:
        run = follow(folder, Silent(folder.argument))
    assert caught[0].filename == __file__
    assert [warning.column for warning in run.warnings] == ["bought"]


def test_commands_name_the_path_of_a_run_outside_the_default_folder(folder, engine):
    engine("for event in recorded(folder.run)[:-1]: log.append(event)\nlog.append(finished(folder.run, bundle='m'))")
    with pytest.warns(tabapp.TableWarning):
        run = follow(folder, Silent(folder.argument))
    with pytest.raises(tabapp.UsageError, match=f"`tabapp diagnose {re.escape(str(folder.path))} --attention node`"):
        run.attention("node")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (1, tabapp.TabappError),
        (2, tabapp.UsageError),
        (3, tabapp.DataError),
        (4, tabapp.BudgetError),
        (5, tabapp.BundleError),
        (130, tabapp.TabappError),
    ],
)
def test_a_run_that_ends_without_a_bundle_raises_its_error(folder, engine, code, error):
    engine(f"log.append(finished(folder.run, status='failed', exit_code={code}, message='Choose another table.'))")
    with pytest.raises(tabapp.TabappError) as raised:
        follow(folder, Silent(folder.argument))
    assert type(raised.value) is error
    assert str(raised.value) == "Choose another table."


def test_an_engine_that_dies_is_an_error_that_says_how(folder, engine):
    engine("os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(tabapp.TabappError, match="was killed by SIGKILL"):
        follow(folder, Silent(folder.argument))


WAITS = """
commands = CommandReader(folder.commands, resumed=False)
(folder.path / "ready").touch()
while not commands.read_new(): time.sleep(0.01)
"""


def press_ctrl_c(folder: RunFolder, times: int) -> threading.Thread:
    """Send interrupts to this process once the engine is ready, the second after the first has reached the engine."""

    def press() -> None:
        while not (folder.path / "ready").exists():
            time.sleep(0.01)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            while not folder.commands.exists():
                time.sleep(0.01)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_ctrl_c_finishes_with_the_best_so_far(folder, engine, capsys):
    before = signal.getsignal(signal.SIGINT)
    engine(WAITS + "log.append(finished(folder.run, status='interrupted', bundle='model.tabapp', exit_code=130))")
    thread = press_ctrl_c(folder, 1)
    assert follow(folder, Silent(folder.argument)).status == "interrupted"
    thread.join()
    assert "Ctrl+C again stops at once" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_pressed_twice_stops_the_engine(folder, engine):
    started = engine(WAITS + "time.sleep(600)")
    thread = press_ctrl_c(folder, 2)
    with pytest.raises(KeyboardInterrupt):
        follow(folder, Silent(folder.argument))
    thread.join()
    (process,) = started
    assert process.wait(10) == -signal.SIGKILL


def test_a_run_may_be_followed_in_another_thread(folder, engine):
    engine("log.append(finished(folder.run, bundle='model.tabapp'))")
    found: list[tabapp.Run] = []
    thread = threading.Thread(target=lambda: found.append(follow(folder, Silent(folder.argument))))
    thread.start()
    thread.join()
    assert found == [tabapp.Run(folder)]


def test_an_engine_whose_view_fails_is_stopped(folder, engine):
    class Broken(Silent):
        def tick(self, state: object) -> None:
            raise RuntimeError("the view is broken")

    started = engine(WAITS)
    with pytest.raises(RuntimeError, match="the view is broken"):
        follow(folder, Broken(folder.argument))
    assert started[0].wait(10) == -signal.SIGTERM


def test_progress_is_shown_where_somebody_sees_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False))
    assert isinstance(view_for("shop", "auto"), Silent)
    assert isinstance(view_for("shop", True), PlainLines)
    assert isinstance(view_for("shop", False), Silent)


def test_progress_in_a_terminal_leaves_one_line(folder, engine, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    view = view_for("shop", "auto")
    assert isinstance(view, TerminalView)
    engine("for event in recorded(folder.run): log.append(event)")
    with pytest.raises(tabapp.TabappError):
        follow(folder, view)
    out, err = capsys.readouterr()
    assert out == ""
    assert "tabapp: Ensemble: ROC AUC 0.9100 (0.9000 … 0.9200), 5-fold stratified cross-validation, 12s." in err


def test_progress_in_a_notebook_is_drawn_in_place(monkeypatch):
    drawn: list[tuple[str, dict[str, str]]] = []

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> SimpleNamespace:
        assert raw
        assert display_id
        drawn.append(("new", content))
        return SimpleNamespace(update=lambda content, raw: drawn.append(("update", content)))

    ipython, submodule = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    submodule.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", submodule)
    view = view_for("shop", "auto")
    assert isinstance(view, NotebookView)
    state = replay(recorded("shop"))  # type: ignore[arg-type]
    view.tick(state)
    view.close(state)
    assert [kind for kind, _ in drawn] == ["new", "update"]
    assert "LightGBM" in drawn[-1][1]["text/plain"]
    assert drawn[-1][1]["text/html"].startswith("<pre>")
    assert "⚠" not in drawn[-1][1]["text/plain"]
    for event in recorded("shop"):
        view.show(event, state)  # type: ignore[arg-type]
    view.close(state)
    assert "⚠ bought: It is rare → kept" in drawn[-1][1]["text/plain"]
    ipython.get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]
    assert progress_module._notebook_display() is None, "IPython in a terminal is no notebook"
