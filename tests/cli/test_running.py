"""Output and run folders after the screen closes."""

from pathlib import Path

import pytest

from tabapp.cli.commands import run as running
from tabapp.cli.commands.run import _screen
from tabapp.cli.main import run_command_line
from tabapp.errors import UsageError
from tabapp.run.record.folder import list_runs
from tabapp.tui import browse
from tabapp.tui.browse import Shown
from tests.cli.tables import write_tables
from tests.tui import recordings

USAGE, DATA = 2, 3


def leave(monkeypatch: pytest.MonkeyPatch, *shown: Shown) -> int:
    monkeypatch.setattr(browse, "show_runs", lambda *_, **__: list(shown))
    return _screen(shown[0].folder, shown[0].folder.path.parent, start_engine=shown[0].start_engine)


def test_summary_is_of_the_last_run_shown(tmp_path: Path, monkeypatch, capsys) -> None:
    first, last = recordings.make_run(tmp_path), recordings.make_run(tmp_path)
    recordings.Recorder(first).write(*recordings.running())
    recordings.Recorder(last).write(*recordings.finished())
    assert leave(monkeypatch, Shown(first, False, 0), Shown(last, False, 0)) == 0
    assert "shows it" not in capsys.readouterr().out
    assert leave(monkeypatch, Shown(last, False, 0), Shown(first, False, 1)) == 1
    assert f"resume {first.argument}` shows it" in capsys.readouterr().out


def test_unstarted_run_is_deleted_and_the_run_opened_from_it_is_kept(tmp_path: Path, monkeypatch, capsys) -> None:
    unstarted, opened = recordings.make_run(tmp_path), recordings.make_run(tmp_path)
    recordings.Recorder(unstarted).write(*recordings.opening())
    recordings.Recorder(opened).write(*recordings.finished())
    assert leave(monkeypatch, Shown(unstarted, True, 0), Shown(opened, False, 0)) == 0
    assert not unstarted.path.exists()
    assert "Ensemble: ROC AUC" in capsys.readouterr().out
    assert opened.events.exists()


def test_leaving_before_the_start_prints_nothing(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = recordings.make_run(tmp_path)
    recordings.Recorder(folder).write(*recordings.opening())
    assert leave(monkeypatch, Shown(folder, True, 0)) == 0
    assert capsys.readouterr().out == ""
    assert not folder.path.exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--metric", "rocauc"], USAGE, "rocauc"),
        (["--target", "no-such-column"], DATA, "no-such-column"),
    ],
)
def test_a_misspelled_option_leaves_no_run(tmp_path: Path, capfd, words: list[str], code: int, sentence: str) -> None:
    write_tables(tmp_path)
    place = tmp_path / "runs"
    assert run_command_line(["--auto", str(tmp_path / "shop.csv"), *words, "--runs-dir", str(place), "-q"]) == code
    assert sentence in capfd.readouterr().err
    assert list_runs(place) == []


@pytest.mark.parametrize("words", [["--validation", "holdout"], ["--time", "joined"]])
def test_folds_without_cross_validation_are_rejected(tmp_path: Path, monkeypatch, capsys, words: list[str]) -> None:
    def create(*_: object) -> None:
        raise UsageError("A run would be created.")

    write_tables(tmp_path)
    monkeypatch.setattr(running, "create_run", create)
    arguments = ["--auto", str(tmp_path / "shop.csv"), *words]
    assert run_command_line([*arguments, "--folds", "5"]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert words[0] in line
    assert "no --folds. Remove one of them." in line
    config = tmp_path / "config.toml"
    config.write_text("[run]\nfolds = 5\n")
    monkeypatch.setenv("TABAPP_CONFIG", str(config))
    run_command_line(arguments)
    assert "A run would be created." in capsys.readouterr().err
