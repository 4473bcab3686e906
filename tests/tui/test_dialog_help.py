"""Help in dialogs: the row under the cursor, what can be typed, and the keys."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from tabapp.tui.dialogs.basic import Choice, Decision, Dialog, Reading
from tabapp.tui.dialogs.edit_value import EditValue
from tests.tui import recordings
from tests.tui.driver import NARROW, WIDE, Driver, drive
from tests.tui.planning import go_to


async def helped(driver: Driver, key: str) -> str:
    """The help of the dialog that is open; leaves it again."""
    dialog = driver.app.screen
    assert isinstance(dialog, Dialog)
    await driver.press(key)
    await driver.until(lambda: driver.app.screen is not dialog)
    assert isinstance(driver.app.screen, Reading)
    text = driver.app.screen._text.plain
    await driver.press("escape")
    await driver.until(lambda: driver.app.screen is dialog)
    return text


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("key", ["question_mark", "f1"])
async def test_a_list_explains_the_option_under_the_cursor_and_what_can_be_typed(tmp_path, monkeypatch, key, size):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        await driver.press("m")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        text = await helped(driver, key)
        metric = driver.app.snapshot().state.plan.metrics[0]
        assert text.startswith(f"Under the cursor\n{metric.name} · {metric.description}")
        assert "To type\nOr type prices of errors: cost:fn=5,fp=1." in text
        assert text.endswith("Close without a change.")
        # A question mark inside a text is typed.
        await driver.press("a", "question_mark")
        await driver.until(lambda: driver.app.screen.query_one(Input).value == "a?")


async def test_a_question_explains_its_options(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("F")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        text = await helped(driver, "question_mark")
        assert text.startswith("Fitting stops, and the best models so far become the bundle.\n\ny    Finish now")
        assert not driver.commands()


async def test_a_field_explains_its_option_and_types_question_marks(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, "null")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, EditValue))
        await driver.press("question_mark")
        await driver.until(lambda: driver.app.screen.query_one(Input).value == "?")
        text = await helped(driver, "f1")
        assert text.startswith("Texts that are missing values")
        assert "To type\nTexts with commas between them, such as ?,-999,age=0." in text


@pytest.mark.parametrize("key", ["o", "M", "t", "P", "K", "enter", "v", "b"])
async def test_every_dialog_of_the_data_screen_has_help(tmp_path, monkeypatch, key):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press(*(("o", "o") if key == "o" else (key,)))
        await driver.until(lambda: isinstance(driver.app.screen, Dialog))
        await driver.pilot.pause()
        text = await helped(driver, "f1")
        assert not text.startswith("Keys"), "it says more than its keys"
        assert len(type(driver.app.screen).KEY_HELP) > 0
