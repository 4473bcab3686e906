"""The web interface in headless Chromium. Skipped where Chromium is not installed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tabapp.run.record.folder import list_runs
from tests.tables import write_wine
from tests.waiting import HANG_SECONDS, wait_until

pytest.importorskip("textual_serve", reason="the extra `web` is not installed")
from tests.e2e.browser import CONTROL, PROGRAM, Browser

pytestmark = [pytest.mark.slow, pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")]


def processes_about(folder: Path) -> list[psutil.Process]:
    """Processes whose command line contains a folder."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(folder) in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder; the teardown kills every process that uses it."""
    yield tmp_path
    for process in processes_about(tmp_path):
        with suppress(psutil.Error):
            process.kill()


def leaderboard(screen: str) -> str:
    """Names and scores of the leaderboard, without the columns that change constantly."""
    rows = [line.split("│")[1] for line in screen.splitlines() if line.count("│") > 1]
    return "\n".join(" ".join(row.split()[:6]) for row in rows if "0." in row)


async def test_run_started_in_one_tab_is_shown_in_every_tab(place: Path) -> None:
    data, runs = write_wine(place / "wine.csv"), place / "runs"
    words = [sys.executable, "-m", "tabapp", str(data), "--web", "--port", "0", "--runs-dir", str(runs)]
    words += ["--models", "linear,lightgbm", "--trials", "2"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    address = (await asyncio.to_thread(server.stdout.readline)).strip()
    assert address.startswith("http://127.0.0.1:")
    async with Browser(place) as browser, await browser.tab() as first, await browser.tab() as second:
        await first.open(address)
        await second.open(address)
        await first.wait("Plan")
        await second.wait("cultivar")
        await first.key("r", modifiers=CONTROL)
        early = await first.wait("Leaderboard")
        later = await first.wait("2 models · best 0.")
        assert leaderboard(early) != leaderboard(later)
        assert "Linear model" in leaderboard(later)
        assert "LightGBM" in leaderboard(later)
        await second.key("1")
        assert "Linear model" in await second.wait("2 models · best 0.")
        (run,) = list_runs(runs)
        await asyncio.to_thread(wait_until, lambda: run.state().finished is not None, "the end of the run")
        best = run.state().best
        assert best is not None
        assert best.score is not None
        for tab in (first, second):
            assert f"best {best.score:.4f}" in await tab.wait("100%")
            assert {url.split("/")[2] for url in tab.requested} == {address.split("/")[2]}, (
                "the page requests another host"
            )
        server.send_signal(signal.SIGINT)
        out, err = await asyncio.to_thread(server.communicate, timeout=HANG_SECONDS)
    assert server.returncode == 0, err
    assert f"tabapp predict {run.bundle}" in out
    assert not [process for process in processes_about(runs) if "tabapp.web.page" in process.cmdline()]
