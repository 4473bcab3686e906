"""Names from a hostile run on every screen: no raw character, no link, and brackets as written."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from tabapp.tui.dialogs.basic import Dialog
from tabapp.tui.screens.whole_table import WholeTable
from tests.hostile import recordings, texts
from tests.hostile.texts import raw_characters, shown
from tests.tui import replayed as replaying
from tests.tui.replayed import replayed

SCREENS = ("data", "run", "models", "tuning", "explain", "predict", "runs", "log")
WITH_NAMES = {
    "data": ["price [$]", "mass [kg]", "[/b]", "[red]"],
    "run": ["price [$]"],
    "explain": ["price [$]", "mass [kg]"],
}


@pytest.fixture(autouse=True)
def hostile_run(monkeypatch, tmp_path):
    """Replayed runs have hostile names, and the working folder has files with hostile names."""
    monkeypatch.setattr(replaying, "events_of", lambda name: recordings.hostile_events())
    monkeypatch.setattr(
        replaying, "write_wine", lambda path: recordings.write_table(texts.file_name(path.parent, ".csv"))
    )
    monkeypatch.chdir(tmp_path)


def check(driver, names=()) -> str:
    """Find no raw character and no link on the screen, and every name as written; returns the text."""
    strips = driver.app.screen._compositor.render_strips()
    text = driver.text()
    assert not raw_characters(text), text
    assert not [segment for strip in strips for segment in strip if segment.style and segment.style.link]
    for name in names:
        assert name in text, text
    return text


async def test_every_screen_of_a_finished_run(tmp_path, monkeypatch):
    async with replayed(tmp_path, monkeypatch, "after") as driver:
        driver.folder.log.write_text(f"{texts.TITLE}\n{texts.CURSOR} [/b]\n", encoding="utf-8")
        for screen in SCREENS:
            await driver.enter(screen)
            await driver.still()
            check(driver, WITH_NAMES.get(screen, ()))
            if screen in ("run", "models", "log"):
                await driver.press("enter")
                await driver.pilot.pause()
                check(driver)
                await driver.back()
        await driver.sees(shown(texts.CURSOR) + " [/b]")


async def test_the_table_its_cells_and_the_dialogs(tmp_path, monkeypatch):
    async with replayed(tmp_path, monkeypatch, "ready") as driver:
        await driver.enter("data")
        await driver.press("t")
        await driver.until(lambda: isinstance(driver.app.screen, Dialog))
        await driver.still()
        check(driver, ["price [$]", "mass [kg]", shown(texts.TITLE)])
        await driver.back()
        await driver.enter("table")
        await driver.still()
        check(driver, [shown(texts.TITLE)])
        await driver.press("c")
        await driver.until(lambda: isinstance(driver.app.screen, Dialog))
        await driver.still()
        check(driver, ["price [$]"])
        await driver.back()
        assert isinstance(driver.app.screen, WholeTable)


async def test_toasts_inputs_and_copies(tmp_path, monkeypatch):
    async with replayed(tmp_path, monkeypatch, "ready") as driver:
        await driver.enter("data")
        for attack in texts.ATTACKS:
            driver.app.clear_notifications()
            driver.app.screen.notify(f"{attack} [/b] [red]", title=f"[/b] {attack}", markup=True)
            await driver.sees("[/b] [red]")
            check(driver)
        driver.app.copy(f"\x1b[201~rm\r{texts.BIDI}")
        assert driver.app.clipboard == f"␛[201~rm␍{texts.BIDI}"
        await driver.press("slash")
        driver.app.screen.query_one("#filter", Input).value = f"{texts.CURSOR}{texts.TITLE}after"
        await driver.sees("after")
        check(driver)
