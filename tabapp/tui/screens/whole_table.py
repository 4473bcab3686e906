"""The whole table with search, filter and sorting; only visible rows are fetched."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Input

from tabapp.printable import multi_line, one_line
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Choice, Option, Reading
from tabapp.tui.paging.row_cache import TableRows
from tabapp.tui.parts.grid import Grid
from tabapp.tui.parts.lines import Header, KeyBar, StatusLine, Tabs
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.screens.base import RunView
from tabapp.tui.viewmodels.texts import MUTED, Snapshot, count

SEARCH_HINT = "search · enter finds the next match, then n and N · esc clears"
FILTER_HINT = "filter: words · column:text · column>3 · -not · enter keeps it · esc clears"


class WholeTable(RunView):
    """Covers the Data screen until Escape."""

    CSS_PATH = sheet("table")
    VIEW: View = "table"
    MAIN = "#table"
    BINDINGS: ClassVar = bindings_for("table")

    def __init__(self, rows: TableRows, file: str) -> None:
        super().__init__()
        self._rows = rows
        self._file = file
        self._asking = "search"

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield Header(id="header")
        yield Tabs("data")
        with Container(id="body"):
            yield Grid(self._rows)
        yield Input(id="filter", compact=True)
        yield KeyBar("table")

    def compose_body(self) -> ComposeResult:
        yield from ()

    def on_mount(self) -> None:
        self._rows.trouble = ""
        self._rows.listener = self._changed

    def on_screen_resume(self) -> None:
        self._rows.listener = self._changed

    def _changed(self) -> None:
        if self.is_mounted:
            self.query_one(Grid).show()
            self._show_titles()

    def draw(self, snapshot: Snapshot) -> None:
        grid = self.query_one(Grid)
        if not grid.virtual_size.height:
            grid.show()
        self._show_titles()

    def _show_titles(self) -> None:
        rows, grid = self._rows, self.query_one(Grid)
        n_rows = rows.whole_height if rows.whole_height is not None else rows.height
        title = f"{self._file} · {count(n_rows, 'row')} × {count(len(rows.layout.names), 'column')}"
        words = [rows.busy or f"row {rows.row + 1:,} of {rows.height:,}" if rows.height else rows.busy or "no rows"]
        if rows.trouble:
            words = [rows.trouble]
        elif rows.problem:
            words.append(rows.problem)
        elif rows.filter:
            words.append(f"filter {rows.filter}")
        if rows.sorted_by is not None:
            words.append(f"by {rows.layout.names[rows.sorted_by[0]]} {'↓' if rows.sorted_by[1] else '↑'}")
        if rows.note:
            words.append(rows.note)
        set_titles(grid, one_line(title), one_line(" · ".join(words)))

    # -- actions ------------------------------------------------------------------------------------------------------

    def action_start(self) -> None:
        if self.is_unstarted():
            self.dismiss()
            self.tabapp.start_run()

    def action_close(self) -> None:
        self.dismiss()

    def action_filter(self) -> None:
        """Open the filter line; the action has the name that all screens use."""
        self._ask("filter", FILTER_HINT, self._rows.filter)

    def action_search(self) -> None:
        self._ask("search", SEARCH_HINT, self._rows.search)

    def _ask(self, what: str, hint: str, value: str) -> None:
        self._asking = what
        line = self.query_one("#filter", Input)
        with line.prevent(Input.Changed):
            line.value = value
        line.placeholder = hint
        super().action_filter()

    def set_filter(self, text: str) -> None:
        if self._asking == "filter":
            self.run_worker(self._rows.set_filter(text), exit_on_error=False)
        else:
            self._rows.search = text
            self.query_one(Grid).refresh()

    @on(Input.Submitted, "#filter")
    def _asked(self) -> None:
        if self._asking == "search":
            self.action_find(1)

    def action_find(self, direction: int) -> None:
        if self._rows.search:
            self.run_worker(self._find(direction), exit_on_error=False)
        else:
            self.notify("Press / to enter a search text.", severity="warning")

    async def _find(self, direction: int) -> None:
        text = self._rows.search
        if await self._rows.find(text, direction) is False:
            self.notify(f"“{text}” does not occur in these rows.", severity="warning", markup=False)

    def action_sort(self) -> None:
        """Sort ascending, descending, or in the order of the file, in turn."""
        self._sort(self._rows.column)

    @on(Grid.HeaderClicked)
    def _header_clicked(self, event: Grid.HeaderClicked) -> None:
        self._sort(event.column)

    def _sort(self, column: int) -> None:
        last = self._rows.sorted_by
        if last is None or last[0] != column:
            work = self._rows.sort(column)
        elif not last[1]:
            work = self._rows.sort(column, descending=True)
        else:
            work = self._rows.sort(None)
        self.run_worker(work, exit_on_error=False)

    def action_pick_column(self) -> None:
        names = self._rows.layout.names
        options = [Option(str(index), one_line(name), f"column {index + 1}") for index, name in enumerate(names)]
        dialog = Choice("Go to column", options, current=str(self._rows.column))
        self.tabapp.push_screen(dialog, self._go_to_column)

    def _go_to_column(self, answer: str | None) -> None:
        if answer is not None:
            self.query_one(Grid).move_to(self._rows.row, int(answer))

    def action_copy(self) -> None:
        self.run_worker(self._copy(), exit_on_error=False)

    async def _copy(self) -> None:
        if self._rows.height:
            self.tabapp.copy(await self._rows.text(self._rows.row, self._rows.column))

    @on(Grid.Selected)
    def action_cell(self) -> None:
        self.run_worker(self._show_cell(), exit_on_error=False)

    async def _show_cell(self) -> None:
        rows = self._rows
        if not rows.height:
            return
        row, column = rows.row, rows.column
        text = await rows.text(row, column)
        number = rows.number_of(row)
        place = f"row {number + 1:,} · " if number is not None else ""
        facts = Content.styled(f"{place}{count(len(text), 'character')}\n\n", MUTED)
        shown = multi_line(text.replace("\r\n", "\n"))
        self.tabapp.push_screen(Reading(one_line(rows.layout.names[column]), facts + Content(shown or "(empty)")))

    @on(Grid.Moved)
    def _moved(self) -> None:
        self._show_titles()
