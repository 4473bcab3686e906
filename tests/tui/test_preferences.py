"""What the next start of the terminal UI remembers, and that a damaged file never stops it."""

from __future__ import annotations

import json
import os

import pytest
from textual.widgets import Input

from tabapp.run.options.settings import Settings
from tabapp.tui.parts.table import Table
from tests.tui import recordings
from tests.tui.driver import NARROW, drive


def again(tmp_path, name: str):
    (tmp_path / name).mkdir()
    return tmp_path / name


async def test_theme_order_and_panels_are_those_of_the_last_time(tmp_path, monkeypatch):
    async with drive(again(tmp_path, "a"), monkeypatch, recordings.running(), size=NARROW, attach=True) as driver:
        await driver.press("s", "4", "s", "s", "c")
        chosen = driver.app.screen.query_one("#trials", Table).sort
        driver.app.theme = "textual-light"
        await driver.pilot.pause()
    async with drive(again(tmp_path, "b"), monkeypatch, recordings.running(), size=NARROW, attach=True) as driver:
        assert driver.app.theme == "textual-light"
        assert driver.app.screen.query_one("#leaderboard", Table).sort == "name"
        assert not driver.app.screen.has_class("-charts")
        await driver.press("4")
        assert driver.app.screen.query_one("#trials", Table).sort == chosen
        assert driver.app.screen.has_class("-charts")


async def test_the_configured_theme_goes_before_the_remembered_one(tmp_path, monkeypatch, own_preferences):
    own_preferences.parent.mkdir()
    own_preferences.write_text(json.dumps({"theme": "nord"}))
    settings = Settings(theme="gruvbox")
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True, settings=settings) as driver:
        assert driver.app.theme == "gruvbox"


async def test_filters_are_recalled_but_never_applied_unasked(tmp_path, monkeypatch):
    async with drive(again(tmp_path, "a"), monkeypatch, recordings.running(), attach=True) as driver:
        for text in ("boost", "net"):
            await driver.press("slash", "ctrl+u", *text, "enter")
    async with drive(again(tmp_path, "b"), monkeypatch, recordings.running(), attach=True) as driver:
        table = driver.app.screen.query_one("#leaderboard", Table)
        everything = len(table.rows)
        line = driver.app.screen.query_one("#filter", Input)
        await driver.press("slash")
        for key, text in (
            ("up", "net"),
            ("up", "boost"),
            ("up", "boost"),
            ("down", "net"),
            ("down", ""),
            ("up", "net"),
        ):
            await driver.press(key)
            assert line.value == text
        await driver.press("up", "enter")
        await driver.until(lambda: 0 < len(table.rows) < everything)


DAMAGED = [
    b"{", b"[]", b'{"theme": 3}', b"\xff\xfe", b"[" * 100_000, b"x" * (2 << 20),
]  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
async def test_a_damaged_file_is_named_and_ignored(tmp_path, monkeypatch, own_preferences, content):
    own_preferences.parent.mkdir()
    own_preferences.write_bytes(content)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.until(lambda: any("is damaged" in toast for toast in driver.toasts()))
        await driver.press("s")
        await driver.sees("sorted by name")
    assert json.loads(own_preferences.read_bytes())["sorts"]["leaderboard"] == "name"


async def test_unknown_content_is_ignored(tmp_path, monkeypatch, own_preferences):
    own_preferences.parent.mkdir()
    known = {"theme": "no-theme", "sorts": {"leaderboard": "no-order"}, "of_a_later_version": [1]}
    own_preferences.write_text(json.dumps(known))
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        assert driver.app.theme == "tabapp"
        assert driver.app.screen.query_one("#leaderboard", Table).sort == "rank"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, own_preferences):
    own_preferences.parent.mkdir(mode=0o500)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("s")
        await driver.sees("sorted by name")
