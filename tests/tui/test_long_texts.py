"""What does not fit on a line is wrapped or shortened, and nothing essential is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from tabapp.run.lists.description import RunDescription
from tabapp.run.protocol.prediction import Checked, Finding
from tabapp.run.record.analysis import Lines, Series
from tabapp.run.record.folder import RunFolder
from tabapp.tui.content import Content
from tabapp.tui.parts.line_chart import line_chart
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.widgets.diagnosis import Analyses
from tabapp.tui.widgets.run_preview import PreviewFacts, RunPreview
from tests.tui import recordings
from tests.tui.driver import NARROW, WIDE, drive

BESIDE_A_LIST, BELOW_A_LIST = (43, 28), (76, 10)
"""Sizes of the curves of marked runs on terminals of 120 × 36 and 80 × 24."""


def described(name: str, target: str, data: str = "passengers_of_the_titanic.csv") -> RunDescription:
    """A run with a curve."""
    return RunDescription(
        folder=RunFolder(Path("runs") / name),
        status="ok",
        name=name,
        data=data,
        target=target,
        metric_title="ROC AUC",
        best=0.8123,
        curve=((1.0, 0.79), (9.0, 0.8123)),
        seconds=20.0,
    )


def overlay(runs, width, height) -> list[str]:
    return [line.plain for line in RunPreview().draw(PreviewFacts(tuple(runs)), width, height)]


@pytest.mark.parametrize(("width", "height"), [BESIDE_A_LIST, BELOW_A_LIST])
def test_curves_of_one_target_name_it_once(width, height):
    runs = [described(f"{number} attempt of the week with all columns", "Survived") for number in range(3)]
    lines = overlay(runs, width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
    assert "".join(lines).count("Survived") == 1
    for number in range(3):
        (line,) = [line for line in lines if line.startswith(f"{number + 1} ━ ")]
        assert f"{number} attempt of the week" in line
        assert line.endswith(" · 0.8123")


@pytest.mark.parametrize(("width", "height"), [BESIDE_A_LIST, BELOW_A_LIST])
def test_curves_of_several_targets_name_each(width, height):
    runs = [described("first", "Survived"), described("second", "Fare paid")]
    lines = overlay(runs, width, height)
    assert max(map(len, lines)) <= width
    assert any("› Survived" in line for line in lines)
    assert any("› Fare paid" in line for line in lines)
    assert sum(line.endswith(("┤", "0s")) or "┤" in line for line in lines) >= 3


def test_names_that_differ_at_their_ends_keep_them():
    runs = [described(f"everything about the passengers of the ship {end}", "Survived") for end in ("old", "new")]
    lines = overlay(runs, *BESIDE_A_LIST)
    assert any("ship old · 0.8123" in line for line in lines)
    assert any("ship new · 0.8123" in line for line in lines)


def test_the_chart_stays_if_there_is_no_room_for_targets():
    runs = [described(f"run {number}", f"target {number}") for number in range(4)]
    lines = overlay(runs, 40, 10)
    assert len(lines) <= 10
    assert sum("┤" in line for line in lines) >= 3
    assert all(any(line.startswith(f"{number + 1} ━ run {number} · 0.8123") for line in lines) for number in range(4))


@pytest.mark.parametrize("width", [30, 44, 74])
def test_the_legend_of_a_chart_is_wrapped(width):
    points = ((0.0, 1.0), (1.0, 2.0))
    names = ("trained on the same rows", "trained on other rows", "the average of both")
    series = tuple(Series(name, points, (0.5, 1.5), (1.5, 2.5)) for name in names)
    lines = [line.plain for line in line_chart(Lines("Curves", "rows", "score", series), width, 14)]
    assert max(map(len, lines)) <= width
    assert len(lines) <= 14
    legend = " ".join(" ".join(lines).split())
    assert all(name in legend for name in (*names, "faint: 95 % interval"))


async def test_the_analyses_keep_their_names_on_a_narrow_terminal(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished(), size=NARROW, attach=True) as driver:
        await driver.press("9")
        await driver.sees("Learning curve by rows", "Learning curve by time")
        await driver.sees(*(row.cells[1].plain for row in driver.app.screen.query_one(Analyses).rows))


class OneTable(App[None]):
    """A table with cells that wrap."""

    CSS = "Table { height: 7; overflow-x: hidden; overflow-y: auto; scrollbar-size: 1 1; }"

    def compose(self) -> ComposeResult:
        columns = [Column("name"), Column("what", flexible=True, wraps=True)]
        yield Table(columns, id="table")

    @property
    def table(self) -> Table:
        return self.query_one(Table)

    def lines(self) -> list[str]:
        # The last column may have a scroll bar.
        strips = self.screen._compositor.render_strips()[: self.table.size.height]
        return [strip.text[: self.table.size.width - 1].rstrip() for strip in strips]


def rows_of(*texts: str) -> list[Row]:
    return [Row(str(number), (Content(str(number)), Content(text))) for number, text in enumerate(texts)]


LONG = "one two three four five six seven eight eleven twelve"


async def test_a_wrapped_cell_takes_lines_and_the_cursor_moves_by_rows():
    app = OneTable()
    async with app.run_test(size=(24, 8)) as pilot:
        table = app.table
        table.focus()
        table.show(rows_of(LONG, "short", LONG, "last"))
        await pilot.pause()
        assert app.lines()[1:] == [
            " 0     one two three",
            "       four five six",
            "       seven eight",
            "       eleven twelve",
            " 1     short",
            " 2     one two three",
        ]
        await pilot.press("down")
        assert table.key == "1"
        await pilot.press("down")
        await pilot.pause()
        assert (table.key, table.scroll_offset.y) == ("2", 3)
        assert app.lines()[-1].startswith("       eleven twelve")
        await pilot.press("end")
        await pilot.pause()
        assert app.lines()[-1].split()[:2] == ["3", "last"]
        await pilot.press("home")
        await pilot.pause()
        assert (table.key, table.scroll_offset.y) == ("0", 0)
        await pilot.click(Table, offset=(3, 4))
        assert table.key == "0"
        await pilot.click(Table, offset=(3, 6))
        assert table.key == "2"


async def test_a_cell_that_changes_its_lines_moves_the_rows_below():
    app = OneTable()
    async with app.run_test(size=(24, 8)) as pilot:
        app.table.show(rows_of("short", "last"))
        await pilot.pause()
        app.table.show(rows_of(LONG, "last"))
        await pilot.pause()
        assert app.lines()[5].split() == ["1", "last"]
        app.table.show(rows_of(LONG.replace("two", "2nd"), "last"))
        await pilot.pause()
        assert app.lines()[1] == " 0     one 2nd three"
        await pilot.resize_terminal(80, 8)
        await pilot.pause()
        assert app.lines()[2].split() == ["1", "last"]


async def test_a_page_is_as_many_rows_as_fit():
    app = OneTable()
    async with app.run_test(size=(24, 8)) as pilot:
        app.table.focus()
        app.table.show(rows_of(*[LONG] * 6))
        await pilot.pause()
        await pilot.press("pagedown")
        assert app.table.key == "1"
        await pilot.press("pagedown", "pagedown", "pageup")
        assert app.table.key == "2"


@pytest.mark.parametrize("size", [WIDE, (80, 36)])
async def test_the_findings_about_a_file_are_read_in_full_beside_the_chart(tmp_path, monkeypatch, size):
    message = "has 4 values not seen in training, in 299 of 299 rows, which are predicted as unknown levels"
    async with drive(tmp_path, monkeypatch, recordings.finished(), size=size, attach=True) as driver:
        await driver.press("6")
        screen = driver.app.screen
        found = Finding(refused=False, finding="unseen", column="port_of_embarkation_as_written", message=message)
        screen._show_findings(Checked(rows=9, refused=False, findings=(found,), notes=(), target="Survived"))
        screen.set_class(size == WIDE, "-predicted")
        await driver.still()
        region = screen.query_one("#findings").region
        shown = driver.text().splitlines()[region.y : region.bottom]
        # The last column begins below its title.
        start = next(line.index("compared with") for line in shown if "compared with" in line)
        words = " ".join(line[start : region.right - 1].strip() for line in shown)
        assert message in " ".join(words.split())
