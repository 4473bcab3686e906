"""SteerableView a run from its screens: each action by key, what it sends, what the row says then, and how it is taken back."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.run.record import events as ev
from tabapp.tui.dialogs.basic import Decision
from tests.tui import recordings
from tests.tui.driver import SIZES, drive

PLACES = {"run": "1", "models": "3", "tuning": "4"}
SLOW_RUN, SLOW_MODELS, SLOW_TUNING = (pytest.param(view, marks=pytest.mark.slow) for view in PLACES)


async def go(driver, view, model="catboost"):
    """To a screen, with the cursor on a model."""
    await driver.press(PLACES[view])
    await driver.until(lambda: view == driver.app.screen.VIEW)
    if view == "tuning":
        driver.app.screen.query_one("#trials").move_to_key(f"{model}#0")
    else:
        driver.app.screen.query_one({"run": "#leaderboard", "models": "#models"}[view]).move_to_key(model)
    await driver.until(lambda: driver.app.screen.steered_model() == model)


async def tell(driver, model="catboost", **changes):
    """Play the engine's answer: a row that has changed."""
    rows = tuple(
        msgspec.structs.replace(row, **changes) if row.model == model else row
        for row in driver.app.snapshot().state.leaderboard
    )
    await driver.write(ev.LeaderboardChanged(t=recordings.START + 76, rows=rows))


@pytest.mark.parametrize("view", ["run", SLOW_TUNING])
async def test_a_model_is_stopped_and_resumed(tmp_path, monkeypatch, view):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await go(driver, view)
        await driver.press("x")
        await driver.sees("Stop CatBoost?", "Its running fits end")
        await driver.press("y")
        assert driver.commands() == [{"command": "stop_model", "model": "catboost"}]
        await tell(driver, held="stopped", activity="", status="ok")
        await driver.press("1")
        await driver.sees("■ stopped by you")
        await go(driver, view)
        await driver.press("x")
        assert driver.commands()[-1] == {"command": "resume_model", "model": "catboost"}


async def test_the_list_of_models_says_who_was_stopped(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await tell(driver, held="stopped", activity="", status="skipped", score=None, reason="stopped by you")
        await go(driver, "models")
        await driver.sees("■ stopped", "■ stopped by you")


@pytest.mark.parametrize(
    ("view", "key"),
    [
        ("run", "P"),
        pytest.param("tuning", "P", marks=pytest.mark.slow),
        pytest.param("models", "P", marks=pytest.mark.slow),
    ],
)
async def test_a_model_is_paused_and_resumed(tmp_path, monkeypatch, view, key):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await go(driver, view)
        await driver.press(key)
        assert driver.commands() == [{"command": "pause_model", "model": "catboost"}]
        await tell(driver, held="paused", activity="")
        await driver.press("1")
        await driver.sees("‖ paused by you")
        await go(driver, view)
        await driver.press(key)
        assert driver.commands()[-1] == {"command": "resume_model", "model": "catboost"}


@pytest.mark.parametrize("view", ["run", SLOW_TUNING, SLOW_MODELS])
async def test_a_model_gets_a_larger_share_and_gives_it_back(tmp_path, monkeypatch, view):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await go(driver, view)
        await driver.press("plus")
        await driver.sees("CatBoost: double its share of the time", "now ×1", "The whole run: 5m more")
        await driver.press("plus")
        assert driver.commands() == [{"command": "share_model", "model": "catboost", "share": 2.0}]
        await tell(driver, share=2.0)
        await driver.press("1")
        await driver.sees("CatBoost #1 ×2")
        await driver.press("plus", "minus")
        if view == "run":
            assert driver.commands()[-1] == {"command": "share_model", "model": "catboost", "share": 1.0}


@pytest.mark.parametrize("size", SIZES)
async def test_the_run_gets_more_time_and_less_again(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await go(driver, "run")
        for key, seconds in (("1", 60), ("5", 300), ("h", 3600), ("b", -60)):
            await driver.press("plus")
            await driver.until(lambda: isinstance(driver.app.screen, Decision))
            await driver.press(key)
            assert driver.commands()[-1] == {"command": "extend", "seconds": seconds}
        before = driver.text().splitlines()[0]
        await driver.write(
            ev.StageChanged(t=recordings.START + 76, stage="fitting", deadline=recordings.DEADLINE + 300)
        )
        assert driver.text().splitlines()[0] != before
        await driver.sees("~5m 45s left")


async def test_a_run_without_a_time_limit_cannot_get_more_time(tmp_path, monkeypatch):
    events = [
        msgspec.structs.replace(event, deadline=None) if isinstance(event, ev.StageChanged) else event
        for event in recordings.running()
    ]
    async with drive(tmp_path, monkeypatch, events, attach=True) as driver:
        await go(driver, "run")
        await driver.press("plus")
        await driver.sees("The run has no time limit", "double its share")
        assert "The whole run" not in driver.text()


@pytest.mark.parametrize("view", [SLOW_RUN, "tuning", SLOW_MODELS])
async def test_a_model_is_kept_out_of_the_ensemble_and_taken_back(tmp_path, monkeypatch, view):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await go(driver, view)
        await driver.press("i")
        assert driver.commands() == [{"command": "ensemble", "model": "catboost", "include": False}]
        await tell(driver, left_out=True, in_ensemble=0.0)
        await driver.press("1")
        await driver.sees("◇ excluded")
        await go(driver, view)
        await driver.press("i")
        assert driver.commands()[-1] == {"command": "ensemble", "model": "catboost", "include": True}


@pytest.mark.parametrize("key", ["x", "P", "i"])
async def test_what_cannot_be_steered_says_why(tmp_path, monkeypatch, key):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press(key)
        await driver.sees("The ensemble consists of the other models")
        await driver.press("G", key)
        await driver.sees("TabPFN cannot be steered")
        assert driver.commands() == []
        await driver.press("plus")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        assert "TabPFN: twice" not in driver.text()


async def test_nothing_is_steered_before_after_and_while_the_bundle_is_saved(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("4", "x", "P", "plus", "i")
        assert driver.commands() == []
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await go(driver, "run")
        await driver.write(ev.StageChanged(t=recordings.START + 76, stage="exporting", deadline=recordings.DEADLINE))
        await driver.press("x")
        await driver.sees("has finished fitting")
        await driver.press("plus", "P", "i")
        assert driver.commands() == []


async def test_the_footer_can_be_clicked(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await go(driver, "run")
        footer = driver.text().splitlines()[-1]
        await driver.pilot.click("KeyBar", offset=(footer.index("+ More") + 2, 0))
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.sees("CatBoost: double its share")
