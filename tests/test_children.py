"""Nothing in the working directory is executed, by no command and no view: files next to the user's table are data."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tabapp import children
from tabapp.children import module_command
from tabapp.cli.main import COMMANDS
from tabapp.errors import ExitCode
from tabapp.run.options.config import RunConfig
from tests.run.recording import write_run
from tests.tables import write_wine
from tests.waiting import HANG_SECONDS

PLANTED = (
    "aiohttp", "catboost", "click", "csv", "joblib", "json", "lightgbm", "msgspec", "numpy", "optuna", "pandas", "polars", "psutil",
    "random", "rich", "safetensors", "scipy", "sklearn", "sqlalchemy", "starlette", "statistics", "tabapp", "tabapp_plugins",
    "textual", "textual_serve", "torch", "uvicorn", "xgboost",
)  # fmt: skip
RUN = ["wine.csv", "--auto", "--models", "linear", "--trials", "1", "--folds", "2", "--out", "wine.tabapp"]
EVERY_COMMAND: dict[str, list[str]] = {
    "run": ["run", *RUN],
    "predict": ["predict", "wine.tabapp", "wine.csv", "-o", "predicted.csv"],
    "evaluate": ["evaluate", "wine.tabapp", "wine.csv"],
    "explain": ["explain", "wine.tabapp", "wine.csv"],
    "impute": ["impute", "wine.csv", "-o", "imputed.csv", "--model", "wine.tabapp"],
    "inspect": ["inspect", "wine.tabapp"],
    "runs": ["runs"],
    "attach": ["attach", "last", "--plain"],
    "resume": ["resume", "last", "--plain"],
    "export": ["export", "last", "-o", "exported.tabapp"],
    "report": ["report", "last", "-o", "report.html"],
    "compare": ["compare", "last", "last"],
    "diagnose": ["diagnose", "last"],
    "monitor": ["monitor", "wine.tabapp", "wine.csv", "-o", "drift.html"],
    "update": ["update", "wine.tabapp", "wine.csv"],
    "models": ["models"],
    "weights": ["weights"],
    "profile": ["profile", "wine.csv"],
    "config": ["config", "show"],
    "info": ["info"],
    "completion": ["completion", "bash"],
    "serve": ["serve", "wine.tabapp", "--port"],
}
COMMANDS_SCRIPT = """
import contextlib, json, os, signal, socket, sys, threading, time
from tabapp.cli.main import run_command_line

def stop_server(port):
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            os.kill(os.getpid(), signal.SIGTERM)
            return
        time.sleep(0.05)

codes = {}
for words in json.loads(sys.argv[1]):
    if words[0] == "serve":
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words.append(str(port))
        threading.Thread(target=stop_server, args=(port,), daemon=True).start()
    codes[words[0]] = run_command_line(words)
print(json.dumps(codes))
"""
SCREENS_SCRIPT = """
import asyncio, time
from pathlib import Path
from tabapp.run.record.folder import default_runs_dir, find_run
from tabapp.tui.app import AttachedApp
from tabapp.tui.chrome.actions import TABS
from tabapp.tui.screens.whole_table import WholeTable

async def look():
    app = AttachedApp(find_run("a1b2", default_runs_dir()), runs_dir=default_runs_dir())
    async with app.run_test(size=(120, 36)) as pilot:
        for key in [*(digit for digit, _, _ in TABS), "question_mark", "escape", "2", "a"]:
            await pilot.press(key)
            await pilot.pause()
        while not isinstance(app.screen, WholeTable):
            await asyncio.sleep(0.05)
        # The pager process reads a row far below those of the preview.
        print(await app.screen._rows.text(177, 0))

asyncio.run(look())
"""


def plant(folder: Path) -> None:
    """Files named like modules; each leaves a trace when it is executed."""
    for name in PLANTED:
        trace = f"open({str(folder / f'{name}.executed')!r}, 'w')"
        (folder / f"{name}.py").write_text(f"{trace}\nraise SystemExit({name!r} + ' was executed')\n")


def executed(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.executed"))


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    plant(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a table and planted files."""
    folder = tmp_path_factory.mktemp("project")
    write_wine(folder / "wine.csv")
    plant(folder)
    return folder


def run_script(folder: Path, script: str, *arguments: str) -> str:
    """Run a script in a folder with the path of the installed program, which lacks the working directory; returns its output."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *arguments],
        cwd=folder,
        env={**os.environ, "TABAPP_RUNS_DIR": str(folder / "runs"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_planted_files_run_in_a_process_that_is_not_protected(planted: Path):
    for name in ("random", "torch"):
        subprocess.run([sys.executable, "-c", f"import {name}"], cwd=planted, capture_output=True, check=False)
    assert executed(planted) == ["random", "torch"]


@pytest.mark.slow
def test_no_command_executes_a_file_of_the_working_directory(project: Path):
    assert set(EVERY_COMMAND) == set(COMMANDS)
    codes = json.loads(run_script(project, COMMANDS_SCRIPT, json.dumps(list(EVERY_COMMAND.values()))).splitlines()[-1])
    # The run is complete, its bundle has no model that imputes, and there are no new rows.
    failing = {"resume": ExitCode.USAGE, "impute": ExitCode.USAGE, "update": ExitCode.DATA}
    assert codes == {name: failing.get(name, ExitCode.OK) for name in COMMANDS}
    assert (project / "predicted.csv").exists()
    assert executed(project) == []


@pytest.mark.slow
def test_no_screen_executes_a_file_of_the_working_directory(project: Path):
    write_run(project / "runs", config=RunConfig(data=str(project / "wine.csv")))
    last_row = (project / "wine.csv").read_text().splitlines()[178]
    assert run_script(project, SCREENS_SCRIPT).strip() == last_row.partition(",")[0]
    assert executed(project) == []


FIT_SCRIPT = """
from tabapp.engine.fit.servers import SERVERS, FitProcess
SERVERS["torch"]._server.set_forkserver_preload([])
process = FitProcess("torch", exec, ("import importlib.util; print(importlib.util.find_spec('torch').origin, flush=True)",))
process.start()
process.join()
"""


def test_a_fit_finds_the_installed_torch(planted: Path):
    found = run_script(planted, FIT_SCRIPT).strip()
    assert found.endswith("torch/__init__.py")
    assert not found.startswith(str(planted))
    assert executed(planted) == []


@pytest.mark.slow
def test_no_fit_server_executes_a_file_of_the_working_directory(planted: Path):
    script = "from tabapp.engine.fit.servers import SERVERS; print(SERVERS['torch'].wait())"
    assert run_script(planted, script).split() == ["True"]
    assert executed(planted) == []


def started_modules() -> list[str]:
    """The modules that tabapp starts as processes."""
    root = Path(children.__file__).parent
    found: list[str] = []
    for path in root.rglob("*.py"):
        own = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        for named in re.findall(r'(?:module_command\(\s*|MODULE = )("[\w.]+"|__name__)', path.read_text()):
            found.append(own if named == "__name__" else named.strip('"'))
    return found


@pytest.mark.parametrize("module", started_modules())
def test_no_child_process_executes_a_file_of_the_working_directory(planted: Path, module: str):
    done = subprocess.run(
        module_command(module),
        cwd=planted,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert "No module named" not in done.stderr
    assert executed(planted) == []


def test_the_modules_of_child_processes_are_found():
    assert {
        "tabapp.processes.engine",
        "tabapp.processes.pager",
        "tabapp.processes.explainer",
        "tabapp.bundle.confined.box_child",
    } <= set(started_modules())


def test_a_child_process_keeps_the_working_directory_off_the_path(planted: Path):
    command = module_command("timeit", "-n1", "-r1")
    done = subprocess.run(command, cwd=planted, capture_output=True, text=True, check=True)
    assert "loop" in done.stdout
    assert executed(planted) == []


def test_every_child_process_is_started_by_module_command():
    sources = Path(children.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if re.search(r'sys.executable,\s*"-', path.read_text())] == ["children.py"]


@pytest.mark.slow
def test_no_fit_of_a_network_executes_a_file_of_the_working_directory(planted: Path):
    write_wine(planted / "wine.csv")
    words = ["run", "wine.csv", "--auto", "--models", "lightgbm,mlp", "--trials", "1", "--out", "wine.tabapp"]
    predict = ["predict", "wine.tabapp", "wine.csv", "-o", "out.csv"]
    impute = ["impute", "wine.csv", "-o", "imputed.csv", "--budget", "1s"]
    codes = json.loads(run_script(planted, COMMANDS_SCRIPT, json.dumps([words, predict, impute])).splitlines()[-1])
    assert codes == {"run": 0, "predict": 0, "impute": 0}
    assert executed(planted) == []


def test_descendants_are_children_and_their_children() -> None:
    inner = "import sys; print(flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        expected = {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
        found = children.descendants(os.getpid())
        # None where the system does not list children.
        assert found is None or {process.pid, *expected} <= set(found)
        assert len(expected) == 1
        process.stdin.close()
    assert children.descendants(process.pid) is None
