"""Every action of the list, by each of its keys and by mouse, on a worker that replays a real run. A new action needs a case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest
from textual.command import CommandPalette

from tabapp.tui.chrome.actions import ACTIONS, STARTING, TABS, Action, Scope
from tabapp.tui.dialogs.basic import Ask, Choice, Decision, Reading
from tabapp.tui.dialogs.column_inspector import ColumnInspector
from tabapp.tui.dialogs.file_choice import FileChoice
from tabapp.tui.dialogs.model_choice import ModelChoice
from tabapp.tui.door.screen import Door
from tabapp.tui.parts.columns import Columns
from tabapp.tui.parts.lines import KeyBar
from tabapp.tui.screens import predict
from tabapp.tui.screens.jump import Jump
from tabapp.tui.screens.whole_table import WholeTable
from tabapp.tui.session.prediction import Prediction
from tabapp.tui.widgets.leaderboard import Leaderboard
from tabapp.tui.widgets.log_table import LogTable
from tabapp.tui.widgets.run_table import Runs
from tabapp.tui.widgets.trial_panels import Trials
from tests.tui.explained import CannedClient
from tests.tui.replayed import (
    MODEL,
    Case,
    Replayed,
    another_run_is_made,
    asks_for_text,
    cell_is_searched,
    changes,
    copies,
    dialog,
    file_is_chosen,
    is_at_work,
    keys,
    other_model_marked,
    plan_is_answered,
    plan_is_changed,
    replay_changes,
    replayed,
    says,
    scrolled_up,
    sends,
    shows,
    text_is_searched,
    undone_by,
)

STEERING = {
    "stop_model": Case(dialog(Decision, "Stop LightGBM?")),
    "more": Case(dialog(Decision, "More budget", "LightGBM: double its share", "The whole run: 1m more")),
    "pause_model": Case(sends("pause_model", "resume_model", model=MODEL)),
    "ensemble": Case(sends("ensemble", model=MODEL)),
}

CASES: dict[str, Case] = {
    "data.start": Case(sends("start"), "ready"),
    "data.cancel_start": Case(says("Start canceled"), "reading", before=keys("ctrl+r")),
    "data.target": Case(dialog(Choice, "Target: the column to predict", "alcohol"), "ready"),
    "data.also_target": Case(sends("plan"), "ready", before=keys("G"), after=plan_is_answered),
    "data.metric": Case(dialog(Choice, "Metric: the score to compare models by", "accuracy"), "ready"),
    "data.models": Case(dialog(ModelChoice, "Models"), "ready"),
    "data.budget": Case(dialog(Choice, "Budget: time for the whole run"), "ready"),
    "data.validation": Case(dialog(Choice, "Validation: how models are scored"), "ready"),
    "data.quality": Case(sends("plan"), "ready", after=undone_by("left")),
    "data.quality.lower": Case(sends("plan"), "ready", after=undone_by("right")),
    "data.reset": Case(says("has its default"), "ready", before=keys("tab")),
    "data.undo": Case(sends("plan"), "ready", before=plan_is_changed, after=plan_is_answered),
    "data.presets": Case(dialog(Choice, "Presets of plans", "save this plan as a preset"), "ready"),
    "data.editor": Case(says("There is no terminal for an editor here"), "ready"),
    "data.kind": Case(dialog(Choice, "Kind of ", "categories without an order"), "ready"),
    "data.inspect": Case(dialog(ColumnInspector, "Column · "), "ready"),
    "data.sort": Case(changes(lambda screen: screen.query_one(Columns).order), "ready"),
    "data.include": Case(sends("plan"), "ready", before=keys("G"), after=plan_is_answered),
    "data.table": Case(lambda driver: lambda: isinstance(driver.app.screen, WholeTable), "ready", after=keys("escape")),
    "data.filter": Case(asks_for_text, "ready"),
    "data.copy": Case(copies("tabapp --auto"), "ready"),
    "table.start": Case(sends("start"), "ready"),
    "run.start": Case(sends("start"), "ready"),
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
    "run.copy": Case(copies("LightGBM")),
    "run.charts": Case(says("All panels are shown")),
    "run.why": Case(dialog(Reading, "Why: LightGBM", "Place")),
    "run.result": Case(changes(lambda screen: screen.has_class("-ended")), "after", after=keys("escape")),
    "run.report": Case(dialog(Ask, "wine.html"), "after"),
    "run.next_target": Case(says("single target")),
    "models.mark": Case(changes(lambda screen: screen.query_one("#models").marked)),
    "models.unmark": Case(changes(lambda screen: screen.query_one("#models").marked), before=other_model_marked),
    "models.details": Case(dialog(Reading, "LightGBM")),
    "models.copy": Case(copies("learning_rate")),
    "models.pause": Case(sends("pause", "resume")),
    **{f"models.{name}": case for name, case in STEERING.items()},
    "models.picture": Case(changes(lambda screen: str(screen.query_one("#pictures").border_subtitle))),
    "models.picture.previous": Case(changes(lambda screen: str(screen.query_one("#pictures").border_subtitle))),
    "models.charts": Case(says("All panels are shown")),
    "tuning.pause": Case(sends("pause", "resume")),
    **{f"tuning.{name}": case for name, case in STEERING.items()},
    "tuning.model": Case(dialog(Choice, "Show the trials of", "all models")),
    "tuning.details": Case(dialog(Reading, "LightGBM #0")),
    "tuning.parameter": Case(changes(lambda screen: screen._parameter)),
    "tuning.parameter.previous": Case(changes(lambda screen: screen._parameter)),
    "tuning.charts": Case(says("All panels are shown")),
    "tuning.sort": Case(changes(lambda screen: screen.query_one(Trials).sort)),
    "tuning.filter": Case(asks_for_text),
    "tuning.copy": Case(copies("learning_rate")),
    "predict.choose": Case(dialog(FileChoice, "The file to predict", "wine.csv"), "after"),
    "predict.start": Case(
        lambda driver: lambda: driver.app.screen._job.stage == "starting", "after", before=file_is_chosen, after=keys("x")
    ),
    "predict.output": Case(dialog(Ask, "Write the predictions to", ".jsonl file"), "after", before=file_is_chosen),
    "predict.keep": Case(changes(lambda screen: screen._job.keep), "after"),
    "predict.fill": Case(changes(lambda screen: screen._job.fill), "after"),
    "predict.trust": Case(dialog(Ask, "The key that must have signed the bundle"), "after"),
    "predict.impute": Case(dialog(Choice, "Impute the missing cells", "trained on the file"), "after", before=file_is_chosen),
    "predict.stop": Case(lambda driver: lambda: not driver.app.screen._job.at_work, "after", before=is_at_work),
    "predict.copy": Case(copies("tabapp predict", "wine-predictions.csv"), "after", before=file_is_chosen),
    "predict.row": Case(shows("row"), "after", before=file_is_chosen, after=keys("escape")),
    "row.close": Case(shows("predict"), "after"),
    "row.edit": Case(dialog(Ask, "What if marital-status were"), "after"),
    "row.undo": Case(says("No value is changed"), "after"),
    "row.fix": Case(changes(lambda screen: len(screen._row.fixed)), "after", after=keys("space")),
    "row.search": Case(dialog(Choice, "Nearest changes to reach the class", "<=50K"), "after"),
    "row.next": Case(changes(lambda screen: screen._row.row), "after", after=keys("N")),
    "row.previous": Case(changes(lambda screen: screen._row.row), "after", after=keys("n")),
    "row.charts": Case(says("All panels are shown"), "after"),
    "row.copy": Case(copies("tabapp explain", "--row 3"), "after"),
    "runs.sort": Case(changes(lambda screen: screen.query_one(Runs).sort), "after"),
    "runs.filter": Case(asks_for_text, "after"),
    "runs.copy": Case(copies("tabapp attach"), "after"),
    "runs.refresh": Case(changes(lambda screen: len(screen.query_one(Runs).rows)), "after", before=another_run_is_made),
    "runs.mark": Case(changes(lambda screen: screen.query_one(Runs).marked), "after", after=keys("space")),
    "runs.compare": Case(says("Mark two runs"), "after"),
    "runs.delete": Case(says("This run is open"), "after"),
    "runs.resume": Case(dialog(Choice, "Continue the run with more time"), "after"),
    "runs.more": Case(dialog(Choice, "Continue the run with more time"), "after"),
    "runs.clone": Case(lambda driver: lambda: driver.app.opened is not None, "after"),
    "runs.replay": Case(lambda driver: lambda: driver.app.opened is not None, "after"),
    "runs.note": Case(dialog(Ask, "Note on"), "after"),
    "runs.tags": Case(dialog(Ask, "Tags of", "tag:WORD"), "after"),
    "runs.rename": Case(dialog(Ask, "Rename", "empty restores"), "after"),
    "runs.pin": Case(changes(lambda screen: screen._reader.runs[0].labels.pinned), "after", after=keys("asterisk")),
    "runs.unmark": Case(lambda driver: lambda: not driver.app.screen.query_one(Runs).marked, "after", before=keys("space")),
    "door.open": Case(says("nothing to open"), "after", before=keys("slash", *"zzz", "enter"), after=keys("slash", "escape")),
    "door.file": Case(dialog(FileChoice, "The table to open", "wine.csv"), "after"),
    "door.resume": Case(dialog(Choice, "Continue the run with more time"), "after"),
    "door.more": Case(dialog(Choice, "Continue the run with more time"), "after"),
    "door.clone": Case(lambda driver: lambda: driver.app.opened is not None, "after"),
    "door.rename": Case(dialog(Ask, "Rename "), "after"),
    "door.find": Case(asks_for_text, "after"),
    "door.help": Case(dialog(Reading, "Files here"), "after"),
    "door.leave": Case(lambda driver: lambda: not isinstance(driver.app.screen, Door), "after"),
    "replay.pause": Case(replay_changes("is_paused"), "replaying", after=keys("space")),
    "replay.forward": Case(replay_changes("position"), "replaying"),
    "replay.back": Case(replay_changes("position"), "replaying"),
    "replay.next": Case(replay_changes("position"), "replaying"),
    "replay.previous": Case(replay_changes("position"), "replaying"),
    "replay.faster": Case(replay_changes("speed"), "replaying"),
    "replay.slower": Case(replay_changes("speed"), "replaying"),
    "replay.leave": Case(lambda driver: lambda: driver.app.opened is not None, "replaying"),
    "run.resume": Case(dialog(Choice, "Continue the run with more time"), "after"),
    "run.clone": Case(lambda driver: lambda: driver.app.opened is not None, "after"),
    "app.open": Case(lambda driver: lambda: isinstance(driver.app.screen, Door), "after", after=keys("escape")),
    "runs.open": Case(shows("run"), "after"),
    "log.search": Case(asks_for_text, "after"),
    "log.next": Case(changes(lambda screen: screen.query_one(LogTable).key), "after", before=text_is_searched),
    "log.previous": Case(changes(lambda screen: screen.query_one(LogTable).key), "after", before=text_is_searched),
    "log.level": Case(
        changes(lambda screen: str(screen.query_one(LogTable).border_title)), "after", after=keys("L", "L", "L")
    ),
    "log.follow": Case(changes(lambda screen: screen.query_one(LogTable).key), "after", before=scrolled_up),
    "log.details": Case(dialog(Reading), "after"),
    "explain.sort": Case(says("permutation is the only order"), "after"),
    "explain.model": Case(says("No fitted model has attention"), "after"),
    "explain.rows": Case(says("No fitted model predicts from other rows"), "after"),
    "explain.diagnose": Case(shows("diagnose"), "after", after=keys("5")),
    "run.diagnose": Case(shows("diagnose"), after=keys("1")),
    "diagnose.ask": Case(dialog(Choice, "the model to train again", "The best model"), "after", before=keys("g", "down", "down")),
    "diagnose.cancel": Case(says("neither running nor queued"), "after"),
    "diagnose.step": Case(says("a single chart"), "after"),
    "diagnose.step.previous": Case(says("a single chart"), "after"),
    "explain.charts": Case(says("All panels are shown"), "after"),
    "run.export": Case(dialog(Ask, "Export the bundle", "./wine.tabapp"), "after"),
    **{f"view.{view}": Case(shows(view), "after", before=keys("8" if view != "log" else "1")) for _, view, _ in TABS},
    "app.theme": Case(lambda driver: lambda: isinstance(driver.app.screen, CommandPalette) and "nord" in driver.text(), "after"),
    "app.zoom": Case(changes(lambda screen: screen.has_class("-zoomed")), "after", after=keys("z")),
    "app.jump": Case(lambda driver: lambda: isinstance(driver.app.screen, Jump), "after", after=keys("escape")),
    "app.copy_table": Case(copies("LightGBM", "\t"), "after"),
    "app.copy_markdown": Case(copies("| LightGBM"), "after"),
    "app.save_panel": Case(dialog(Ask, "Save “Models” as", "-models.svg"), "after"),
    "app.help": Case(dialog(Reading, "Help", "All models of the run"), "after"),
    "app.glossary": Case(dialog(Reading, "Words and signs", "out of fold", "◔"), "after"),
    "app.suspend": Case(says("There is no shell to return to here"), "after"),
    "app.palette": Case(lambda driver: lambda: isinstance(driver.app.screen, CommandPalette), "after"),
    "app.quit": Case(lambda driver: lambda: not driver.app.is_running, "after"),
}  # fmt: skip
ENDING = (
    "data.start",
    "table.start",
    "run.start",
    "run.clone",
    "runs.clone",
    "door.clone",
    "runs.replay",
    "replay.leave",
    "app.quit",
)
"""Actions after which the run, or the app, is another: each is driven in an app of its own."""


def test_every_action_has_a_case_and_every_case_an_action():
    assert set(CASES) == {action.id for action in ACTIONS}
    # A start can be canceled only after it was requested, which its case does while the file is read.
    assert all(CASES[action.id].phase in action.phases for action in ACTIONS if action.phases != STARTING)


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
        await driver.until(holds)
    except AssertionError as error:
        raise AssertionError(f"{action.id} by {way}: {error}") from None
    if driver.app.is_running:
        await driver.folded()
        await case.after(driver)
        await driver.back()


@pytest.fixture
def prediction_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions and checks show their stage and run until they are stopped."""

    async def run(self: Prediction, stage: str, words: object) -> None:
        self.stage = stage

    monkeypatch.setattr(Prediction, "_run", run)
    monkeypatch.setattr(predict, "ExplainerClient", CannedClient)


def ways() -> Iterator[object]:
    """Each group of actions by its keys and by mouse.

    `make test` leaves out screens whose actions have tests of their own, and the mouse, by which another test drives a whole run.
    """
    for scope, phase in groups():
        marks = [pytest.mark.slow] if scope in ("everywhere", "log", "predict", "row", "table") else []
        yield pytest.param(scope, phase, "key", id=f"{scope}-{phase}-key", marks=marks)
        yield pytest.param(scope, phase, "mouse", id=f"{scope}-{phase}-mouse", marks=pytest.mark.slow)


@pytest.mark.parametrize(("scope", "phase", "way"), ways())
async def test_actions_by_each_key_and_by_mouse(tmp_path, monkeypatch, prediction_never_ends, scope, phase, way):
    ours = [
        action
        for action in ACTIONS
        if action.scope == scope and CASES[action.id].phase == phase and action.id not in ENDING
    ]
    async with replayed(tmp_path, monkeypatch, phase) as driver:
        for action in ours:
            if way == "mouse":
                await prove(driver, action, lambda action=action: driver.click(action), "mouse")
                continue
            for key in action.keys.split(","):
                await prove(driver, action, lambda key=key: driver.press(key), f"key {key}")


@pytest.mark.parametrize("way", ["key", pytest.param("mouse", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ENDING)
async def test_actions_that_end_something(tmp_path, monkeypatch, name, way):
    action = next(action for action in ACTIONS if action.id == name)
    for key in action.keys.split(",") if way == "key" else [""]:
        place = tmp_path / (key or "mouse")
        place.mkdir()
        async with replayed(place, monkeypatch, CASES[name].phase) as driver:
            await prove(driver, action, lambda key=key: driver.press(key) if key else driver.click(action), way)
            if driver.app.is_running:
                driver.worker.play(40)
                await driver.sees("Leaderboard")


async def choose_first(driver: Replayed, title: str) -> None:
    """Click the first option of a dialog twice, once it is laid out."""
    await driver.sees(title, "Cancel")
    await driver.still()
    await driver.pilot.click("#options", offset=(6, 0), times=2)


async def test_a_whole_run_by_mouse_alone(tmp_path, monkeypatch):
    """From the plan to the pause, a stopped model, the finish and the export, without a key."""
    async with replayed(tmp_path, monkeypatch, "ready") as driver:
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
