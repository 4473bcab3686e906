"""Nothing in the working directory is executed: files next to the user's table are data."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tabapp import children
from tabapp.children import module_command
from tests.tables import write_wine

PLANTED = (
    "catboost",
    "joblib",
    "lightgbm",
    "msgspec",
    "numpy",
    "optuna",
    "polars",
    "psutil",
    "random",
    "sklearn",
    "torch",
    "xgboost",
)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a table and, next to it, files named like modules; each leaves a trace when executed."""
    write_wine(tmp_path / "wine.csv")
    for name in PLANTED:
        trace = f"open({str(tmp_path / f'{name}.executed')!r}, 'w')"
        (tmp_path / f"{name}.py").write_text(f"{trace}\nraise SystemExit({name!r} + ' was executed')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def executed(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.executed"))


def test_the_planted_files_run_in_a_process_that_is_not_protected(planted: Path):
    subprocess.run([sys.executable, "-c", "import random"], capture_output=True, check=False)
    assert executed(planted) == ["random"]


def test_a_run_and_a_prediction_execute_nothing_of_the_working_directory(planted: Path):
    program = [str(Path(sys.executable).with_name("python")), "-P", "-m", "tabapp"]
    words = [
        "--auto",
        "wine.csv",
        "--models",
        "lightgbm,mlp",
        "--trials",
        "1",
        "--runs-dir",
        "runs",
        "--out",
        "wine.tabapp",
    ]
    done = subprocess.run([*program, *words], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([*program, "predict", "wine.tabapp", "wine.csv"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert executed(planted) == []


def test_a_child_process_keeps_the_working_directory_off_the_path(planted: Path):
    done = subprocess.run(module_command("timeit", "-n1", "-r1"), capture_output=True, text=True, check=True)
    assert "loop" in done.stdout
    assert executed(planted) == []


def test_every_child_process_is_started_by_module_command():
    sources = Path(children.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if re.search(r'sys.executable,\s*"-', path.read_text())] == ["children.py"]
