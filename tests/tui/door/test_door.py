"""The front door: what it lists, what it opens, and that a run below it continues."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual.widgets import Input

from tabapp.errors import UsageError
from tabapp.run.lists.description import describe_run
from tabapp.run.options.config import RunConfig
from tabapp.run.options.defaults import config_for
from tabapp.run.options.settings import Settings
from tabapp.tui.dialogs.basic import Ask, Choice, Reading
from tabapp.tui.dialogs.file_choice import FileChoice
from tabapp.tui.door import screen
from tabapp.tui.door.app import DoorApp
from tabapp.tui.door.files_here import FilesHere
from tabapp.tui.door.screen import TIPS, Door
from tabapp.tui.screens.help import Help
from tabapp.tui.session.opened import Opened
from tabapp.tui.viewmodels.run_list import about_status
from tabapp.tui.widgets.run_table import Runs
from tests.tui import recordings
from tests.tui.driver import NARROW, WIDE, Driver, FakeProcess, drive


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with two tables and a text without a table's suffix."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("wine.csv", "adult.csv.gz", "notes.md"):
        (folder / name).write_text("a,b\n1,2\n")
    monkeypatch.chdir(folder)
    return folder


@asynccontextmanager
async def at_door(runs_dir, size=WIDE, settings: Settings | None = None) -> AsyncIterator[Driver]:
    app = DoorApp(runs_dir=runs_dir, settings=settings or Settings())
    async with app.run_test(size=size, notifications=True) as pilot:
        driver = Driver(
            app, pilot, recordings.Recorder(recordings.make_run(runs_dir / "unused", "x.csv")), FakeProcess()
        )
        await driver.until(lambda: isinstance(app.screen, Door) and not app.screen._reader.is_reading)
        await pilot.pause()
        yield driver


def ended_run(runs_dir, place):
    folder = recordings.make_run(runs_dir, str(place / "wine.csv"))
    recordings.Recorder(folder).write(*recordings.finished())
    return folder


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_runs_and_tables_are_listed_with_the_runs_of_each_table(tmp_path, place, size):
    folder = ended_run(tmp_path / "runs", place)
    async with at_door(tmp_path / "runs", size) as driver:
        await driver.until(lambda: [row.key for row in driver.app.screen.query_one(Runs).rows] == [folder.run])
        await driver.sees("wine.csv", "adult.csv.gz", "✓ 1", "2 tables", "1 run", "Survived", "0.88")
        assert "notes.md" not in driver.text()
        assert driver.app.screen.query_one(Runs).has_focus


async def test_a_newcomer_starts_at_the_first_table_and_enter_opens_its_plan(tmp_path, place):
    async with at_door(tmp_path / "runs") as driver:
        await driver.until(lambda: driver.app.screen.query_one(FilesHere).has_focus)
        await driver.sees("No runs yet. Choose a file")
        assert "Resume" not in driver.text()
        await driver.press("down", "enter")
        await driver.until(lambda: driver.app.opened is not None)
        opened = driver.app.opened
        assert (opened.start_engine, opened.resumed) == (True, False)
        assert opened.folder.path.parent == tmp_path / "runs"
        assert opened.folder.config() == RunConfig(data=str(place / "wine.csv"), start=False)


async def test_enter_opens_a_run_and_r_gives_a_complete_one_more_time(tmp_path, place):
    folder = ended_run(tmp_path / "runs", place)
    async with at_door(tmp_path / "runs") as driver:
        await driver.until(lambda: driver.app.screen.query_one(Runs).rows)
        await driver.press("r")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        await driver.sees("Continue the run with more time", "as much as before")
        await driver.press("escape", "plus")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        await driver.press("escape", "enter")
        await driver.until(lambda: driver.app.opened == Opened(folder, start_engine=False))


async def test_the_keys_below_are_those_of_the_list_in_focus(tmp_path, place):
    ended_run(tmp_path / "runs", place)
    async with at_door(tmp_path / "runs") as driver:
        await driver.sees("tab Files", "r Resume", "+ More", "n New")
        await driver.press("tab")
        await driver.sees("tab Runs")
        assert "r Resume" not in driver.text()
        for key in ("r", "n"):
            driver.app.clear_notifications()
            await driver.press(key)
            await driver.until(lambda: any("There is no run under the cursor." in toast for toast in driver.toasts()))
        assert driver.app.opened is None


@pytest.mark.parametrize("tip", TIPS)
async def test_every_tip_can_be_read_on_a_narrow_terminal(tmp_path, place, monkeypatch, tip):
    monkeypatch.setattr(screen, "TIPS", (tip,))
    async with at_door(tmp_path / "runs", NARROW) as driver:
        await driver.sees(f"Tip: {tip}")


async def test_finding_narrows_both_lists_and_escape_shows_all(tmp_path, place):
    folder = ended_run(tmp_path / "runs", place)
    async with at_door(tmp_path / "runs") as driver:
        door = driver.app.screen
        await driver.until(lambda: door.query_one(Runs).rows)
        await driver.press("slash", *"adult")
        await driver.until(lambda: [row.key for row in door.query_one(FilesHere).rows] == ["adult.csv.gz"])
        assert not door.query_one(Runs).rows
        await driver.press("enter")
        await driver.until(lambda: door.query_one(FilesHere).has_focus)
        await driver.press("slash", "escape")
        await driver.until(lambda: [row.key for row in door.query_one(Runs).rows] == [folder.run])
        assert driver.app.is_running, "escape clears the search and does not quit"


async def test_another_file_help_and_quit(tmp_path, place):
    async with at_door(tmp_path / "runs") as driver:
        await driver.press("o")
        await driver.until(lambda: isinstance(driver.app.screen, FileChoice))
        await driver.press("escape", "question_mark")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("Files here", "The tables in the working folder")
        await driver.press("escape", "q")
        await driver.until(lambda: not driver.app.is_running)
        assert driver.app.opened is None


async def test_a_run_that_cannot_be_read_says_why(tmp_path, place):
    folder = ended_run(tmp_path / "runs", place)
    (folder.path / "run.json").write_text("{")
    async with at_door(tmp_path / "runs") as driver:
        await driver.until(lambda: driver.app.screen.query_one(Runs).rows)
        await driver.press("enter")
        await driver.until(lambda: any("cannot be understood" in toast for toast in driver.toasts()))
        await driver.press("n")
        assert driver.app.opened is None


async def test_o_opens_the_door_over_a_run_whose_engine_continues(tmp_path, monkeypatch, place):
    other = ended_run(tmp_path, place)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("o")
        await driver.until(lambda: isinstance(driver.app.screen, Door))
        await driver.sees("▸", "wine.csv", "Files here")
        await driver.press("escape")
        await driver.until(lambda: not isinstance(driver.app.screen, Door))
        assert driver.app.is_running
        await driver.press("o")
        await driver.until(
            lambda: isinstance(driver.app.screen, Door) and len(driver.app.screen.query_one(Runs).rows) == 2
        )
        driver.app.screen.query_one(Runs).move_to_key(other.run)
        await driver.press("enter")
        await driver.until(lambda: driver.app.opened is not None)
        assert driver.app.opened == Opened(other, start_engine=False)
        assert driver.commands() == [], "the engine of the run below receives nothing"


def test_a_file_gets_the_defaults_of_the_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        run={"budget": "2m", "models": ["catboost", "linear"], "quiet": True, "test": "new.csv", "kind": {"a": "text"}}
    )
    config = config_for(tmp_path / "t.csv", settings)
    assert (config.budget, config.models, config.kinds) == (120.0, ("catboost", "linear"), {"a": "text"})
    assert config.test == str(tmp_path / "new.csv")
    assert not config.start
    with pytest.raises(UsageError, match="--folds"):
        config_for(tmp_path / "t.csv", Settings(run={"folds": 1}))


def test_the_first_paint_of_the_door_loads_no_numeric_library(tmp_path):
    code = (
        "import json, sys\nfrom pathlib import Path\nfrom tabapp.tui.browse import show_door\nimport tabapp.tui.door.app\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert not {"numpy", "polars", "torch", "sklearn", "optuna", "lightgbm"} & set(loaded)


async def test_names_of_runs_have_room_at_80_columns(tmp_path, place):
    (place / "a-table-with-a-very-long-name.csv").write_text("a,b\n1,2\n")
    folder = recordings.make_run(tmp_path / "runs", str(place / "a-table-with-a-very-long-name.csv"))
    recordings.Recorder(folder).write(*recordings.finished())
    async with at_door(tmp_path / "runs", NARROW) as driver:
        table = driver.app.screen.query_one(Runs)
        await driver.until(lambda: table.rows)
        assert table._widths[2] >= table._columns[2].least
        await driver.sees(f"…{folder.short_id[-5:]}")


async def test_all_keys_of_the_door_fit_into_80_columns(tmp_path, place):
    ended_run(tmp_path / "runs", place)
    async with at_door(tmp_path / "runs", NARROW) as driver:
        await driver.sees(
            "enter Open", "o Other", "r Resume", "+ More", "n New", "tab Files", "/ Find", "? Help", "q Quit"
        )


async def test_help_at_the_door_begins_with_the_run_or_file_under_the_cursor(tmp_path, place):
    ended_run(tmp_path / "runs", place)
    async with at_door(tmp_path / "runs") as driver:
        await driver.until(lambda: driver.app.screen.query_one(Runs).rows)
        await driver.press("question_mark")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        first, second, *_ = driver.app.screen._sections
        assert first.plain.startswith("Under the cursor\n")
        assert "wine.csv › Survived. It is complete; enter shows its result, and + continues it" in first.plain
        assert second.plain.startswith("Runs\n")
        await driver.press("escape", "tab", "question_mark")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        first, second, *_ = driver.app.screen._sections
        assert "enter opens its Data screen" in first.plain
        assert second.plain.startswith("Files here\n")


async def test_a_run_is_found_again_by_the_name_that_it_gets_at_the_door(tmp_path, place):
    folder = ended_run(tmp_path / "runs", place)
    async with at_door(tmp_path / "runs") as driver:
        await driver.until(lambda: driver.app.screen.query_one(Runs).rows)
        await driver.press("f2")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        driver.app.screen.query_one(Input).value = "sunday"
        await driver.press("enter")
        await driver.sees("sunday")
        await driver.press("slash", *"sund")
        await driver.until(lambda: [row.key for row in driver.app.screen.query_one(Runs).rows] == [folder.run])


@pytest.mark.parametrize(
    ("status", "best", "words"),
    [
        ("running", 0.8, "It is running"),
        ("ok", 0.8, "+ continues it"),
        ("stopped", 0.8, "r resumes it"),
        ("interrupted", 0.8, "r resumes it"),
        ("stopped", None, "n opens its plan"),
        ("failed", None, "It has failed"),
    ],
)
def test_the_status_of_a_run_is_said_with_the_key_that_continues_it(tmp_path, place, status, best, words):
    folder = ended_run(tmp_path / "runs", place)
    assert words in about_status(replace(describe_run(folder), status=status, best=best))
