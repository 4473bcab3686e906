"""Sources of the stylesheet are parsed once for each theme."""

from __future__ import annotations

import textual.css.stylesheet

from tests.tui import recordings
from tests.tui.driver import drive


def no_parsing(*arguments: object, **options: object) -> None:
    raise AssertionError("a source was parsed again")


async def test_apps_and_screens_share_parsed_sources(tmp_path, monkeypatch) -> None:
    for name in ("first", "second"):
        async with drive(tmp_path / name, monkeypatch, recordings.opening()) as driver:
            await driver.press("2", "3")
            await driver.pilot.pause()
        monkeypatch.setattr(textual.css.stylesheet, "parse", no_parsing)


async def test_another_theme_changes_the_colors(tmp_path, monkeypatch) -> None:
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        before = driver.app.screen.styles.background
        driver.app.theme = "textual-light"
        await driver.until(lambda: driver.app.screen.styles.background != before)
