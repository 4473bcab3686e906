"""Models that were not started within the budget are folded into one line."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.run.record import events as ev
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.widgets.leaderboard import Leaderboard
from tabapp.tui.widgets.model_panels import Models
from tabapp.tui.widgets.model_table import FOLD_KEY
from tests.tui import recordings
from tests.tui.driver import SIZES, drive

NOT_STARTED = tuple(
    ev.LeaderboardRow(
        rank=0, model=f"model{number}", title=f"Model {number}", family="deep", status="skipped",
        reason="not started within the budget", not_started=True,
    )
    for number in range(14)
)  # fmt: skip


def ended(rows: tuple[ev.LeaderboardRow, ...]) -> list[ev.Event]:
    *events, last = recordings.finished()
    assert isinstance(last, ev.RunFinished)
    return [*events, msgspec.structs.replace(last, leaderboard=(*last.leaderboard, *rows))]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("digit", "table"), [("1", Leaderboard), ("3", Models)])
async def test_models_not_started_are_one_line_that_enter_opens(tmp_path, monkeypatch, digit, table, size):
    async with drive(tmp_path, monkeypatch, ended(NOT_STARTED), attach=True, engine_runs=False, size=size) as driver:
        await driver.press(digit, "G")
        await driver.sees(*(("▸ 14 models", "not started · enter") if digit == "1" else ("▸ 14 more", "unstarted")))
        models = driver.app.screen.query_one(table)
        shown = len(models.rows)
        assert models.rows[-1].key == FOLD_KEY
        await driver.press("enter")
        await driver.until(lambda: len(models.rows) == shown + 14)
        assert models.key == FOLD_KEY
        await driver.press("j", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("Model 0", "not started within the budget")
        await driver.press("escape", "k", "enter")
        await driver.until(lambda: len(models.rows) == shown)


async def test_a_filter_looks_at_the_models_not_started(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, ended(NOT_STARTED), attach=True, engine_runs=False) as driver:
        await driver.press("1", "slash", *"13", "enter")
        board = driver.app.screen.query_one(Leaderboard)
        await driver.until(lambda: [row.key for row in board.rows] == ["model13"])


async def test_the_palette_opens_the_fold_for_a_model_in_it(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, ended(NOT_STARTED), attach=True, engine_runs=False) as driver:
        await driver.app.go_to_model("model7")
        board = driver.app.screen.query_one(Leaderboard)
        await driver.until(lambda: board.model == "model7")


async def test_queued_models_and_a_single_one_are_not_folded(tmp_path, monkeypatch):
    queued = tuple(msgspec.structs.replace(row, status="queued", reason=None, not_started=False) for row in NOT_STARTED)
    rows = (
        *queued,
        NOT_STARTED[0].__class__(rank=0, model="m", title="M", family="f", status="skipped", not_started=True),
    )
    async with drive(tmp_path, monkeypatch, ended(rows), attach=True, engine_runs=False) as driver:
        await driver.press("1")
        board = driver.app.screen.query_one(Leaderboard)
        await driver.until(lambda: any(row.key == "model0" for row in board.rows))
        assert FOLD_KEY not in [row.key for row in board.rows]
        assert board.rows[-1].key == "m"
