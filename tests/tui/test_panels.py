"""Zoom, jump mode, and copying or saving what a panel shows, on every screen."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from textual.widgets import Input

from tabapp.errors import UsageError
from tabapp.tui.dialogs.basic import Ask
from tabapp.tui.parts.panel import Panel
from tabapp.tui.parts.panel_files import as_markdown, as_tsv, check_file
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.jump import Jump, places_of
from tests.tui import recordings
from tests.tui.driver import NARROW, WIDE, drive


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_one_key_fills_every_screen_with_the_panel_in_focus(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        for digit in "12345678":
            await driver.press(digit)
            screen = driver.app.screen
            await driver.still()
            before = screen.panel_in_focus().region
            await driver.press("z")
            await driver.until(lambda screen=screen: screen.panel_in_focus().region == screen.query_one("#body").region)
            await driver.press("z" if digit in "135" else "escape")
            await driver.until(lambda screen=screen, before=before: screen.panel_in_focus().region == before)
            assert not screen.query(".-zoom-path, .-zoom-away")


async def test_a_chart_can_be_reached_with_tab_and_fills_the_screen(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("down", "3", "tab", "tab", "tab", "tab")
        screen = driver.app.screen
        assert screen.focused.id == "pictures"
        await driver.press("z")
        await driver.until(lambda: screen.focused.size.width > 110)
        assert "Hyperparameters" not in driver.text()


async def test_a_letter_moves_the_focus_to_its_panel(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("3")
        screen = driver.app.screen
        wanted = next(n for n, widget in enumerate(places_of(screen)) if widget.id == "parameters")
        await driver.press("ctrl+o")
        await driver.until(lambda: isinstance(driver.app.screen, Jump))
        await driver.press("asdfghjkl"[wanted])
        await driver.until(lambda: screen.focused is not None and screen.focused.id == "parameters")
        await driver.press("ctrl+o", "escape")
        await driver.until(lambda: driver.app.screen is screen)
        assert screen.focused.id == "parameters"


async def test_a_row_and_a_table_are_copied(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("down", "y")
        assert "CatBoost" in driver.app.clipboard
        assert "0.8789" in driver.app.clipboard.split("\t")
        await driver.press("Y")
        lines = driver.app.clipboard.splitlines()
        assert len(lines) == 1 + len(driver.app.screen.query_one("#leaderboard", Table).rows)
        assert len({line.count("\t") for line in lines}) == 1
        await driver.press("ctrl+y")
        assert driver.app.clipboard.splitlines()[1].startswith("| --- |")


def test_separators_in_cells_do_not_make_new_cells():
    assert as_tsv([["a\tb", "c\nd"]]) == "a b\tc d"
    assert as_markdown([["x|y"], ["1"]]) == "| x\\|y |\n| --- |\n| 1 |"


async def test_a_panel_is_saved_as_picture_and_as_numbers(tmp_path, monkeypatch):
    place = tmp_path / "saved"
    place.mkdir()
    monkeypatch.chdir(place)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("S")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        name = driver.app.screen.query_one(Input).value
        assert name.endswith("-leaderboard.svg")
        await driver.press("enter")
        await driver.until(lambda: any(name in toast for toast in driver.toasts()))
        picture = Path(name).read_text()
        assert picture.startswith("<svg")
        assert "CatBoost" in picture
        assert "Events" not in picture
        await driver.press("S")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        assert driver.app.screen.query_one(Input).value == name.replace(".svg", "-2.svg"), "no file is replaced"
        await driver.paste("board.csv")
        await driver.press("enter")
        await driver.until(lambda: Path("board.csv").exists())
        rows = list(csv.reader(Path("board.csv").read_text().splitlines()))
        assert "Model" in rows[0]
        assert any("CatBoost" in cell for row in rows[1:] for cell in row)


def test_files_that_cannot_be_saved_are_refused(tmp_path):
    text = Panel("Words")
    (tmp_path / "there.svg").write_text("")
    for name, why in (("a.png", "not an .svg"), ("no/a.svg", "existing folder"), ("a.csv", "no table"),
                      ("there.svg", "already exists")):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            check_file(str(tmp_path / name), text)
