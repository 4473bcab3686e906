"""Every theme can be read, and the cursor is seen with sixteen colors and without any."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem
from rich.console import Console
from textual.color import Color
from textual.command import CommandList
from textual.theme import BUILTIN_THEMES

from tabapp.tui.chrome.contrast import READABLE, TEXT_COLORS, contrast, readable, surfaces
from tabapp.tui.chrome.theme import THEME
from tabapp.tui.dialogs.basic import Choice
from tabapp.tui.parts.table import Table
from tests.tui import recordings
from tests.tui.driver import drive

THEMES = {**BUILTIN_THEMES, THEME.name: THEME}
OWN = [name for name in THEMES if not name.startswith("ansi")]


def variables_of(name: str) -> dict[str, str]:
    theme = THEMES[name]
    return {**theme.to_color_system().generate(), **theme.variables}


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast(Color.parse("#000"), Color.parse("#fff")) == pytest.approx(21.0)
    assert contrast(Color.parse("#777"), Color.parse("#fff")) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", OWN)
def test_texts_of_a_theme_have_contrast_on_all_that_they_are_written_on(name) -> None:
    found = readable(variables_of(name))
    for color in TEXT_COLORS:
        for surface in surfaces(found):
            assert contrast(Color.parse(found[color]), surface) >= READABLE, (color, surface)
    foreground = Color.parse(found["foreground"])
    for surface in surfaces(found):
        assert contrast(surface.blend(foreground, 0.6, 1.0), surface) >= 2.25, "muted text"


def test_light_themes_lack_contrast_as_they_are() -> None:
    """The winner of the leaderboard was orange on blue."""
    found = variables_of("textual-light")
    assert contrast(Color.parse(found["accent"]), Color.parse(readable(found)["cursor"])) < 2.5


@pytest.mark.parametrize("name", [name for name in THEMES if name.startswith("ansi")])
def test_the_colors_of_the_terminal_stay(name) -> None:
    found = readable(variables_of(name))
    assert found.pop("cursor") == found["primary"] + " 30%"
    assert found == variables_of(name)


def row_styles(driver, table: Table, y: int) -> list:
    strip = table.render_line(y)
    return [segment.style for segment in strip if segment.text.strip()]


@pytest.mark.parametrize("theme", ["tabapp", "textual-light", "ansi-dark"])
@pytest.mark.parametrize("limits", ["-sixteen", "-no-color"])
async def test_the_cursor_is_seen_without_shades(tmp_path, monkeypatch, theme, limits) -> None:
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        driver.app.theme = theme
        driver.app.set_class(True, limits)
        await driver.press("3", "down")
        table = driver.app.screen.query_one("#models", Table)
        await driver.until(lambda: all(style.reverse for style in row_styles(driver, table, 2)))
        assert not any(style.reverse for style in row_styles(driver, table, 3))
        await driver.press("tab")
        await driver.until(lambda: all(style.underline for style in row_styles(driver, table, 2)))
        await driver.press("2", "1", "4", "m")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        options = driver.app.screen.query_one(Table)
        await driver.until(lambda: all(style.reverse for style in row_styles(driver, options, 0)))


@pytest.mark.parametrize("limits", ["-sixteen", "-no-color"])
async def test_the_chosen_line_of_the_palette_is_seen_without_shades(tmp_path, monkeypatch, limits) -> None:
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        driver.app.set_class(True, limits)
        await driver.press("ctrl+p")
        await driver.palette_is_full()
        options = driver.app.screen.query_one(CommandList)
        options.highlighted = 0
        await driver.pilot.pause()
        underlined = [any(segment.style.underline for segment in options.render_line(y)) for y in range(6)]
        assert underlined[0]
        assert not all(underlined)


async def test_no_color_is_noticed(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        assert driver.app.has_class("-no-color")


@pytest.mark.parametrize("name", OWN)
def test_plain_text_and_the_winner_are_seen_with_sixteen_colors(name) -> None:
    """After the terminal's nearest of sixteen colors is taken, texts differ from the background."""
    found = readable(variables_of(name))
    nearest = lambda text: Color.parse(text).rich_color.downgrade(ColorSystem.STANDARD).number  # noqa: E731
    for color in ("foreground", "accent", "primary", "error"):
        assert nearest(found[color]) != nearest(found["background"]), color
    assert Console(color_system="standard").color_system == "standard"
