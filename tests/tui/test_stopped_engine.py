"""An engine that stops without a result: what the app says and offers."""

from __future__ import annotations

import pytest

from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder
from tabapp.tui.dialogs.basic import Decision
from tabapp.tui.session.opened import Opened
from tests.tui import recordings
from tests.tui.driver import drive


async def test_the_line_of_a_small_terminal_has_the_best_score_of_a_killed_run(tmp_path, monkeypatch):
    events = recordings.running()
    async with drive(tmp_path, monkeypatch, events, size=(110, 12), attach=True, engine_runs=False) as driver:
        await driver.until(lambda: driver.app.trouble is not None)
        best = driver.app.snapshot().state.best
        assert best is not None
        await driver.press("escape")
        await driver.sees(f"✗ No engine is running for this run, and it has no result. · {best.score:.4f} {best.title}")


async def test_an_exit_code_of_the_engine_is_the_commands(tmp_path, monkeypatch):
    failed = ev.RunFinished(
        t=recordings.START + 9, status="failed", run="r", bundle=None, task=None, target=None, metric=None,
        greater_is_better=None, best=None, test_score=None, seconds=9.0, leaderboard=(), importances=(), agreement={},
        exit_code=3, message="The file holds a header only.",
    )  # fmt: skip
    async with drive(tmp_path, monkeypatch, [recordings.opening()[0]]) as driver:
        await driver.write(failed)
        await driver.sees("✗ failed", "The file holds a header only.")
        await driver.press("q")
    assert driver.app.exit_code == 3


async def test_a_killed_engine_offers_to_resume_by_a_key(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), engine_runs=False) as driver:
        driver.folder.log.write_text("line one\nMemoryError in the engine\n")
        await driver.press("1")
        driver.process.returncode = -9
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.sees("SIGKILL", "MemoryError in the engine", "Resume now", "Show the log", "Quit")
        assert "tabapp resume" not in driver.text()
        await driver.press("8")
        await driver.until(lambda: driver.app.screen.VIEW == "log")
        await driver.press("1")
        best = f"{driver.app.snapshot().state.best.score:.4f}"
        await driver.sees(
            f"✗ the engine has stopped · best {best} (",
            "r Resume",
            "n New run",
            "─ Result ─",
            "Interrupted",
            "r resume",
        )
        await driver.press("escape")
        await driver.sees("─ Now ─", "The engine has stopped; r resumes the run.")
        assert "workers busy" not in driver.text()
        assert "F Finish" not in driver.text()
        assert "p Pause" not in driver.text()
        await driver.press("r")
        await driver.until(lambda: driver.app.opened is not None)
        assert driver.app.opened == Opened(driver.folder, start_engine=True, resumed=True)
        assert driver.folder.config().start
        assert driver.commands() == []
    assert driver.app.exit_code == 1


async def test_an_engine_that_dies_before_the_start_is_started_again_without_the_run(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.process.returncode = 1
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.press("r")
        await driver.until(lambda: driver.app.opened is not None)
        assert driver.app.opened == Opened(driver.folder, start_engine=True)
        assert not driver.folder.config().start


async def test_an_attached_run_without_an_engine_offers_to_resume(tmp_path, monkeypatch):
    events = recordings.running()
    async with drive(tmp_path, monkeypatch, events, attach=True, engine_runs=False) as driver:
        await driver.sees("No engine is running for this run", "Resume now")
        await driver.press("escape", "q")
    assert driver.app.exit_code == 1


@pytest.mark.parametrize("keys", [["question_mark"], ["slash", "r"]], ids=["a dialog", "a filter"])
async def test_a_dialog_that_opens_by_itself_waits_until_it_can_take_the_keys(tmp_path, monkeypatch, keys):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press(*keys)
        await driver.until(lambda: not driver.app.is_free)
        shown = driver.app.screen
        monkeypatch.setattr(RunFolder, "is_running", lambda self: False)
        await driver.until(lambda: driver.app.trouble is not None)
        for _ in range(3):
            driver.app.draw_changes()
            await driver.pilot.pause()
        assert driver.app.screen is shown
        await driver.press("escape")
        await driver.sees("The engine has stopped", "Resume now")
        assert isinstance(driver.app.screen, Decision)


async def test_a_dialog_about_a_stopped_engine_is_dropped_if_it_works_again(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("question_mark")
        await driver.until(lambda: not driver.app.is_free)
        monkeypatch.setattr(RunFolder, "is_running", lambda self: False)
        await driver.until(lambda: driver.app.trouble is not None)
        monkeypatch.setattr(RunFolder, "is_running", lambda self: True)
        await driver.until(lambda: driver.app.trouble is None)
        await driver.press("escape")
        await driver.until(lambda: driver.app.is_free)
        driver.app.draw_changes()
        await driver.pilot.pause()
        assert driver.app.is_free


async def test_an_engine_that_cannot_start_shows_the_error(tmp_path, monkeypatch):
    error = OSError(12, "Cannot allocate memory")
    async with drive(tmp_path, monkeypatch, [], start_error=error, engine_runs=False) as driver:
        await driver.sees("The engine has stopped", "Cannot allocate memory")
        await driver.press("escape")
        await driver.sees("✗ the engine has stopped")
