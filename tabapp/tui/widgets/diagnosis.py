"""The parts of the Diagnose screen: the list of analyses, and the result of the one under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from tabapp.tui.content import Content
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.diagnosis_entries import Entry
from tabapp.tui.viewmodels.texts import MUTED, spinner
from tabapp.tui.widgets.findings import Findings

MARKS = {
    "done": ("✓", "$success"),
    "running": ("", "$primary"),
    "queued": ("…", "$primary"),
    "failed": ("✗", "bold $error"),
    "open": ("·", MUTED),
    "impossible": ("–", MUTED),
}

LEAST_NOTE, NARROW_LIST = 8, 40
"""Characters of a note at least, such as "no result", and of a list that shows all notes."""


class Analyses(Table):
    """Every analysis with its state; a running one shows how much of its work is done."""

    COLUMNS = (Column("", width=1), Column("analysis", flexible=True, least=8), Column("", "right", priority=1))

    def __init__(self) -> None:
        super().__init__(self.COLUMNS, id="analyses", header=False, empty="The analyses of the run appear here.")
        set_titles(self, "Diagnose", "enter asks · x cancels")
        self._entries: dict[str, Entry] = {}

    def about_row(self) -> Sequence[Content]:
        entry = self._entries.get(self.key or "")
        if entry is None:
            return ()
        text = entry.text or entry.note
        return [Content.assemble((entry.title, "bold"), (": ", MUTED), text)] if text else []

    def show_entries(self, entries: Sequence[Entry], frame: int | None) -> None:
        """Draw the rows of a state."""
        self._entries = {each.key: each for each in entries}
        rows: list[Row] = []
        longest = max((len(each.title) for each in entries), default=0)
        room = max(LEAST_NOTE, self.size.width - min(longest, self.size.width * 2 // 3) - 7)
        is_narrow = self.size.width < NARROW_LIST
        for each in entries:
            mark, style = MARKS[each.status]
            faint = MUTED if each.status == "impossible" else ""
            note = Content.styled(each.note, "$primary" if each.status in ("running", "queued") else MUTED)
            # On a narrow list, the titles need the room of notes that the result repeats.
            note = Content("") if is_narrow and each.status == "done" else note.truncate(room, ellipsis=True)
            cells = (Content.styled(mark or spinner(frame), style), Content.styled(each.title, faint), note)
            rows.append(Row(each.key, cells))
        self.show(rows)
        waiting = sum(each.status in ("running", "queued") for each in entries)
        set_titles(self, f"Diagnose · {waiting} to do" if waiting else "Diagnose")


class Result(VerticalScroll, inherit_bindings=False):
    """The findings of an analysis; longer ones scroll. ←/→ are those of the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_down", show=False),
        Binding("up,k", "scroll_up", show=False),
        Binding("pagedown,ctrl+d", "page_down", show=False),
        Binding("pageup,ctrl+u", "page_up", show=False),
        Binding("home,g", "scroll_home", show=False),
        Binding("end,G", "scroll_end", show=False),
    ]

    class Resized(Message):
        """The view has another size, so that charts are drawn again."""

    def __init__(self) -> None:
        super().__init__(id="result")
        self._shown: tuple[str, Findings] | None = None

    def compose(self) -> ComposeResult:
        yield Static("", id="result-text")

    def on_resize(self) -> None:
        self.post_message(self.Resized())

    @property
    def room(self) -> tuple[int, int]:
        """Characters and lines of the view, without the scroll bar."""
        return max(20, self.size.width - 3), self.size.height

    def show(self, key: str, found: Findings) -> None:
        """Show the findings of an entry; another entry starts at its top."""
        before, self._shown = self._shown, (key, found)
        if before == self._shown:
            return
        self.query_one("#result-text", Static).update(found.content)
        steps = f"←/→ {found.step_name} {found.place + 1} of {found.steps}" if found.step_name else ""
        set_titles(self, found.title, steps)
        if before is None or before[0] != key:
            self.scroll_home(animate=False)
