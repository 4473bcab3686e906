"""Several targets on the screens: chosen on the Data screen, and shown one after the other."""

from __future__ import annotations

import zipfile
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder, list_runs
from tabapp.tui.app import AttachedApp
from tabapp.tui.widgets.model_panels import Models
from tests.bundle.test_targets import FIXTURE
from tests.formats.make import RUN
from tests.run.recording import ENSEMBLE_ROW, LIGHTGBM_ROW, PLAN, recorded, target_result
from tests.tui.driver import drive
from tests.waiting import HANG_SECONDS


def fixture_run(place: Path) -> RunFolder:
    with zipfile.ZipFile(FIXTURE / RUN) as archive:
        archive.extractall(place)
    return list_runs(place)[0]


async def sees(pilot: Pilot[None], text: str) -> None:
    """Wait until the header shows a text."""
    import asyncio

    async with asyncio.timeout(HANG_SECONDS):
        while text not in str(pilot.app.screen.query_one("#header").render()):
            await pilot.pause()


async def test_the_next_target_is_shown_with_its_own_bundle(tmp_path: Path) -> None:
    folder = fixture_run(tmp_path)
    app = AttachedApp(folder, runs_dir=tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await sees(pilot, "price (1 of 2 · ctrl+n)")
        assert app.snapshot().state.leaderboard[0].score == app.whole_state.leaderboard[0].score
        await pilot.press("ctrl+n")
        await sees(pilot, "city (2 of 2 · ctrl+n)")
        shown = app.snapshot().state
        assert shown.plan is not None
        assert (shown.plan.metric, shown.leaderboard[0].model) == ("log_loss", "ensemble")
        assert app.run_of_target.path == folder.path / "targets/2-city"
        await pilot.press("ctrl+n")
        await sees(pilot, "price (1 of 2 · ctrl+n)")


def two_targets() -> list[ev.Event]:
    """A run that works on the second of two targets."""
    names = ("price", "city")
    second = msgspec.structs.replace(LIGHTGBM_ROW, rank=3, model="xgboost", title="XGBoost", score=0.8)
    events: list[ev.Event] = [recorded("a")[0]]
    for index, name in enumerate(names):
        rows = (ENSEMBLE_ROW, LIGHTGBM_ROW, second)
        events += [
            ev.TargetStarted(index=index, target=name, targets=names, folder=f"targets/{index + 1}-{name}"),
            msgspec.structs.replace(PLAN, target=name, targets=names),
        ]
        for score in (0.5, 0.6, 0.7):
            better = tuple(msgspec.structs.replace(row, score=score - 0.3 * index) for row in rows)
            events.append(ev.LeaderboardChanged(rows=better))
        if not index:
            events.append(ev.TargetFinished(index=0, result=target_result(name, 0.7, leaderboard=better)))
    return events


async def test_each_target_has_its_own_history_cursor_and_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with drive(tmp_path, monkeypatch, two_targets(), attach=True) as driver:
        app = driver.app

        def bests() -> list[float]:
            return [round(score, 2) for _, score in app.snapshot().history]

        assert bests()[:3] == [0.2, 0.3, 0.4]
        await driver.press("3", "G", "space")
        models = app.screen.query_one(Models)
        await driver.until(lambda: models.key == "xgboost" and models.marked == ("xgboost",))
        await driver.press("ctrl+n")
        await driver.until(lambda: models.key == "ensemble" and models.marked == ())
        assert bests()[:3] == [0.5, 0.6, 0.7]
        await driver.press("down")
        await driver.until(lambda: app.chosen_model == "lightgbm")
        await driver.press("ctrl+n")
        await driver.until(lambda: models.key == "xgboost" and models.marked == ("xgboost",))
        assert app.chosen_model == "xgboost"
        await driver.press("ctrl+n")
        await driver.until(lambda: models.key == "lightgbm")


async def test_finishing_says_that_the_next_target_follows_unless_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = two_targets()
    second = next(n for n, event in enumerate(events) if isinstance(event, ev.TargetStarted) and event.index == 1)
    fitting = ev.StageChanged(stage="fitting")
    async with drive(tmp_path, monkeypatch, [*events[: second - 1], fitting], attach=True) as driver:
        await driver.press("1", "F")
        await driver.sees("Finish now?", "Fitting stops, and the next target follows.")
        await driver.press("escape")
        await driver.write(*events[second - 1 :], fitting)
        await driver.press("F")
        await driver.sees("Finish now?", "Fitting stops, and the best models so far become the bundle.")
        await driver.press("y")
        await driver.until(lambda: any("the best models so far become" in toast for toast in driver.toasts()))
