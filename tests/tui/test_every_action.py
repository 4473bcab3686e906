"""Every action of the list, by each of its keys and by mouse, on a worker that replays a real run. A new action needs a case."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import textual.app
import textual.pilot
from textual import events
from textual.command import CommandList, CommandPalette
from textual.widget import Widget
from textual.widgets import Input

from tabapp.run import events as ev
from tabapp.run.folder import RunFolder
from tabapp.tui import app as app_module
from tabapp.tui import engine
from tabapp.tui.actions import ACTIONS, TABS, Action, Scope
from tabapp.tui.app import TabappApp
from tabapp.tui.predicting import Checked, Predicting
from tabapp.tui.screens import runs
from tabapp.tui.screens.files import FileChoice
from tabapp.tui.screens.modals import Ask, Choice, Decision, Dialog, Reading
from tabapp.tui.screens.table import WholeTable
from tabapp.tui.widgets.explanation import Explanation
from tabapp.tui.widgets.leaderboard import Leaderboard
from tabapp.tui.widgets.lines import ClickableLine, KeyBar, Tabs
from tabapp.tui.widgets.log import LogTable
from tabapp.tui.widgets.runs import Runs
from tabapp.tui.widgets.table import Table
from tabapp.tui.widgets.trials import Trials
from tests.recordings import events_of
from tests.recordings.replay import ReplayWorker, make_run
from tests.tables import write_wine
from tests.tui.driver import Driver, FakeProcess
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
        await self.until(lambda: self.app.snapshot().state.seq == self.worker.state.seq)
        self.app.draw_changes()
        await self.pilot.pause()

    async def obey(self) -> None:
        """Answer commands as long as the test goes on."""
        while True:
            self.worker.obey()
            await asyncio.sleep(0.03)

    async def back(self) -> None:
        """Close what stands on the screen."""
        for _ in range(6):
            if isinstance(self.app.screen, Dialog | CommandPalette) or self.app.screen.has_class("-filtering"):
                await self.press("escape")
                await self.pilot.pause()

    async def enter(self, scope: Scope) -> None:
        """Go to the screen of a scope, with its main part focused and the cursor on a model that is fitted."""
        await self.back()
        if scope == "table":
            if not isinstance(self.app.screen, WholeTable):
                await self.enter("data")
                await self.press("p")
                await self.until(lambda: isinstance(self.app.screen, WholeTable))
        else:
            if isinstance(self.app.screen, WholeTable):
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
        found = self.app.screen.query(line)
        spots = [spot for widget in found for spot in widget._spots if spot[2] == action]
        if not spots:
            return False
        await self.pilot.click(line, offset=(spots[0][0] + 1, 0))
        return True

    async def click(self, action: Action) -> None:
        """Do an action by mouse: its tab, its place in the footer, or the palette, which a click opens."""
        await self.until(lambda: any(bar._spots for bar in self.app.screen.query(KeyBar)))
        for line in (Tabs, KeyBar):
            if await self.click_part(line, action.action):
                return
        assert await self.click_part(KeyBar, "app.command_palette"), "the palette has a place in every footer"
        await self.until(lambda: isinstance(self.app.screen, CommandPalette))
        commands = self.app.screen.query_one(CommandList)
        await self.until(lambda: commands.option_count > 20)
        await self.pilot.pause()
        for _ in range(40):
            for y, strip in enumerate(self.app.screen._compositor.render_strips()):
                if f"{action.name}  (" in strip.text and commands.region.contains(30, y):
                    await self.pilot.click(offset=(strip.text.index(action.name) + 1, y))
                    return
            await self.pilot._post_mouse_events([events.MouseScrollDown] * 6, commands, offset=(2, 2))
            await self.pilot.pause()
        raise AssertionError(f"the palette has no {action.name}:\n{self.text()}")


@asynccontextmanager
async def replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str, size=SIZE) -> AsyncIterator[Replayed]:
    """The app on a replayed run that waits for its start, goes on, or has ended."""
    monkeypatch.setattr(app_module, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(app_module, "FLUSH_SECONDS", 0.25)
    monkeypatch.setattr(engine, "start_detached_engine", lambda folder: FakeProcess())
    monkeypatch.setattr(RunFolder, "is_running", lambda self: self.state().finished is None)
    monkeypatch.setattr(runs, "READ_AGAIN_SECONDS", 3600.0)
    # What an action does is waited for here; Textual would wait, too, for a processor that is idle, beside a worker that never is.
    for module in (textual.pilot, textual.app):
        monkeypatch.setattr(module, "wait_for_idle", lambda *_: asyncio.sleep(0.005))
    data = write_wine(tmp_path / "wine.csv")
    folder = make_run(tmp_path / "runs", RECORDING, str(data))
    worker = ReplayWorker(folder, events_of(RECORDING))
    match phase:
        case "before":
            worker.play_to(ev.PlanMade)
            worker.play()
        case "during":
            worker.play_to(ev.TrialPruned, 5)
        case _:
            folder.bundle.write_bytes(b"a bundle")
            worker.play_all()
    app = TabappApp(folder, runs_dir=tmp_path / "runs", clock=lambda: worker.state.time)
    async with app.run_test(size=size, notifications=True) as pilot:
        driver = Replayed(app, pilot, worker, folder)
        obeying = asyncio.create_task(driver.obey())
        try:
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


def panel_class(name: str) -> Callable[[Any], object]:
    return lambda screen: screen.has_class(name)


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
    job.checked = Checked(rows=178, refused=False, findings=(), notes=())
    driver.app.screen.redraw()
    await driver.pilot.pause()


async def is_at_work(driver: Replayed) -> None:
    driver.app.screen._job.stage = "predicting"
    driver.app.screen.redraw()
    await driver.pilot.pause()


async def other_model_marked(driver: Replayed) -> None:
    await driver.press("space")


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


def undone_by(*names: str) -> Preparing:
    """Keys that take a plan's change back, once the worker has answered."""

    async def undo(driver: Replayed) -> None:
        await plan_is_answered(driver)
        await driver.press(*names)
        await plan_is_answered(driver)

    return undo


STEERING = {
    "stop_model": Case(dialog(Decision, "Stop LightGBM?")),
    "more": Case(dialog(Decision, "More budget", "LightGBM: twice the share", "The whole run: 1m more")),
    "pause_model": Case(sends("pause_model", "resume_model", model=MODEL)),
    "ensemble": Case(sends("ensemble", model=MODEL)),
}

CASES: dict[str, Case] = {
    "data.start": Case(sends("start"), "before"),
    "data.target": Case(dialog(Choice, "Target: the column to predict", "alcohol"), "before"),
    "data.metric": Case(dialog(Choice, "Metric: what models are compared by", "accuracy"), "before"),
    "data.budget": Case(dialog(Choice, "Budget: time for the whole run"), "before"),
    "data.validation": Case(dialog(Choice, "Validation: how models are scored"), "before"),
    "data.quality": Case(sends("plan"), "before", after=undone_by("left")),
    "data.quality.lower": Case(sends("plan"), "before", after=undone_by("right")),
    "data.include": Case(sends("plan"), "before", after=plan_is_answered),
    "data.table": Case(lambda driver: lambda: isinstance(driver.app.screen, WholeTable), "before", after=keys("escape")),
    "data.filter": Case(asks_for_text, "before"),
    "data.copy": Case(copies("tabapp --auto"), "before"),
    "table.search": Case(asks_for_text),
    "table.next": Case(changes(lambda screen: screen._rows.row), before=cell_is_searched),
    "table.previous": Case(changes(lambda screen: screen._rows.row), before=cell_is_searched),
    "table.filter": Case(asks_for_text),
    "table.sort": Case(changes(lambda screen: screen._rows.sorted_by)),
    "table.column": Case(dialog(Choice, "Go to column")),
    "table.cell": Case(dialog(Reading, "character")),
    "table.copy": Case(copies()),
    "table.close": Case(shows("data")),
    "run.pause": Case(sends("pause", "resume")),
    "run.details": Case(dialog(Reading, "LightGBM")),
    **{f"run.{name}": case for name, case in STEERING.items()},
    "run.finish": Case(dialog(Decision, "Finish now?")),
    "run.sort": Case(changes(lambda screen: screen.query_one(Leaderboard).sort)),
    "run.filter": Case(asks_for_text),
    "run.charts": Case(changes(panel_class("-charts"))),
    "models.mark": Case(changes(lambda screen: screen.query_one("#models").marked)),
    "models.unmark": Case(changes(lambda screen: screen.query_one("#models").marked), before=other_model_marked),
    "models.details": Case(dialog(Reading, "LightGBM")),
    "models.copy": Case(copies("learning_rate")),
    **{f"models.{name}": case for name, case in STEERING.items() if name != "stop_model"},
    "models.picture": Case(changes(lambda screen: str(screen.query_one("#pictures").border_subtitle))),
    "models.picture.previous": Case(changes(lambda screen: str(screen.query_one("#pictures").border_subtitle))),
    "models.charts": Case(changes(panel_class("-charts"))),
    **{f"tuning.{name}": case for name, case in STEERING.items()},
    "tuning.model": Case(dialog(Choice, "Show the trials of", "all models")),
    "tuning.details": Case(dialog(Reading, "LightGBM #0")),
    "tuning.parameter": Case(changes(lambda screen: screen._parameter)),
    "tuning.parameter.previous": Case(changes(lambda screen: screen._parameter)),
    "tuning.charts": Case(changes(panel_class("-charts"))),
    "tuning.sort": Case(changes(lambda screen: screen.query_one(Trials).sort)),
    "tuning.filter": Case(asks_for_text),
    "tuning.copy": Case(copies("learning_rate")),
    "predict.choose": Case(dialog(FileChoice, "The file to predict", "wine.csv"), "after"),
    "predict.start": Case(
        lambda driver: lambda: driver.app.screen._job.stage == "starting", "after", before=file_is_chosen, after=keys("x")
    ),
    "predict.output": Case(dialog(Ask, "Write the predictions to", ".parquet file"), "after", before=file_is_chosen),
    "predict.keep": Case(changes(lambda screen: screen._job.keep), "after"),
    "predict.fill": Case(changes(lambda screen: screen._job.fill), "after"),
    "predict.stop": Case(lambda driver: lambda: not driver.app.screen._job.at_work, "after", before=is_at_work),
    "predict.copy": Case(copies("tabapp predict", "wine-predictions.csv"), "after", before=file_is_chosen),
    "runs.sort": Case(changes(lambda screen: screen.query_one(Runs).sort), "after"),
    "runs.filter": Case(asks_for_text, "after"),
    "runs.copy": Case(copies("tabapp attach"), "after"),
    "runs.refresh": Case(changes(lambda screen: len(screen.query_one(Runs).rows)), "after", before=another_run_is_made),
    "runs.delete": Case(says("on the screen"), "after"),
    "runs.resume": Case(says("is complete"), "after"),
    "runs.open": Case(shows("run"), "after"),
    "log.search": Case(asks_for_text, "after"),
    "log.next": Case(changes(lambda screen: screen.query_one(LogTable).key), "after", before=text_is_searched),
    "log.previous": Case(changes(lambda screen: screen.query_one(LogTable).key), "after", before=text_is_searched),
    "log.level": Case(
        changes(lambda screen: str(screen.query_one(LogTable).border_title)), "after", after=keys("l", "l", "l")
    ),
    "log.follow": Case(changes(lambda screen: screen.query_one(LogTable).key), "after", before=scrolled_up),
    "log.details": Case(dialog(Reading), "after"),
    "explain.sort": Case(changes(lambda screen: screen.query_one(Explanation).sort), "after"),
    "explain.charts": Case(changes(lambda screen: screen._panel), "after"),
    "run.export": Case(dialog(Ask, "Export the bundle", "./wine.tabapp"), "after"),
    **{f"view.{view}": Case(shows(view), "after", before=keys("8" if view != "log" else "1")) for _, view, _ in TABS},
    "app.theme": Case(lambda driver: lambda: isinstance(driver.app.screen, CommandPalette) and "nord" in driver.text(), "after"),
    "app.help": Case(dialog(Reading, "Help", "Every model of the run"), "after"),
    "app.palette": Case(lambda driver: lambda: isinstance(driver.app.screen, CommandPalette), "after"),
    "app.quit": Case(lambda driver: lambda: not driver.app.is_running, "after"),
}  # fmt: skip
ENDING = ("data.start", "app.quit")
"""Actions after which the run, or the app, is another: each is driven in an app of its own."""


def test_every_action_has_a_case_and_every_case_an_action():
    assert set(CASES) == {action.id for action in ACTIONS}
    assert all(case.phase in action.phases for action in ACTIONS for case in [CASES[action.id]])


def groups() -> list[tuple[Scope, str]]:
    return sorted({(action.scope, CASES[action.id].phase) for action in ACTIONS if action.id in CASES})


async def prove(driver: Replayed, action: Action, do: Callable[[], Awaitable[object]], way: str) -> None:
    case = CASES[action.id]
    await driver.enter(action.scope)
    await case.before(driver)
    holds = case.proof(driver)
    assert action.id in ("predict.stop",) or not holds(), f"{action.id} would prove nothing: it holds before"
    await do()
    try:
        await driver.until(holds, 4.0)
    except AssertionError as error:
        raise AssertionError(f"{action.id} by {way}: {error}") from None
    if driver.app.is_running:
        await driver.folded()
        await case.after(driver)
        await driver.back()


@pytest.fixture
def predicting_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions and checks are told by their stage and go on until they are stopped."""

    async def run(self: Predicting, stage: str, words: object) -> None:
        self.stage = stage

    monkeypatch.setattr(Predicting, "_run", run)


@pytest.mark.parametrize(("scope", "phase"), groups())
async def test_actions_by_each_key_and_by_mouse(tmp_path, monkeypatch, predicting_stands_still, scope, phase):
    ours = [
        action
        for action in ACTIONS
        if action.scope == scope and CASES[action.id].phase == phase and action.id not in ENDING
    ]
    async with replayed(tmp_path, monkeypatch, phase) as driver:
        for action in ours:
            for key in action.keys.split(","):
                await prove(driver, action, lambda key=key: driver.press(key), f"key {key}")
            await prove(driver, action, lambda action=action: driver.click(action), "mouse")


@pytest.mark.parametrize("way", ["key", "mouse"])
@pytest.mark.parametrize("name", ENDING)
async def test_actions_that_end_something(tmp_path, monkeypatch, name, way):
    action = next(action for action in ACTIONS if action.id == name)
    for key in action.keys.split(",") if way == "key" else [""]:
        place = tmp_path / (key or "mouse")
        place.mkdir()
        async with replayed(place, monkeypatch, CASES[name].phase) as driver:
            await prove(driver, action, lambda key=key: driver.press(key) if key else driver.click(action), way)
            if name == "data.start":
                driver.worker.play(40)
                await driver.sees("Leaderboard")


async def choose_first(driver: Replayed, title: str) -> None:
    """Click the first option of a dialog twice, once it is laid out."""
    await driver.sees(title, "Leave it as it is")
    await driver.pilot.pause(0.1)
    await driver.pilot.click("#options", offset=(6, 0), times=2)


async def test_a_whole_run_by_mouse_alone(tmp_path, monkeypatch):
    """From the plan to the pause, a stopped model, the finish and the export, without a key."""
    async with replayed(tmp_path, monkeypatch, "before") as driver:
        await driver.pilot.click("#start")
        await driver.until(lambda: driver.worker.state.stage == "fitting")
        driver.worker.play(60)
        await driver.folded()
        await driver.sees("Leaderboard", "LightGBM")
        assert await driver.click_part(KeyBar, "pause")
        await driver.until(lambda: driver.app.snapshot().state.paused)
        assert await driver.click_part(KeyBar, "pause")
        await driver.until(lambda: not driver.app.snapshot().state.paused)
        board = driver.app.screen.query_one(Leaderboard)
        place = [row.key for row in board.rows].index(MODEL)
        await driver.pilot.click(Leaderboard, offset=(8, place + 2))
        assert board.key == MODEL
        assert await driver.click_part(KeyBar, "stop_model")
        await choose_first(driver, "Stop LightGBM?")
        await driver.sees("stopped by you")
        assert await driver.click_part(KeyBar, "finish")
        driver.folder.bundle.write_bytes(b"a bundle")
        await choose_first(driver, "Finish now?")
        await driver.until(lambda: driver.app.snapshot().state.finished is not None)
        await driver.sees("✓ done")
        assert await driver.click_part(KeyBar, "app.export")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
