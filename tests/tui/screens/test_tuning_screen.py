"""The Tuning screen: every trial, the best so far, and slices."""

from __future__ import annotations

import json

import pytest

from tabapp.run.record import events as ev
from tabapp.tui.dialogs.basic import Choice, Reading
from tabapp.tui.widgets.trial_panels import Trials
from tests.tui import recordings
from tests.tui.driver import NARROW, SIZES, WIDE, drive


def trials_of(driver) -> Trials:
    return driver.app.screen.query_one(Trials)


@pytest.mark.parametrize("size", SIZES)
async def test_all_trials_are_shown_with_curve_and_slice(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("4")
        await driver.sees("Trials · all models", "● 4/5 folds", "★ best", "1 running", "1 failed")
        await driver.sees("Best so far · ", "Slice · learning_rate", "←/→ parameter 1 of 2")
        await driver.press("G")
        await driver.sees("✗ failed", "The fit ran")


async def test_charts_follow_the_model_under_the_cursor(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("down", "4")
        await driver.sees("Best so far · CatBoost")
        assert trials_of(driver).key == "catboost#1", "the best trial of the model that was under the cursor of Run"
        await driver.sees("★")
        trials_of(driver).move_to_key("lightgbm#0")
        await driver.sees("Best so far · LightGBM", "○")
        await driver.press("3")
        await driver.until(lambda: driver.app.screen.query_one("#models").key == "lightgbm")


@pytest.mark.parametrize("size", SIZES)
async def test_arrows_pick_the_parameter(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("4")
        await driver.sees("Slice · learning_rate")
        await driver.press("right")
        await driver.sees("Slice · max_depth", "parameter 2 of 2")
        await driver.press("right")
        await driver.sees("Slice · learning_rate")
        await driver.press("left")
        await driver.sees("Slice · max_depth")


@pytest.mark.parametrize("size", SIZES)
async def test_hyperparameter_importance_is_shown_and_orders_the_slices(tmp_path, monkeypatch, size):
    ranked = ev.ParametersRanked(
        model="catboost",
        n_trials=12,
        rows=(
            ev.ParameterImportance(name="max_depth", importance=0.82),
            ev.ParameterImportance(name="learning_rate", importance=0.18),
        ),
    )
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("down", "4", *(["c"] if size == NARROW else []))
        await driver.until(lambda: trials_of(driver).key == "catboost#1")
        await driver.sees("Importance", "after 10", "Slice · learning_rate")
        await driver.press("right", "right")
        await driver.write(ranked)
        await driver.sees("max_depth", "82%", "18%", "12 trials", "Slice · learning_rate", "parameter 2 of 2")
        await driver.press("right")
        await driver.sees("Slice · max_depth", "parameter 1 of 2")
        trials_of(driver).move_to_key("xgboost#0")
        await driver.sees("Best so far · XGBoost" if size == WIDE else "after 10", "Slice · learning_rate")


async def test_m_chooses_one_model(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("4", "m")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        await driver.sees("all models", "XGBoost")
        await driver.press(*"xgb", "enter")
        await driver.sees("Trials · XGBoost")
        assert {row.key.partition("#")[0] for row in trials_of(driver).rows} == {"xgboost"}
        await driver.press("m", "up", "up", "up", "up", "up", "up", "up", "enter")
        await driver.sees("Trials · all models")


async def test_sorting_by_key_and_by_header(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("4", "s")
        await driver.sees("sorted by score")
        keys = [row.key for row in trials_of(driver).rows]
        assert keys[0] == "catboost#1"
        assert keys[-1] in {"resnet#0", "mlp#3"}
        await driver.pilot.click("#trials", offset=(8, 1))
        await driver.sees("sorted by model")
        assert trials_of(driver).rows[0].key == "catboost#0"


@pytest.mark.parametrize("size", SIZES)
async def test_a_query_narrows_the_trials(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("4", "slash")
        await driver.paste("model:boost score>.87 -pruned")
        await driver.press("enter")
        await driver.until(lambda: len(trials_of(driver).rows) < 6)
        shown = {row.key: row for row in trials_of(driver).rows}
        assert "catboost#1" in shown
        assert all(float(row.cells[2].plain) > 0.87 for row in shown.values())
        await driver.press("slash", "escape", "slash", *"zebra:1")
        await driver.sees("There is no field 'zebra'")
        await driver.press("escape", "slash", *"nothing", "enter")
        await driver.sees("No trial matches “nothing”")


async def test_enter_shows_the_details_of_a_trial(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("down", "4")
        await driver.until(lambda: trials_of(driver).key == "catboost#1")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("CatBoost #1", "0.8789", "Folds", "≠ learning_rate", "default")
        await driver.press("escape", "G", "enter")
        await driver.sees("MemoryError: 2.0 GiB")


async def test_y_copies_the_parameters(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("down", "4")
        await driver.until(lambda: trials_of(driver).key == "catboost#1")
        await driver.press("y")
        best = next(row for row in driver.app.snapshot().state.leaderboard if row.model == "catboost")
        assert json.loads(driver.app.clipboard) == best.params


async def test_the_cursor_stays_on_its_trial_while_others_come(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("4", "down", "down", "down")
        key = trials_of(driver).key
        number = len(trials_of(driver).rows)
        await driver.write(
            ev.TrialFinished(model="xgboost", trial=77, score=0.5, seconds=1.0, params={"max_depth": 2}),
        )
        await driver.until(lambda: len(trials_of(driver).rows) == number + 1)
        assert trials_of(driver).key == key


async def test_before_the_first_trial_there_is_nothing_to_fear(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("4", "enter", "y", "s", "right", "G")
        await driver.sees("Waiting for the first trial", "No complete trial yet")
