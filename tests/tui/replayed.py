"""The app on a replayed run, what is seen of an action, and what is done before one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.command import CommandList, CommandPalette
from textual.widget import Widget
from textual.widgets import Input

from tabapp.run.protocol.prediction import Checked
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder
from tabapp.tui import app as app_module
from tabapp.tui.app import TabappApp
from tabapp.tui.chrome.actions import TABS, Action, Scope
from tabapp.tui.dialogs.basic import Dialog
from tabapp.tui.door.screen import Door, DoorKeys
from tabapp.tui.parts.lines import ClickableLine, KeyBar, Tabs
from tabapp.tui.parts.table import Table
from tabapp.tui.replay import ReplayApp
from tabapp.tui.screens import runs
from tabapp.tui.screens.row import RowView
from tabapp.tui.screens.whole_table import WholeTable
from tabapp.tui.session import engine_handle
from tabapp.tui.widgets.model_panels import Models
from tabapp.tui.widgets.run_table import Runs
from tabapp.tui.widgets.trial_panels import Trials
from tests.recordings import events_of
from tests.recordings.replay import ReplayWorker, make_run
from tests.tables import write_wine
from tests.tui.driver import Driver, FakeProcess
from tests.tui.explained import CannedClient
from tests.tui.recordings import Recorder

SIZE = (120, 36)
RECORDING = "wine"
MODEL = "lightgbm"


class Replayed(Driver):
    """The app on a run that a worker replays; commands are answered while the app runs."""

    def __init__(self, app: TabappApp, pilot: Any, worker: ReplayWorker, folder: RunFolder) -> None:
        super().__init__(app, pilot, Recorder(folder), FakeProcess())
        self.worker = worker

    async def folded(self) -> None:
        """Wait until the app has folded what the worker has played."""
        if not isinstance(self.app, ReplayApp):
            await self.until(lambda: self.app.snapshot().state.seq == self.worker.state.seq)
        self.app.draw_changes()
        await self.pilot.pause()

    async def obey(self) -> None:
        """Answer commands while the test runs."""
        while True:
            self.worker.obey()
            await asyncio.sleep(0.03)

    async def back(self) -> None:
        """Close dialogs, the palette and the filter line."""
        for _ in range(6):
            if isinstance(self.app.screen, Dialog | CommandPalette) or self.app.screen.has_class("-filtering"):
                await self.press("escape")
                await self.pilot.pause()

    async def enter(self, scope: Scope) -> None:
        """Go to the screen of a scope, with its main part focused and the cursor on a model that is fitted."""
        await self.back()
        if scope != "door" and isinstance(self.app.screen, Door):
            await self.press("escape")
            await self.pilot.pause()
        if scope == "replay":
            if getattr(self.app.screen, "VIEW", None) != "run":
                await self.press("1")
            return
        if scope == "door":
            if not isinstance(self.app.screen, Door):
                await self.press("o")
            await self.until(lambda: isinstance(self.app.screen, Door) and self.app.screen.query_one(Runs).rows)
            self.app.screen.query_one(Runs).focus()
            await self.pilot.pause()
            return
        if scope == "table":
            if not isinstance(self.app.screen, WholeTable):
                await self.enter("data")
                await self.press("a")
                await self.until(lambda: isinstance(self.app.screen, WholeTable))
        elif scope == "row":
            if not isinstance(self.app.screen, RowView):
                await self.enter("predict")
                row = RowView(CannedClient(), 3, 178, "cultivar")
                self.app.push_screen(row)
                await self.until(lambda: row.is_mounted and row._row.curve is not None)
        else:
            if isinstance(self.app.screen, WholeTable | RowView):
                await self.press("escape")
            digit, view, _ = next(tab for tab in TABS if tab[1] == (scope if scope != "everywhere" else "models"))
            if getattr(self.app.screen, "VIEW", None) != view:
                await self.press(digit)
                await self.until(lambda: view == getattr(self.app.screen, "VIEW", None))
                await self.pilot.pause()
        screen = self.app.screen
        screen.query_one(screen.MAIN, Widget).focus()
        if scope in ("run", "models"):
            screen.query_one(screen.MAIN, Table).move_to_key(MODEL)
        elif scope == "tuning":
            screen.query_one(Trials).move_to_key(f"{MODEL}#0")
        await self.pilot.pause()

    # -- by mouse -----------------------------------------------------------------------------------------------------

    async def click_part(self, line: type[ClickableLine], action: str) -> bool:
        """Click a part of one of the lines around the screen; whether it is there."""
        await self.still()
        found = self.app.screen.query(line)
        spots = [spot for widget in found for spot in widget._spots if spot[2] == action]
        if not spots:
            return False
        await self.pilot.click(line, offset=(spots[0][0] + 1, 0))
        return True

    async def click(self, action: Action) -> None:
        """Do an action by mouse: its tab, its place in the footer, or the palette, which a click opens."""
        if isinstance(self.app.screen, Door):
            assert await self.click_part(DoorKeys, action.action)
            return
        await self.until(lambda: any(bar._spots for bar in self.app.screen.query(KeyBar)))
        for line in (Tabs, KeyBar):
            if await self.click_part(line, action.action):
                return
        assert await self.click_part(KeyBar, "app.command_palette"), "the palette has a place in every footer"
        await self.palette_is_full()
        palette = self.app.screen
        commands = palette.query_one(CommandList)
        for _ in range(40):
            await self.still()
            for y, strip in enumerate(self.app.screen._compositor.render_strips()):
                if f"{action.name}  (" in strip.text and commands.region.contains(30, y):
                    await self.pilot.click(offset=(strip.text.index(action.name) + 1, y))
                    await self.until(lambda: palette._selected_command)
                    assert action.name in str(palette._selected_command.text)
                    return
            await self.pilot._post_mouse_events([events.MouseScrollDown] * 6, commands, offset=(2, 2))
        raise AssertionError(f"the palette has no {action.name}:\n{self.text()}")


@asynccontextmanager
async def replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str, size=SIZE) -> AsyncIterator[Replayed]:
    """The app on a replayed run in a phase: reading, ready, during or after."""
    monkeypatch.setattr(app_module, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(app_module, "FLUSH_SECONDS", 0.25)
    monkeypatch.setattr(RunFolder, "is_running", lambda self: self.state().finished is None)
    monkeypatch.setattr(runs, "READ_AGAIN_SECONDS", 3600.0)
    data = write_wine(tmp_path / "wine.csv")
    folder = make_run(tmp_path / "runs", RECORDING, str(data))
    worker = ReplayWorker(folder, events_of(RECORDING))
    has_begun = phase == "replaying"

    def start(folder: RunFolder) -> FakeProcess:
        nonlocal has_begun
        match phase:
            case "reading":
                worker.play_to(ev.DataRead)
            case "ready":
                worker.play_to(ev.PlanMade)
                worker.play()
            case "during":
                worker.play_to(ev.TrialPruned, 5)
            case _:
                worker.play_all()
        has_begun = True
        return FakeProcess()

    monkeypatch.setattr(engine_handle, "start_detached_engine", start)
    if phase in ("after", "replaying"):
        folder.bundle.write_bytes(b"a bundle")
    if phase == "replaying":
        worker.play_all()
        app = ReplayApp(folder, 1.0, runs_dir=tmp_path / "runs")
        app._replay.pause()
        app._replay.seek(30.0)
    else:
        app = TabappApp(folder, runs_dir=tmp_path / "runs", clock=lambda: worker.state.time)
    async with app.run_test(size=size, notifications=True) as pilot:
        driver = Replayed(app, pilot, worker, folder)
        obeying = asyncio.create_task(driver.obey())
        try:
            await driver.until(lambda: has_begun)
            await driver.folded()
            yield driver
        finally:
            obeying.cancel()
            with suppress(asyncio.CancelledError):
                await obeying


# What is seen of an action. Each takes the driver before the action, and returns what must come true after it.

Proof = Callable[[Replayed], Callable[[], object]]


def dialog(kind: type[Dialog], *words: str) -> Proof:
    """A dialog of a kind opens, with some words in it."""
    return lambda driver: lambda: isinstance(driver.app.screen, kind) and all(word in driver.text() for word in words)


def sends(*names: str, **arguments: object) -> Proof:
    """A command is sent, and the worker has answered it."""

    def proof(driver: Replayed) -> Callable[[], object]:
        before = len(driver.commands())

        def is_sent() -> bool:
            new = driver.commands()[before:]
            return len(new) == 1 and new[0]["command"] in names and arguments.items() <= new[0].items()

        return is_sent

    return proof


def says(*words: str) -> Proof:
    """A message appears in the corner."""

    def proof(driver: Replayed) -> Callable[[], object]:
        driver.app.clear_notifications()
        return lambda: any(all(word in toast for word in words) for toast in driver.toasts())

    return proof


def copies(*words: str) -> Proof:
    """The clipboard holds a text with some words, and a message says so."""

    def proof(driver: Replayed) -> Callable[[], object]:
        driver.app.clear_notifications()
        driver.app._clipboard = ""
        return lambda: (
            all(word in driver.app.clipboard for word in words)
            and bool(driver.app.clipboard)
            and any("opied" in toast for toast in driver.toasts())
        )

    return proof


def changes(value: Callable[[Any], object]) -> Proof:
    """Something that the screen holds has another value."""

    def proof(driver: Replayed) -> Callable[[], object]:
        before = value(driver.app.screen)
        return lambda: value(driver.app.screen) != before

    return proof


def shows(view: str) -> Proof:
    """A screen is shown."""
    return lambda driver: lambda: getattr(driver.app.screen, "VIEW", None) == view


def asks_for_text(driver: Replayed) -> Callable[[], object]:
    """The input line has the focus."""
    return lambda: driver.app.screen.has_class("-filtering") and isinstance(driver.app.focused, Input)


def replay_changes(name: str) -> Proof:
    """Something about the place of the replay has another value."""

    def proof(driver: Replayed) -> Callable[[], object]:
        before = getattr(driver.app.snapshot().replay, name)
        return lambda: getattr(driver.app.snapshot().replay, name) != before

    return proof


Preparing = Callable[[Replayed], Awaitable[object]]


def keys(*names: str) -> Preparing:
    """Press keys before the action."""
    return lambda driver: driver.press(*names)


async def nothing(driver: Replayed) -> None:
    pass


@dataclass(frozen=True)
class Case:
    """How an action is proved: in which phase, after what, by what is seen, and what takes it back."""

    proof: Proof
    phase: str = "during"
    before: Preparing = field(default=nothing)
    after: Preparing = field(default=nothing)


async def file_is_chosen(driver: Replayed) -> None:
    job = driver.app.screen._job
    job.choose(Path(driver.app.config.data))
    job.checked = Checked(rows=178, refused=False, findings=(), notes=(), target="cultivar")
    driver.app.screen.redraw()
    await driver.pilot.pause()


async def is_at_work(driver: Replayed) -> None:
    driver.app.screen._job.stage = "predicting"
    driver.app.screen.redraw()
    await driver.pilot.pause()


async def other_model_marked(driver: Replayed) -> None:
    driver.app.screen.query_one(Models).marked = (MODEL,)
    driver.app.screen.redraw()


async def text_is_searched(driver: Replayed) -> None:
    await driver.press("slash", *"lightgbm", "enter")
    await driver.pilot.pause()


async def cell_is_searched(driver: Replayed) -> None:
    driver.app.screen._rows.search = "cultivar_1"


async def another_run_is_made(driver: Replayed) -> None:
    make_run(driver.app.runs_dir, RECORDING)


async def scrolled_up(driver: Replayed) -> None:
    await driver.press("g")


async def plan_is_answered(driver: Replayed) -> None:
    await driver.until(lambda: not driver.app.planning.waits)


async def plan_is_changed(driver: Replayed) -> None:
    driver.app.change_plan({"seed": driver.app.planning.config.seed + 1})
    await plan_is_answered(driver)


def undone_by(*names: str) -> Preparing:
    """Keys that take a plan's change back, once the worker has answered."""

    async def undo(driver: Replayed) -> None:
        await plan_is_answered(driver)
        await driver.press(*names)
        await plan_is_answered(driver)

    return undo
