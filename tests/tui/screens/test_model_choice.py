"""The dialog that chooses the models of a run."""

from __future__ import annotations

import msgspec
from textual.widgets import Input

from tabapp.run.record import events as ev
from tabapp.tui.dialogs import model_page
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.data import DataView
from tests.tui import recordings
from tests.tui.driver import NARROW, drive
from tests.tui.planning import answer, enter, sent


async def test_hyperparameters_are_fixed_in_the_picker(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("M", "equals_sign")
        await driver.sees("Fix hyperparameters of XGBoost")
        await enter(driver, "max_dept")
        await driver.sees("does not have the form MODEL.NAME=VALUE")
        driver.app.screen.query_one(Input).value = "max_dept=3, learning_rate=0.1"
        await driver.press("enter")
        await driver.until(driver.commands)
        fixed = {"xgboost.max_dept": "3", "xgboost.learning_rate": "0.1"}
        assert sent(driver) == {"fixed": fixed, "models": [], "exclude": []}
        await driver.write(
            ev.PlanRefused(message="xgboost has no hyperparameter 'max_dept'; did you mean 'max_depth'?")
        )
        await driver.sees("did you mean")
        driver.app.screen.query_one(Input).value = "max_depth=3"
        await driver.press("enter")
        await driver.until(lambda: len(driver.commands()) == 2)
        await answer(driver)
        await driver.sees("max_depth=3", "space include")
        await driver.press("escape")
        await driver.until(lambda: isinstance(driver.app.screen, DataView))


async def test_the_picker_shows_the_page_of_a_model(tmp_path, monkeypatch):
    class Printed:
        async def communicate(self):
            return b"# XGBoost\n\nGrows trees one after the other.\n", b""

    async def start_child(module, *arguments, **others):
        assert (module, arguments) == ("tabapp", ("models", "xgboost"))
        return Printed()

    monkeypatch.setattr(model_page, "start_child", start_child)
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("M", "i")
        await driver.sees("Model · XGBoost", "Grows trees one after the other.")
        await driver.press("i")
        await driver.sees("space include")


async def test_the_picker_shows_in_full_why_a_model_is_skipped(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=NARROW) as driver:
        await driver.press("M")
        await driver.sees("space include")
        picker = driver.app.screen
        skipped = next(model for model in picker._models if model.reason)
        picker.query_one(Table).move_to_key(skipped.name)
        await driver.until(lambda: skipped.reason in str(picker.query_one("#message").render()))


async def test_a_row_of_the_picker_has_the_clause_that_says_why_a_model_is_skipped(tmp_path, monkeypatch):
    reason = "It needs at least 1,000 training rows; the table has 891."
    plan = recordings.plan()
    choices = tuple(
        msgspec.structs.replace(choice, paper="Geurts, Ernst & Wehenkel 2006", reason=reason if choice.reason else None)
        for choice in plan.choices
    )
    assert any(choice.reason for choice in choices)
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=(120, 36)) as driver:
        await driver.write(msgspec.structs.replace(plan, choices=choices))
        await driver.press("M")
        await driver.sees("space include", " 2006", "needs at least 1,000 training rows")
