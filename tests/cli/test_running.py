"""Output and run folders after the screen closes."""

from pathlib import Path

import pytest

from tabapp.cli.run import _screen
from tabapp.tui import browse
from tabapp.tui.browse import Shown
from tests.tui import recordings


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
