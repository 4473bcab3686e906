"""`tabapp runs`, and the runs that `attach` and `resume` choose without an argument."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tabapp.cli.main import run_command_line
from tabapp.errors import ExitCode
from tabapp.run.record.labels import FILE, RunLabels, save_labels
from tests.run.recording import write_run


class Terminal:
    """Standard output that claims to be a terminal of some columns."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.fixture
def runs_dir(tmp_path, monkeypatch):
    """Two runs, of which the older one is named and tagged."""
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "runs"))
    old = write_run(tmp_path / "runs", "20260101-030405-shop-aaaa")
    write_run(tmp_path / "runs", "20260102-030405-shop-bbbb")
    save_labels(old.path, RunLabels(name="long shot", tags=("trees",), note="kept"))
    return tmp_path / "runs"


def on_terminal(monkeypatch, columns: int) -> list[str]:
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        assert run_command_line(["runs"]) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.text).splitlines()


def test_a_narrow_terminal_keeps_name_file_target_best_and_date(runs_dir, monkeypatch):
    lines = on_terminal(monkeypatch, 80)
    assert all(len(line) <= 80 for line in lines)
    (named,) = [line for line in lines if "long shot" in line]
    (other,) = [line for line in lines if "shop-bbbb" in line]
    for line in (named, other):
        assert "shop.csv" in line
        assert "bought" in line
        assert "0.9100" in line
        assert "20" in line.split("0.9100")[1], "the date"
    assert not any("20260101-030405" in line for line in lines), "no room for the whole id, and no part of it wraps"


def test_a_wide_terminal_has_tags_and_whole_ids_on_one_line(runs_dir, monkeypatch):
    lines = on_terminal(monkeypatch, 160)
    (named,) = [line for line in lines if "20260101-030405-shop-aaaa" in line]
    assert "long shot" in named
    assert "#trees" in named


def test_labels_are_in_the_list_for_programs_and_pinned_runs_come_first(runs_dir, capsys):
    save_labels(runs_dir / "20260101-030405-shop-aaaa", RunLabels(pinned=True, tags=("trees",), note="kept"))
    assert run_command_line(["runs", "--json"]) == 0
    new, old = json.loads(capsys.readouterr().out)
    assert (old["tags"], old["note"], old["pinned"]) == (["trees"], "kept", True)
    assert (new["tags"], new["note"], new["pinned"]) == ([], None, False)
    assert run_command_line(["runs"]) == 0
    header, first, _ = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["name", "status"]
    assert first.startswith("* shop-aaaa")


def test_labels_that_cannot_be_read_are_named_on_stderr(runs_dir, capsys):
    (runs_dir / "20260101-030405-shop-aaaa" / FILE).write_text('{"pined": true}')
    assert run_command_line(["runs"]) == 0
    out, err = capsys.readouterr()
    assert "did you mean 'pinned'?" in err
    assert "shop-aaaa" in out


def test_attach_and_resume_without_an_argument_take_the_newest_run(runs_dir, capsys):
    assert run_command_line(["attach", "--json"]) == 0
    assert '"run":"20260102-030405-shop-bbbb"' in capsys.readouterr().out
    assert run_command_line(["resume"]) == ExitCode.USAGE
    assert "The run 20260102-030405-shop-bbbb is complete" in capsys.readouterr().err


def test_resuming_a_run_that_is_analyzed_says_that_it_has_ended(runs_dir, capsys):
    from tabapp.run.record.folder import RunFolder

    with RunFolder(runs_dir / "20260102-030405-shop-bbbb").lock():
        assert run_command_line(["resume", "last", "--budget", "5m"]) == ExitCode.USAGE
        said = capsys.readouterr().err
        assert "has ended, and another process is analyzing it" in said
        assert "is running in another process" not in said
        assert run_command_line(["runs", "--json"]) == 0
        assert [run["status"] for run in json.loads(capsys.readouterr().out)] == ["ok", "ok"]


def test_commands_in_sentences_name_another_folder_of_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "elsewhere"))
    place = tmp_path / "my runs"
    assert run_command_line(["attach", "--runs-dir", str(place)]) == ExitCode.USAGE
    assert f"Start one with `tabapp DATA --runs-dir '{place}'`." in capsys.readouterr().err
    write_run(place)
    assert run_command_line(["attach", "zzz", "--runs-dir", str(place)]) == ExitCode.USAGE
    assert f"`tabapp runs --runs-dir '{place}'` lists them." in capsys.readouterr().err


def test_without_arguments_a_terminal_shows_the_front_door(runs_dir, monkeypatch, capsys):
    from tabapp.cli import main
    from tabapp.cli.commands import run as running
    from tabapp.tui import browse

    shown: list[object] = []
    monkeypatch.setattr(browse, "show_door", lambda runs_dir, settings: shown.append(runs_dir) or [])
    assert run_command_line([]) == 0
    assert "Usage: tabapp" in capsys.readouterr().out
    assert shown == [], "no terminal, no door"
    for module in (main, running):
        monkeypatch.setattr(module, "is_interactive", lambda: True)
    assert run_command_line([]) == 0
    assert run_command_line(["--runs-dir", "elsewhere"]) == 0
    assert [path.name for path in shown] == ["runs", "elsewhere"]
    assert capsys.readouterr().out == ""
    assert run_command_line(["--budget", "2m"]) == ExitCode.USAGE
    assert "Missing argument" in capsys.readouterr().err
