"""The plan on the Data screen: its fields, their dialogs and undoing."""

from __future__ import annotations

import msgspec
import pytest
from textual.widgets import Input

from tabapp.run.options.config import OPTIONS
from tabapp.run.record import events as ev
from tabapp.tui.dialogs.basic import Choice
from tabapp.tui.dialogs.edit_value import EditValue
from tabapp.tui.parts.columns import Columns
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.data import DataView
from tabapp.tui.session.plan.editing import title_of
from tabapp.tui.viewmodels.plan_fields import field_names
from tests.tui import recordings
from tests.tui.driver import NARROW, WIDE, drive
from tests.tui.planning import answer, enter, go_to, says, sent


@pytest.mark.parametrize("name", field_names())
async def test_enter_edits_every_field_of_the_plan(tmp_path, monkeypatch, name):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, name)
        await driver.press("enter")
        await driver.until(lambda: not isinstance(driver.app.screen, DataView))
        await driver.sees(OPTIONS[name].title)
        for typed in driver.app.screen.query(Input):
            assert typed.placeholder
            assert (OPTIONS[name].metavar or "") not in typed.placeholder.split()
        await driver.press("escape")
        await driver.until(lambda: isinstance(driver.app.screen, DataView))


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_dialog_of_the_budget_says_what_to_type(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        await driver.press("b")
        await driver.sees("or type a time such as 90s, 10m or 2h")


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("trials", "20", {"trials": 20}),
        ("seed", "7", {"seed": 7}),
        ("memory_limit", "2GiB", {"memory_limit": 2 << 30}),
        ("hide_cells", "0.1", {"hide_cells": 0.1}),
        ("monotonic", "Age=+", {"monotonic": {"Age": "+"}}),
        ("null", "-999,Age=0", {"null": ["-999", "Age=0"]}),
        ("set", "lightgbm.num_leaves=7", {"fixed": {"lightgbm.num_leaves": "7"}}),
        ("name", "first", {"name": "first"}),
        ("delimiter", ";", {"delimiter": ";"}),
    ],
)
async def test_a_typed_value_is_sent_and_the_dialog_closes_when_it_is_accepted(
    tmp_path, monkeypatch, name, text, options
):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, name)
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, EditValue))
        driver.app.screen.query_one(Input).value = text
        await driver.press("enter")
        await driver.until(driver.commands)
        assert sent(driver) == options
        assert isinstance(driver.app.screen, EditValue)
        await answer(driver)
        await driver.until(lambda: isinstance(driver.app.screen, DataView))
        await driver.sees("1 changed · u undoes")


async def test_a_refused_value_stays_in_the_dialog_with_the_sentence_of_the_command_line(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, "trials")
        await driver.press("enter")
        await enter(driver, "many")
        await driver.sees("--trials 'many' is not valid. Use a whole number, 1 or more.")
        driver.app.screen.query_one(Input).value = "5"
        await driver.press("enter")
        await driver.until(driver.commands)
        await driver.write(ev.PlanRefused(message="Too few rows for that."))
        await driver.sees("Too few rows for that.")
        assert driver.app.screen.query_one(Input).value == "5"
        assert not driver.toasts()


async def test_changes_are_marked_and_undone_step_by_step(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, "budget")
        await driver.press("right")
        await driver.until(driver.commands)
        assert sent(driver) == {"budget": 300.0}
        await answer(driver, budget=300.0)
        await go_to(driver, "seed")
        await driver.press("enter")
        await enter(driver, "3")
        await driver.until(lambda: len(driver.commands()) == 2)
        await answer(driver, budget=300.0, seed=3)
        await driver.sees("Plan · 2 changed · u undoes", "•Budget", "•Seed")
        await driver.press("u")
        await driver.until(lambda: len(driver.commands()) == 3)
        assert sent(driver) == {"seed": 0}
        await answer(driver, budget=300.0)
        await driver.sees("Plan · 1 changed")
        await driver.press("u")
        await driver.until(lambda: len(driver.commands()) == 4)
        assert sent(driver) == {"budget": None} or sent(driver) == {"budget": recordings.BUDGET}
        await answer(driver)
        await driver.until(lambda: "changed" not in driver.text())
        await driver.press("u")
        await says(driver, "There is no change of the plan to undo.")


async def test_the_copied_command_is_that_of_the_plan_with_the_last_change(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.change_plan({"seed": 3})
        await driver.press("y")
        driver.app.draw_changes()
        assert not driver.app.clipboard
        await answer(driver, command="tabapp --auto titanic.csv --seed 3")
        await driver.until(lambda: "--seed 3" in driver.app.clipboard)


@pytest.mark.parametrize("name", [name for name in field_names() if name != "monotonic"])
def test_the_title_of_a_dialog_fits_into_its_border(name):
    assert len(title_of(OPTIONS[name])) <= 66


async def test_backspace_gives_a_field_its_default(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.change_plan({"validation": "cv", "folds": 7})
        await answer(driver, validation="7-fold stratified", folds=7)
        await go_to(driver, "validation")
        await driver.press("backspace")
        await driver.until(lambda: len(driver.commands()) == 2)
        assert sent(driver) == {"validation": "auto", "folds": None}


async def test_arrow_keys_in_the_plan_change_its_field_and_elsewhere_the_quality(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await go_to(driver, "validation")
        await driver.sees("auto holdout 3 5 8 10")
        await driver.press("right")
        await driver.until(driver.commands)
        assert sent(driver) == {"validation": "holdout", "folds": None}
        await answer(driver)
        await go_to(driver, "group")
        await driver.press("right")
        await says(driver, "Group has no steps. Press enter to edit it.")
        driver.app.screen.query_one(Columns).focus()
        await driver.press("left")
        await driver.until(lambda: len(driver.commands()) == 2)
        assert sent(driver) == {"quality": "fast"}


async def test_a_further_table_is_written_into_the_configuration_before_the_engine_reads_it(tmp_path, monkeypatch):
    more = tmp_path / "more.csv"
    more.write_text("a,b\n1,2\n")
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.change_plan({"unlabelled": str(more)})
        assert driver.folder.config().unlabelled == str(more)
        assert driver.folder.is_own()
        await answer(driver)
        await driver.press("u")
        await driver.until(lambda: len(driver.commands()) == 2)
        assert sent(driver) == {"unlabelled": None}


async def test_a_proposed_text_is_replaced_by_what_is_typed(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.folder.save_config(msgspec.structs.replace(driver.folder.config(), trials=17))
        await driver.write(recordings.plan(trials=17))
        await go_to(driver, "trials")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, EditValue))
        line = driver.app.screen.query_one(Input)
        await driver.until(lambda: line.has_focus)
        assert line.value == "17"
        await driver.press("5")
        await driver.until(lambda: line.value == "5")


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_explanation_of_a_metric_can_be_read_whole(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        long = max(driver.app.snapshot().state.plan.metrics, key=lambda metric: len(metric.description))
        await driver.press("m")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        driver.app.screen.query_one(Table).move_to_key(long.name)
        await driver.pilot.pause()
        words = long.description.split()
        await driver.sees(" ".join(words[:3]), words[-1])


async def test_a_target_that_was_taken_back_is_not_the_last_word_of_the_events(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.write(recordings.plan(targets=("Survived", "Age")), recordings.plan())
        last = driver.app.snapshot().state.feed[-1]
        assert "Age" not in last.text
        assert "Survived" in last.text
