"""Commands in odd environments: no home folder, a strict umask, folders that are gone or may not be written."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tabapp
from tabapp import plugin_files, user_folders
from tabapp.cli import main
from tabapp.cli.main import run_command_line
from tabapp.run.options.settings import Settings, load_settings, settings_file
from tabapp.run.record.folder import default_runs_dir
from tabapp.tui.chrome.clipboard import copies_file
from tabapp.tui.viewmodels.texts import short_path
from tests.cli.tables import HEADER, rows, write
from tests.waiting import HANG_SECONDS

PLACES = (
    "HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "TABAPP_CONFIG",
    "TABAPP_PLUGINS_DIR",
    "TABAPP_RUNS_DIR",
)
NO_ENTRY = """
import pwd

def getpwuid(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")

pwd.getpwuid = getpwuid
"""


def no_entry(uid: int) -> None:
    raise KeyError(uid)


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of a user who has no home folder and no entry in /etc/passwd."""
    for name in PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", no_entry)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_user_without_a_home_folder_has_defaults(homeless):
    assert load_settings() == Settings()
    assert not settings_file().exists()
    assert plugin_files._files.__wrapped__() == {}  # pyright: ignore[reportFunctionMemberAccess]
    assert default_runs_dir() == homeless / "tabapp-runs"
    assert not copies_file().exists()
    assert short_path(homeless / "a.csv") == "a.csv"
    assert short_path(Path("/a/b.csv")) == "/a/b.csv"


def test_a_home_folder_that_platformdirs_does_not_find_is_none(homeless, monkeypatch):
    """Earlier versions return the tilde as it is, and a folder of this name would be created."""
    monkeypatch.setattr("platformdirs.user_data_path", lambda name: Path("~/.local/share") / name)
    assert user_folders.data_folder() == user_folders.NOWHERE


@pytest.mark.parametrize("words", [["runs"], ["config"], ["config", "validate"], ["info"], ["models"]], ids=" ".join)
def test_commands_of_a_user_without_a_home_folder(homeless, capsys, words):
    assert run_command_line(words) == 0, capsys.readouterr().err
    assert list(homeless.iterdir()) == []


@pytest.mark.slow
def test_a_run_and_its_predictions_in_an_odd_environment(tmp_path):
    """In the child processes, too: the one that loads a bundle reads the plugin folder."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(NO_ENTRY)
    write(tmp_path / "shop.csv", HEADER, rows())
    env = {name: value for name, value in os.environ.items() if name not in (*PLACES, "USER", "LOGNAME", "TERM")}
    env |= {"PYTHONPATH": str(tmp_path / "site"), "TMPDIR": str(tmp_path / "gone"), "COLUMNS": "0", "TZ": "No/Where"}
    env |= {"LC_ALL": "xx_YY.nothing"}
    tabapp = f"{shlex.quote(sys.executable)} -P -m tabapp"
    options = "--models linear --trials 1 --folds 2 --plain --out m.tabapp"
    command = (
        f"umask 777; {tabapp} --auto shop.csv {options} && {tabapp} predict m.tabapp shop.csv -o p.csv && {tabapp} runs"
    )
    words = ["bash", "-c", command]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 61
    assert sorted(os.listdir(tmp_path)) == ["m.tabapp", "p.csv", "shop.csv", "site", "tabapp-runs"]


@pytest.mark.parametrize("home", ["a file", "missing"])
def test_a_home_folder_that_is_none(tmp_path, monkeypatch, capsys, home):
    (tmp_path / "a file").touch()
    for name in PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / home))
    assert load_settings() == Settings()
    assert run_command_line(["runs"]) == 0
    (tmp_path / "missing").touch()
    write(tmp_path / "shop.csv", HEADER, rows())
    assert run_command_line(["--auto", str(tmp_path / "shop.csv")]) == 2
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert sentence.endswith("Not a directory. Choose another folder with --runs-dir or TABAPP_RUNS_DIR.")


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    write(tmp_path / "shop.csv", HEADER, rows())
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run_command_line(["profile", str(tmp_path / "shop.csv")]) == 0
    assert run_command_line(["--auto", str(tmp_path / "shop.csv"), "--runs-dir", "runs"]) == 1
    sentence = "tabapp: The working directory no longer exists. Change to another one.\n"
    assert capsys.readouterr().err.endswith(sentence)


def test_no_folder_for_temporary_files(monkeypatch, capsys):
    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.gettempdir", gettempdir)
    monkeypatch.setattr(main.group, "main", lambda *_, **__: gettempdir())
    assert run_command_line(["runs"]) == 1
    assert capsys.readouterr().err == "tabapp: No folder for temporary files can be written. Set TMPDIR to one.\n"


def test_only_one_module_asks_for_folders_of_the_user() -> None:
    """platformdirs raises for a user without a home folder."""
    root = Path(tabapp.__file__).parent
    asking = {path.name for path in root.rglob("*.py") if "from platformdirs" in path.read_text()}
    assert asking == {"user_folders.py"}
