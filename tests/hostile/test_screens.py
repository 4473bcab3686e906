"""Names from a hostile run on every screen: no raw character, no link, and brackets as written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from textual.widgets import Input, Static

from tabapp.errors import UsageError
from tabapp.run.record import events as ev
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Ask, Choice, Decision, Dialog, Option, Reading
from tabapp.tui.dialogs.file_choice import FileChoice
from tabapp.tui.screens.whole_table import WholeTable
from tests.hostile import recordings, texts
from tests.hostile.texts import raw_characters, shown
from tests.tui import replayed as replaying
from tests.tui.replayed import file_is_chosen, replayed

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


@pytest.mark.slow
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


def reject(text: str) -> str:
    raise UsageError(f"{texts.LONG} {text}")


def long_dialogs() -> Iterator[tuple[Dialog, str]]:
    """Each dialog with long texts in all places, and what must remain visible below them."""
    long = texts.LONG
    yield Reading(long, Content(long)), "esc closes"
    yield Reading(long, Content(long * 20), at_end=long), "▼ j"
    yield Choice(long, [Option(long, long, long), Option("b", "other", long)], current=long, parse=reject), "other"
    yield Ask(long, long, long, reject), "esc  cancel"
    yield Decision(long, long, [Option(long, long, long, "y")], stay="stay here"), "stay here"
    yield FileChoice(long, [(Path(f"/{long}"), "predicted"), (Path("other.csv"), "predicted")]), "other.csv"


async def test_long_texts_in_dialogs_hide_no_answer(tmp_path, monkeypatch):
    assert len(texts.LONG) == 5_000
    async with replayed(tmp_path, monkeypatch, "after") as driver:
        for dialog, visible in long_dialogs():
            driver.app.push_screen(dialog)
            await driver.sees(visible)
            check(driver)
            if isinstance(dialog, Ask | Choice):
                dialog.query_one(Input).value = texts.LONG[:200] + "no such option"
                await driver.press("enter")
                await driver.until(lambda dialog=dialog: str(dialog.query_one("#problem", Static).visual))
                check(driver)
            await driver.press("escape")
            await driver.until(lambda dialog=dialog: driver.app.screen is not dialog)


TYPED = (
    texts.LONG,
    f"{texts.LONG}.csv",
    "x" * 5_000 + ".csv",
    "d/" * 2_500 + "out.csv",
    "~no-such-user-here/out.csv",
    "~no-such-user-here/",
    "a\0b.csv",
    "/dev/null/out.csv",
)
OPENING: list[tuple[type[Dialog], Callable[..., object]]] = [
    (Ask, lambda driver: driver.app.screen.action_output()),
    (FileChoice, lambda driver: driver.app.screen.action_choose()),
    (Ask, lambda driver: driver.app.action_export()),
]


async def test_paths_that_no_system_accepts_are_refused_in_dialogs(tmp_path, monkeypatch):
    """The run itself names its bundle and its table by paths that are too long."""
    *before, last = recordings.hostile_events()
    events = [*before, msgspec.structs.replace(last, bundle="/" + "b" * 5_000)]
    monkeypatch.setattr(replaying, "events_of", lambda name: events)
    assert isinstance(last, ev.RunFinished)
    async with replayed(tmp_path, monkeypatch, "after") as driver:
        await driver.enter("predict")
        await file_is_chosen(driver)
        driver.app.screen._job.recent.append(Path("/" + "r" * 5_000))
        driver.folder.bundle.write_bytes(b"a bundle")
        for kind, open_dialog in OPENING:
            open_dialog(driver)
            await driver.until(lambda kind=kind: isinstance(driver.app.screen, kind))
            dialog = driver.app.screen
            await driver.until(lambda dialog=dialog: dialog.query("#problem"))
            for typed in TYPED:
                dialog.query_one("#problem", Static).update("")
                dialog.query_one(Input).value = typed
                await driver.press("enter")
                await driver.pilot.pause()
                assert driver.app.screen is dialog, typed
                await driver.until(lambda dialog=dialog: str(dialog.query_one("#problem", Static).visual))
                check(driver)
            await driver.press("escape")
            await driver.until(lambda dialog=dialog: driver.app.screen is not dialog)
