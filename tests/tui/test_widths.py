"""Three columns of panels on a broad terminal, and messages that cover little."""

from __future__ import annotations

from itertools import pairwise

import pytest
from textual.widgets._toast import Toast

from tests.tui import recordings
from tests.tui.driver import drive


@pytest.mark.parametrize(
    ("digit", "panels"),
    [
        ("1", ("score-curve", "now", "feed")),
        ("2", ("columns-box", "column", "plan-box")),
        ("3", ("models", "folds", "pictures")),
        ("4", ("trials", "best", "slice")),
    ],
)
async def test_a_broad_terminal_has_three_columns(tmp_path, monkeypatch, digit, panels):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=(200, 50), attach=True) as driver:
        await driver.press(digit)
        await driver.still()
        regions = [driver.app.screen.query_one(f"#{name}").region for name in panels]
        assert all(one.right <= other.x for one, other in pairwise(regions))
        assert min(region.width for region in regions) >= 40
        await driver.pilot.resize_terminal(120, 36)
        await driver.still()
        assert not driver.app.screen.has_class("-broad")


@pytest.mark.parametrize("events", [recordings.running, recordings.finished])
@pytest.mark.parametrize("size", [(160, 24), (160, 36), (200, 50)])
async def test_events_of_a_broad_terminal_are_beside_the_leaderboard(tmp_path, monkeypatch, events, size):
    async with drive(tmp_path, monkeypatch, events(), size=size, attach=True) as driver:
        await driver.press("1")
        await driver.still()
        region_of = {
            name: driver.app.screen.query_one(f"#{name}").region for name in ("body", "run-top", "leaderboard", "feed")
        }
        assert region_of["leaderboard"].right <= region_of["feed"].x
        assert region_of["leaderboard"].bottom == region_of["body"].bottom
        assert region_of["feed"].y == region_of["run-top"].y == region_of["body"].y


async def test_a_message_takes_no_lines_for_margins(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        driver.app.notify("One line.")
        await driver.until(lambda: driver.app.screen.query(Toast))
        await driver.still()
        assert driver.app.screen.query_one(Toast).region.height == 1


async def test_the_direction_of_the_metric_is_beside_its_title(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        for digit in "134":
            await driver.press(digit)
            await driver.until(lambda: driver.text().count("ROC AUC ↑") >= 2)


async def test_a_broad_terminal_shows_the_column_under_the_cursor(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=(200, 50)) as driver:
        driver.app.screen.query_one("#columns").move_to_key("Age")
        await driver.sees("Column · Age", "numeric, feature: 88 different numbers", "19.9% missing · 88 distinct")
        assert "█" in driver.text()
        driver.app.screen.query_one("#columns").move_to_key("Cabin")
        await driver.sees("Column · Cabin", "⚠ Cabin: Cabin is missing in 77 %", "2% B96 B98")
        await driver.pilot.resize_terminal(120, 36)
        await driver.until(lambda: "Column · Cabin" not in driver.text())
        await driver.sees("Cabin categorical")
