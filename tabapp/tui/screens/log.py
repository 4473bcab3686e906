"""Log screen: events of the run and output of its engine, with search."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.widgets import Input

from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import RunView
from tabapp.tui.viewmodels.texts import MUTED, Snapshot
from tabapp.tui.widgets.log_table import LogTable


class LogView(RunView):
    """The log as one table."""

    CSS_PATH = sheet("log")
    VIEW: View = "log"
    MAIN = "#log"
    FILTER_HINT = "search · enter goes to the next place, then n and N · esc clears it"
    BINDINGS: ClassVar = bindings_for("log")

    def compose_body(self) -> ComposeResult:
        yield LogTable(self.tabapp.folder.log)

    def draw(self, snapshot: Snapshot) -> None:
        self.query_one(LogTable).show_state(snapshot.state)

    @on(Table.Moved, "#log")
    def _cursor_moved(self) -> None:
        self.query_one(LogTable).show_titles()

    def set_filter(self, text: str) -> None:
        self.query_one(LogTable).search = text

    @on(Input.Submitted, "#filter")
    def _searched(self) -> None:
        self.action_find(1)

    def action_find(self, direction: int) -> None:
        table = self.query_one(LogTable)
        if not table.find(direction):
            text = (
                f"“{table.search}” does not occur in these lines."
                if table.search
                else "Press / to enter a search text."
            )
            self.notify(text, severity="warning")

    def action_level(self) -> None:
        self.query_one(LogTable).next_level()
        self.redraw()

    def action_follow(self) -> None:
        table = self.query_one(LogTable)
        if table.is_at_end:
            self.warn("The log already follows its last line.")
        table.action_move_to(-1)

    @on(Table.Selected, "#log")
    def action_details(self) -> None:
        line = self.query_one(LogTable).line
        if line is None:
            self.warn("There is no line under the cursor.")
        else:
            clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.t)) if line.t is not None else "printed"
            self.tabapp.push_screen(Reading("Log", Content.assemble((f"{clock}  {line.kind}\n\n", MUTED), line.text)))
