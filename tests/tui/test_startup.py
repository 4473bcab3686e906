"""Keys pressed before the engine has made a plan: each acts, waits visibly, or says why it does nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button

from tabapp.run.record import events as ev
from tabapp.tui.chrome.actions import ACTIONS, Action, Scope
from tabapp.tui.dialogs.basic import Decision, Reading
from tabapp.tui.parts.lines import KeyBar
from tabapp.tui.screens.data import DataView
from tabapp.tui.screens.run import RunningView
from tabapp.tui.screens.whole_table import WholeTable
from tests.tables import write_wine
from tests.tui import recordings
from tests.tui.driver import SIZES, Driver, drive

WAITS = "starts when the plan is ready"
MOMENTS = [
    pytest.param(number, id=f"after_{number}_events", marks=[] if number in (0, 4) else [pytest.mark.slow])
    for number in range(len(recordings.opening()))
]


def rest(number: int) -> list[ev.Event]:
    return recordings.opening()[number:]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("number", MOMENTS)
async def test_a_start_pressed_before_the_plan_waits_and_is_sent_with_the_plan(tmp_path, monkeypatch, number, size):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:number], size=size) as driver:
        await driver.press("ctrl+r")
        await driver.sees(WAITS, "esc Cancel start", "esc")
        assert driver.commands() == []
        await driver.press("ctrl+r")
        await driver.write(*rest(number))
        await driver.until(driver.commands)
        assert driver.commands() == [{"command": "start"}]
        await driver.sees("starting the run…")
        await driver.write(*recordings.running()[len(recordings.opening()) :][:3])
        await driver.until(lambda: isinstance(driver.app.screen, RunningView))
        assert driver.commands() == [{"command": "start"}]


async def test_the_start_button_waits_as_the_key_does(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, []) as driver:
        await driver.pilot.click("#start")
        await driver.sees(WAITS, "Starts when the plan is ready · esc cancels")
        await driver.write(*recordings.opening())
        await driver.until(lambda: driver.commands() == [{"command": "start"}])


@pytest.mark.parametrize("way", ["key", "mouse"])
async def test_escape_cancels_a_start_that_waits(tmp_path, monkeypatch, way):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2]) as driver:
        await driver.press("ctrl+r")
        await driver.sees(WAITS)
        if way == "key":
            await driver.press("escape")
        else:
            spots = driver.app.screen.query_one(KeyBar)._spots
            start = next(start for start, _, action in spots if action == "cancel_start")
            await driver.pilot.click(KeyBar, offset=(start + 1, 0))
        await driver.until(lambda: any("Start canceled" in toast for toast in driver.toasts()))
        await driver.write(*rest(2))
        await driver.sees("▸ ctrl+r starts", "Start run  ctrl+r")
        await driver.press("ctrl+r")
        await driver.until(driver.commands)
        assert driver.commands() == [{"command": "start"}], "only the second request is sent"


async def test_a_start_after_a_change_of_plan_waits_for_the_new_plan(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("right", "ctrl+r")
        await driver.sees(WAITS)
        assert [command["command"] for command in driver.commands()] == ["plan"]
        await driver.write(recordings.plan(quality="best"))
        await driver.until(lambda: [command["command"] for command in driver.commands()] == ["plan", "start"])


async def test_a_refused_plan_withdraws_the_start_with_the_reason(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("right", "ctrl+r")
        await driver.sees(WAITS)
        await driver.write(ev.PlanRefused(t=recordings.START + 2, message="Too few rows for 10 folds."))
        await driver.until(lambda: any("Too few rows for 10 folds." in toast for toast in driver.toasts()))
        refused = next(toast for toast in driver.toasts() if "Too few rows" in toast)
        assert "Not started" in refused
        await driver.sees("▸ ctrl+r starts", "Start run  ctrl+r")
        assert [command["command"] for command in driver.commands()] == ["plan"]


async def test_a_file_that_cannot_be_read_withdraws_the_start_with_the_reason(tmp_path, monkeypatch):
    failed = msgspec.structs.replace(
        recordings.finished()[-1], status="failed", message="The file holds a header only.", exit_code=3, bundle=None
    )
    async with drive(tmp_path, monkeypatch, recordings.opening()[:1]) as driver:
        await driver.press("ctrl+r")
        await driver.sees(WAITS)
        await driver.write(failed)
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("The file holds a header only.")
        await driver.press("escape")
        await driver.until(lambda: WAITS not in driver.text())
        assert driver.commands() == []
        assert driver.app.screen.query_one("#start", Button).disabled


async def test_an_engine_that_stops_withdraws_the_start_with_the_reason(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:1]) as driver:
        await driver.press("ctrl+r")
        await driver.sees(WAITS)
        driver.process.returncode = -9
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.sees("SIGKILL")
        await driver.press("escape")
        await driver.until(lambda: WAITS not in driver.text())
        await driver.press("ctrl+r")
        await driver.until(lambda: any("Not started" in toast and "SIGKILL" in toast for toast in driver.toasts()))
        assert driver.commands() == []


async def test_quitting_withdraws_a_start_that_waits(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, []) as driver:
        await driver.press("ctrl+r")
        await driver.sees(WAITS)
        await driver.press("q")
        await driver.until(lambda: not driver.app.is_running)
        assert driver.commands() == [{"command": "abort"}]


async def test_the_footer_offers_no_change_of_plan_before_there_is_one(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2]) as driver:
        await driver.sees("ctrl+r Start", "The plan appears here")
        footer = driver.text().splitlines()[-1]
        assert not [word for word in ("Target", "Metric", "Budget", "Include") if word in footer]
        await driver.write(*rest(2))
        await driver.sees("t Target", "m Metric", "b Budget", "space Include")


# Every action of every screen, at two moments before the plan.

SILENT = {"table.close", "app.quit", "runs.clone", "runs.replay"}
"""Actions that leave the screen or the app, which other tests follow."""


async def enter(driver: Driver, scope: Scope) -> None:
    """Go to the screen of a scope and focus its main part."""
    for _ in range(6):
        if isinstance(driver.app.screen, ModalScreen) or driver.app.screen.has_class("-filtering"):
            await driver.press("escape")
            await driver.pilot.pause()
    if scope == "table" and not isinstance(driver.app.screen, WholeTable):
        await enter(driver, "data")
        await driver.press("a")
        await driver.until(lambda: isinstance(driver.app.screen, WholeTable))
    elif scope != "table":
        if isinstance(driver.app.screen, WholeTable):
            await driver.press("escape")
            await driver.pilot.pause()
        view = "models" if scope == "everywhere" else scope
        if getattr(driver.app.screen, "VIEW", None) != view:
            # Digits stay on the Data screen before there is a plan.
            await driver.app.action_view(view)
            await driver.until(lambda: getattr(driver.app.screen, "VIEW", None) == view)
    screen = driver.app.screen
    screen.query_one(screen.MAIN, Widget).focus()
    await driver.pilot.pause()


def reaction(driver: Driver) -> tuple[object, ...]:
    """All that a user can notice of an action."""
    return (driver.text(), len(driver.commands()), driver.app.clipboard, driver.app.screen)


async def do(driver: Driver, action: Action) -> None:
    await enter(driver, action.scope)
    if action.id == "view.models":
        await driver.app.action_view("log")
        await driver.until(lambda: getattr(driver.app.screen, "VIEW", None) == "log")
    driver.app.clear_notifications()
    await driver.pilot.pause()
    before = reaction(driver)
    await driver.press(action.keys.split(",")[0])
    try:
        await driver.until(lambda: driver.toasts() or reaction(driver) != before)
    except AssertionError as error:
        raise AssertionError(f"{action.id} does nothing before the plan and says nothing: {error}") from None
    if driver.app._start.stage:
        assert action.id in ("data.start", "table.start")
        await driver.press("escape")


def moments() -> Iterator[object]:
    """Every screen while the file is read, and before that; `make test` takes one of each.

    The screen of a row opens from predictions only, the keys of a replay need one, and the front door
    has tests of its own.
    """
    for scope in sorted({action.scope for action in ACTIONS} - {"row", "replay", "door"}):
        for moment, number, in_every_run in (("while_reading", 2, "run"), ("before_reading", 0, "data")):
            marks = [] if scope == in_every_run else [pytest.mark.slow]
            yield pytest.param(scope, number, id=f"{scope}-{moment}", marks=marks)


@pytest.mark.parametrize(("scope", "number"), moments())
async def test_every_action_before_the_plan_acts_waits_or_says_why_not(tmp_path, monkeypatch, scope, number):
    data = write_wine(tmp_path / "wine.csv")
    async with drive(tmp_path, monkeypatch, recordings.opening()[:number], data=str(data)) as driver:
        assert isinstance(driver.app.screen, DataView)
        await driver.sees("alcohol")
        for action in ACTIONS:
            if action.scope == scope and action.id not in SILENT:
                await do(driver, action)
