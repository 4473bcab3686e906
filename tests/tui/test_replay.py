"""Replays: their bar, their keys, and what they do not offer."""

from __future__ import annotations

from contextlib import asynccontextmanager

from tabapp.tui.replay import ReplayApp
from tabapp.tui.session.opened import Opened
from tabapp.tui.widgets.run_table import Runs
from tests.tui import recordings
from tests.tui.driver import NARROW, WIDE, Driver, FakeProcess


@asynccontextmanager
async def replaying(tmp_path, speed: float, size=WIDE, events=recordings.finished):
    folder = recordings.make_run(tmp_path, "adult.csv")
    recordings.Recorder(folder).write(*events())
    app = ReplayApp(folder, speed, runs_dir=tmp_path)
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Driver(app, pilot, recordings.Recorder(folder), FakeProcess())


async def test_the_bar_names_a_replay_with_its_speed_and_place_at_every_width(tmp_path):
    for size in (WIDE, NARROW, (200, 50)):
        async with replaying(tmp_path / str(size[0]), 0.1, size) as driver:
            await driver.sees("REPLAY 0.1x", "├", "●", "0s of 1m 5", "space pause")
            assert "p Pause" not in driver.text()
            assert "F Finish" not in driver.text()
            assert "x Stop" not in driver.text()


async def test_a_replay_is_paused_moved_back_and_forward_and_made_faster(tmp_path):
    async with replaying(tmp_path, 0.1) as driver:
        app = driver.app

        def is_read() -> bool:
            """Whether the screen has the events up to the place of the replay."""
            return app.snapshot().state.seq == app._replay._next

        await driver.press("1", "space")
        await driver.sees("‖ paused", "· event 1 of ")
        for _ in range(9):
            await driver.press("right")
        await driver.sees("1m 30s of 1m 5")
        await driver.until(lambda: app.snapshot().state.leaderboard)
        late = app.snapshot().state
        for _ in range(5):
            await driver.press("left")
        await driver.sees("40s of 1m 5")
        await driver.until(is_read)
        assert 0 < app.snapshot().state.seq < late.seq
        assert len(app.snapshot().state.trials) < len(late.trials)
        assert driver.toasts() == [], "the events in between are not news"
        before = app.snapshot().state.seq
        await driver.press("full_stop")
        await driver.until(lambda: is_read() and app.snapshot().state.seq > before)
        await driver.press("comma", "comma")
        await driver.until(lambda: is_read() and app.snapshot().state.seq <= before)
        await driver.press("greater_than_sign")
        await driver.sees("REPLAY 0.2x", "‖ paused")
        await driver.press("less_than_sign", "space")
        await driver.sees("REPLAY 0.1x", "▶")


async def test_a_replay_is_left_for_the_run_itself(tmp_path):
    for keys in (["v"], ["7", "enter"]):
        async with replaying(tmp_path / keys[0], 1.0) as driver:
            await driver.sees("v run")
            await driver.press(keys[0])
            if keys[1:]:
                await driver.until(lambda: driver.app.screen.VIEW == "runs" and driver.app.screen.query_one(Runs).rows)
                await driver.press(*keys[1:])
            await driver.until(lambda: not driver.app.is_running)
            assert driver.app.opened == Opened(driver.folder, start_engine=False)


async def test_a_replay_does_not_offer_to_start_the_run(tmp_path):
    async with replaying(tmp_path, 10_000.0, events=recordings.opening) as driver:
        await driver.sees("before its start")
        assert "ctrl+r" not in driver.text()


async def test_steering_in_a_replay_says_that_it_is_one(tmp_path):
    async with replaying(tmp_path, 0.1) as driver:
        await driver.press("1", "space", *["right"] * 6)
        await driver.until(lambda: driver.app.snapshot().state.leaderboard)
        for key in ("p", "x", "F", "plus"):
            driver.app.clear_notifications()
            await driver.press(key)
            await driver.until(lambda: any("This is a replay" in toast for toast in driver.toasts()))
        assert driver.commands() == []


async def test_at_its_end_a_replay_can_go_back(tmp_path):
    async with replaying(tmp_path, 10_000.0) as driver:
        await driver.until(lambda: driver.app.snapshot().state.finished is not None)
        await driver.sees("■ at its end")
        await driver.press("1", "less_than_sign", "space", *["left"] * 3)
        await driver.until(lambda: driver.app.snapshot().state.finished is None)
