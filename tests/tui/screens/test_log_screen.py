"""The Log screen: levels, following, searching."""

from __future__ import annotations

import pytest

from tabapp.run.record import events as ev
from tabapp.run.record.state import FeedLine
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.viewmodels.log_lines import LogLines
from tabapp.tui.widgets.log_table import LogTable
from tests.tui import recordings
from tests.tui.driver import NARROW, SIZES, drive


def log_of(driver) -> LogTable:
    return driver.app.screen.query_one(LogTable)


def test_lines_are_taken_once_and_in_order(tmp_path):
    log = tmp_path / "log.txt"
    lines = LogLines(log)
    feed = tuple(FeedLine(t=float(n), kind="trial", text=f"t{n}") for n in range(4))
    assert lines.take(feed[:2])
    assert not lines.take(feed[:2])
    log.write_text("printed\nhalf a li")
    assert lines.take(feed[1:]), "the feed forgets its oldest lines"
    assert [line.text for line in lines.lines] == ["t0", "t1", "printed", "t2", "t3"]
    log.write_text("printed\nhalf a line\n")
    lines.take(feed)
    assert lines.lines[-1].text == "half a line"
    assert lines.lines[-1].t is None


def test_equal_lines_are_different_lines(tmp_path):
    lines = LogLines(tmp_path / "none")
    feed = [FeedLine(t=1.0, kind="info", text="same")]
    lines.take(tuple(feed))
    feed.append(FeedLine(t=1.0, kind="info", text="same"))
    assert lines.take(tuple(feed))
    assert len(lines.lines) == 2


@pytest.mark.parametrize("size", SIZES)
async def test_the_log_follows_its_end(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        driver.folder.log.write_text("[LightGBM] a warning of the library\n")
        await driver.press("8")
        await driver.sees("Log · everything", "following")
        await driver.write(ev.Log(level="warning", message="The disk is nearly full."))
        await driver.sees("The disk is nearly full.")
        assert log_of(driver).is_at_end
        await driver.press("up")
        await driver.sees("f follows")
        key = log_of(driver).key
        await driver.write(ev.Log(level="info", message="One more line."))
        await driver.until(lambda: log_of(driver).rows[-1].cells[-1].plain == "One more line.")
        assert log_of(driver).key == key, "what is being read does not run away"
        await driver.press("f")
        await driver.sees("following", "One more line.")


async def test_levels(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        driver.folder.log.write_text("[LightGBM] a warning of the library\n")
        await driver.press("8")
        kinds = lambda: {row.cells[1].plain for row in log_of(driver).rows}  # noqa: E731
        await driver.until(lambda: {"fit", "trial", "engine", "error"} <= kinds())
        await driver.press("L")
        await driver.until(lambda: "fit" not in kinds() and "trial" in kinds())
        await driver.press("L")
        await driver.until(lambda: kinds() == {"error"})
        await driver.press("L")
        await driver.sees("Log · engine output", "[LightGBM] a warning of the library")
        assert kinds() == {"engine"}


@pytest.mark.parametrize("size", SIZES)
async def test_searching_goes_round(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.press("8", "slash", *"catboost #1", "enter")
        table = log_of(driver)
        await driver.sees("“catboost #1”")
        hits = [row.key for row in table.rows if "CatBoost #1" in row.cells[-1].plain]
        assert table.key == hits[0]
        await driver.press("n")
        assert table.key == hits[1]
        await driver.press("N", "N")
        assert table.key == hits[-1]
        await driver.press("slash", "escape", "n")
        await driver.sees("Press / to enter a search text")
        await driver.press("slash", *"zebra", "enter")
        await driver.sees("“zebra” does not occur")


async def test_enter_reads_a_long_line(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=NARROW, attach=True) as driver:
        await driver.write(ev.Log(level="info", message="A very long line. " * 8 + "Its end."))
        await driver.press("8")
        await driver.until(lambda: log_of(driver).is_at_end and log_of(driver).rows)
        assert "Its end." not in driver.text()
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("Its end.")


async def test_the_scroll_bar_stands_where_the_lines_do(tmp_path, monkeypatch):
    """The lines are scrolled to their end before there is a bar, which must learn of it."""
    async with drive(tmp_path, monkeypatch, recordings.finished(), attach=True, size=NARROW) as driver:
        await driver.press("8")
        await driver.sees("following")
        log = driver.app.screen.query_one("#log")
        await driver.until(lambda: log.show_vertical_scrollbar)
        await driver.until(lambda: log.vertical_scrollbar.position == log.scroll_y == log.max_scroll_y > 0)
