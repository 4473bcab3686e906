"""Several targets on the screens: chosen on the Data screen, and shown one after the other."""

from __future__ import annotations

import zipfile
from pathlib import Path

from textual.pilot import Pilot

from tabapp.run.folder import RunFolder, list_runs
from tabapp.tui.app import AttachedApp
from tests.bundle.test_targets import FIXTURE
from tests.formats.make import RUN
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
        await sees(pilot, "price (1 of 2)")
        assert app.snapshot().state.leaderboard[0].score == app.whole_state.leaderboard[0].score
        await pilot.press("ctrl+n")
        await sees(pilot, "city (2 of 2)")
        shown = app.snapshot().state
        assert shown.plan is not None
        assert (shown.plan.metric, shown.leaderboard[0].model) == ("log_loss", "ensemble")
        assert app.run_of_target.path == folder.path / "targets/2-city"
        await pilot.press("ctrl+n")
        await sees(pilot, "price (1 of 2)")
