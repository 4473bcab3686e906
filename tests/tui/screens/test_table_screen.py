"""All rows of the table on the screen, with a real reader process over a real file."""

from __future__ import annotations

import asyncio

import pytest

from tabapp.printable import one_line
from tabapp.run.protocol.paging import ReadPage
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.parts.grid import Grid
from tabapp.tui.screens.data import DataView
from tabapp.tui.screens.whole_table import WholeTable
from tests.tui import recordings
from tests.tui.driver import SIZES, WIDE, drive

N_ROWS, N_COLUMNS = 5_000, 150


@pytest.fixture
def file(tmp_path):
    """A table of more rows and columns than any screen has."""
    path = tmp_path / "wide.csv"
    header = ",".join(["row", "kind", *(f"column_{i}" for i in range(2, N_COLUMNS))])
    rows = (",".join([f"{r}", f"kind {r % 3}", *(f"{r}.{c}" for c in range(2, N_COLUMNS))]) for r in range(N_ROWS))
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


async def open_table(driver) -> Grid:
    await driver.until(lambda: driver.app.screen.rows.layout.names)
    await driver.press("a")
    await driver.until(lambda: isinstance(driver.app.screen, WholeTable))
    return driver.app.screen.query_one(Grid)


@pytest.mark.parametrize("size", SIZES)
async def test_the_first_rows_are_there_before_the_engine_has_read_the_file(tmp_path, monkeypatch, file, size):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file), size=size) as driver:
        await driver.sees("Preview · 200 of about", "still reading", "kind 1", "4.2")


async def test_it_scrolls_both_ways_to_the_ends(tmp_path, monkeypatch, file):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file)) as driver:
        grid = await open_table(driver)
        await grid.rows.open()
        await driver.press("G")
        await driver.sees("4999.2", "row 5,000 of 5,000", "5,000 rows × 150 columns")
        await driver.press("dollar_sign")
        await driver.sees("column_149", "4999.149")
        await driver.press("g")
        await driver.sees("row 1 of 5,000", "0.149")
        await driver.press("pagedown", "0", "j", "l")
        assert (grid.rows.row, grid.rows.column) == (grid._window.height - 2 + 1, 1)
        await driver.press("k", "h", "ctrl+right")
        assert grid.rows.column > 5
        lines = driver.text().splitlines()
        assert all(len(line) <= WIDE[0] for line in lines)


async def test_only_what_is_seen_is_fetched(tmp_path, monkeypatch, file):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file)) as driver:
        grid = await open_table(driver)
        await grid.rows.open()
        asked = []
        ask = grid.rows._pager.ask

        async def spy(request):
            if isinstance(request, ReadPage):
                asked.append(request)
                await asyncio.sleep(0.15)
            return await ask(request)

        monkeypatch.setattr(grid.rows._pager, "ask", spy)
        for _ in range(12):
            grid.action_page(8)
        grid.action_to_row(-1)
        await driver.sees("4999.2")
        assert len(asked) <= 4, "pages that were scrolled by are not fetched"
        assert all(request.columns <= 64 for request in asked)


async def test_searching_goes_from_place_to_place(tmp_path, monkeypatch, file):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file)) as driver:
        grid = await open_table(driver)
        await driver.press("n")
        await driver.sees("Press / to enter a search text")
        await driver.press("slash", *"4321.7", "enter")
        await driver.until(lambda: (grid.rows.row, grid.rows.column) == (4321, 7))
        await driver.sees("row 4,322 of 5,000", "4321.7")
        await driver.press("n")
        await driver.until(lambda: (grid.rows.row, grid.rows.column) == (4321, 7))
        await driver.press("slash", *"KIND 2", "enter")


async def test_the_tab_of_the_data_screen_closes_the_table(tmp_path, monkeypatch, file):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file)) as driver:
        await open_table(driver)
        await driver.app.action_view("run")
        await driver.press("2")
        await driver.until(lambda: isinstance(driver.app.screen, WholeTable))
        await driver.press("2")
        await driver.until(lambda: isinstance(driver.app.screen, DataView))


@pytest.mark.slow
async def test_a_search_without_a_match_warns(tmp_path, monkeypatch, file):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file)) as driver:
        await open_table(driver)
        await driver.press("slash", *"zebra", "enter")
        await driver.sees("“zebra” does not occur in these rows")


async def test_a_filter_narrows_and_escape_takes_it_back(tmp_path, monkeypatch, file):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file)) as driver:
        grid = await open_table(driver)
        await driver.press("f")
        await driver.paste('row>4990 kind:"kind 1"')
        await driver.press("enter")
        await driver.until(lambda: grid.rows.height == 3)
        await driver.sees("row 1 of 3", "filter row>4990", "4,994", "4993.2")
        assert driver.app.screen.focused is grid
        await driver.press("f", "escape")
        await driver.until(lambda: grid.rows.height == N_ROWS)
        await driver.press("f")
        await driver.paste("color:red")
        await driver.press("enter")
        await driver.sees("There is no field 'color'")
        await driver.press("f", "escape", "f")
        await driver.paste("nothinglikeit")
        await driver.press("enter")
        await driver.sees("No row fits the filter")


async def test_sorting_by_key_and_by_a_click_on_the_header(tmp_path, monkeypatch, file):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file)) as driver:
        grid = await open_table(driver)
        await driver.press("g", "0", "s", "s")
        await driver.sees("row↓ ", "by row ↓")
        await driver.until(lambda: grid.rows.cell(0, 0) == (True, "4999"))
        await driver.press("s")
        await driver.until(lambda: grid.rows.sorted_by is None and grid.rows.cell(0, 0) == (True, "0"))
        column = driver.text().splitlines()[3].index("kind")
        await driver.pilot.click(grid, offset=(column, 1))
        await driver.sees("by kind ↑")


async def test_a_cell_is_read_in_full_and_copied(tmp_path, monkeypatch):
    path = tmp_path / "long.csv"
    path.write_text('name,story\na,"' + "word " * 300 + 'end"\nb,"two\nlines and \x1b[31mcolor"\n')
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(path)) as driver:
        grid = await open_table(driver)
        await driver.press("l", "y")
        await driver.until(lambda: driver.app.clipboard.endswith("word end"))
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("story", "row 1 · 1,503 characters", "word end")
        await driver.press("escape", "j")
        assert "two⏎lines and ␛[31mcolor" in driver.text(), "nothing in a cell can steer the terminal"
        await driver.press("enter")
        await driver.sees("row 2", "lines and ␛[31mcolor")
        assert grid.rows.row == 1


@pytest.mark.slow
async def test_a_column_is_found_by_its_name_and_enter_on_a_column_opens_there(tmp_path, monkeypatch, file):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file)) as driver:
        grid = await open_table(driver)
        await driver.press("c", *"column_77", "enter")
        await driver.sees("column_77", "0.77")
        assert grid.rows.column == 77
        await driver.press("escape")
        assert isinstance(driver.app.screen, DataView)


@pytest.mark.parametrize("size", SIZES)
async def test_a_on_a_column_of_the_plan_opens_its_rows(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.opening(), size=size) as driver:
        await driver.press("down", "down", "down", "a")
        await driver.until(lambda: isinstance(driver.app.screen, WholeTable))
        await driver.sees("891 rows × 12 columns", "Braund, Mr. Owen Harris")
        assert driver.app.screen._rows.layout.names[driver.app.screen._rows.column] == "Name"


async def test_rows_that_cannot_be_read_are_a_sentence(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await open_table(driver)
        await driver.press("G")
        await driver.sees("there is no such file")


async def test_the_reader_ends_with_the_app(tmp_path, monkeypatch, file):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2], data=str(file)) as driver:
        grid = await open_table(driver)
        await grid.rows.open()
        process = grid.rows._pager._process
        assert process.returncode is None
    assert process.returncode is not None


def test_what_would_move_the_cursor_is_replaced():
    assert one_line("a\tb\nc\x1b[2J\u202e\x07") == "a→b⏎c␛[2J�␇"
    assert one_line("žluťoučký 漢字") == "žluťoučký 漢字"
