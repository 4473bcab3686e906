"""Keys that arrive at once, as from a paste, a macro or a slow connection."""

from __future__ import annotations

import pytest
from textual.events import Key
from textual.widgets import Input

from tabapp.tui.dialogs.basic import Choice, Decision, Reading
from tabapp.tui.dialogs.file_choice import FileChoice
from tabapp.tui.screens.whole_table import WholeTable
from tests.tui import recordings
from tests.tui.driver import Driver, drive
from tests.tui.screens.test_steering import go


async def at_once(driver: Driver, text: str, *last: str) -> None:
    """Post keys without waiting for what they do."""
    names = {"/": "slash", " ": "space", "+": "plus", "?": "question_mark"}
    for character in text:
        driver.app.post_message(Key(names.get(character, character), character))
    for key in last:
        driver.app.post_message(Key(key, "\r" if key == "enter" else None))
    await driver.pilot.pause()


@pytest.mark.parametrize("view", ["run", "tuning"])
async def test_keys_behind_a_slash_go_into_the_filter(tmp_path, monkeypatch, view):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await go(driver, view)
        await at_once(driver, "/realmlp Fq")
        await driver.until(lambda: driver.app.screen.query_one("#filter", Input).value == "realmlp Fq")
        assert not isinstance(driver.app.screen, Decision)
        assert driver.app.is_running
        assert driver.commands() == []
        # Escape empties the filter, and the next key is a command again, for the row that the filter had moved to.
        await at_once(driver, "", "escape")
        await at_once(driver, "jx")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))


async def test_keys_behind_the_key_of_a_dialog_go_into_it(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await at_once(driver, "tage", "enter")
        await driver.until(lambda: driver.commands())
        assert driver.commands() == [{"command": "plan", "options": {"target": "Age"}}]
        await at_once(driver, "mroc")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        assert driver.app.screen.query_one(Input).value == "roc"


async def test_a_dialog_is_answered_by_keys_that_arrive_with_the_one_that_opens_it(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_once(driver, "jxy")
        await driver.until(lambda: driver.commands())
        assert driver.commands() == [{"command": "stop_model", "model": "catboost"}]


async def test_keys_follow_each_other_through_screens(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_once(driver, "3j", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await at_once(driver, "q2a")
        await driver.until(lambda: isinstance(driver.app.screen, WholeTable))
        await at_once(driver, "", "escape")
        await at_once(driver, "1?")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await at_once(driver, "q")
        await driver.until(lambda: not isinstance(driver.app.screen, Reading))


async def test_the_path_of_a_file_may_be_typed_ahead(tmp_path, monkeypatch):
    events = recordings.finished()
    async with drive(tmp_path, monkeypatch, events, attach=True, engine_runs=False) as driver:
        driver.folder.bundle.write_bytes(b"a bundle")
        await at_once(driver, "6", "enter")
        await at_once(driver, "new_qx")
        await driver.until(lambda: isinstance(driver.app.screen, FileChoice))
        await driver.until(lambda: driver.app.screen.query_one(Input).value == "new_qx")
