"""Leaving the app: before, during and after a run."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.run.record import events as ev
from tabapp.tui.dialogs.basic import Decision
from tabapp.tui.screens.run import RunningView
from tests.tui import recordings
from tests.tui.driver import NARROW, drive


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_a_program_that_reads_a_file_is_left_at_once(tmp_path, monkeypatch, key):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2]) as driver:
        await driver.press(key)
        await driver.until(lambda: not driver.app.is_running)


async def test_the_command_in_the_quit_dialog_names_another_folder_of_runs(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("q")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        shown = " ".join(driver.text().split())
        assert f"tabapp attach {driver.folder.short_id} --runs-dir" in shown
        await driver.press("escape")
        monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path))
        await driver.press("q")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        assert "--runs-dir" not in driver.text()


@pytest.mark.parametrize(
    ("key", "commands", "exit_code"), [("b", [], 0), ("d", ["abort"], 130), ("f", ["finish"], 0), ("escape", [], None)]
)
async def test_quitting_a_run_in_progress_asks_what_to_do(tmp_path, monkeypatch, key, commands, exit_code):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("q")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.sees("Run in progress", "62%", "best 0.8829", "~45s left", "tabapp attach titanic-")
        await driver.press(key)
        await driver.until(lambda: [command["command"] for command in driver.commands()] == commands)
        if key == "f":
            assert driver.app.is_running
            await driver.write(recordings.finished()[-1])
        if exit_code is None:
            await driver.until(lambda: isinstance(driver.app.screen, RunningView))
            assert driver.app.is_running
        else:
            await driver.until(lambda: not driver.app.is_running)
            assert driver.app.exit_code == exit_code


async def test_arrow_keys_choose_in_the_dialog(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True, size=NARROW) as driver:
        await driver.press("q", "down", "enter")
        assert [command["command"] for command in driver.commands()] == ["finish"]


async def test_the_question_is_up_to_date_while_it_is_open(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("q")
        await driver.sees("Run in progress", "best 0.8829", "Discard and quit")
        best = driver.app.snapshot().state.leaderboard[0]
        rows = (msgspec.structs.replace(best, score=0.9111), *driver.app.snapshot().state.leaderboard[1:])
        await driver.write(ev.LeaderboardChanged(rows=rows))
        await driver.sees("best 0.9111", "Discard and quit")
        await driver.write(recordings.finished()[-1])
        await driver.sees("The run has ended", "Quit", "Cancel")
        assert "left" not in driver.text().partition("The run has ended")[2].partition("Cancel")[0]
        assert "Discard and quit" not in driver.text()
        await driver.press("d")
        assert isinstance(driver.app.screen, Decision), "what is over cannot be discarded"
        await driver.press("enter")
        await driver.until(lambda: not driver.app.is_running)
        assert driver.commands() == []
    assert driver.app.exit_code == 0


async def test_quitting_before_the_start_ends_the_engine(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("q")
        assert [command["command"] for command in driver.commands()] == ["abort"]
        await driver.until(lambda: not driver.app.is_running)
        assert driver.process.terminated, "an engine that does not answer must not stay behind"
    assert driver.app.exit_code == 0


async def test_quitting_a_finished_run_asks_nothing(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished()) as driver:
        await driver.press("ctrl+c")
        await driver.until(lambda: not driver.app.is_running)
        assert driver.commands() == []
