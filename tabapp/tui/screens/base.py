"""Base of all screens: header, tabs, footer, filter line, and the status line of small terminals."""

from __future__ import annotations

from typing import ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Key, Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from tabapp.tui.chrome.actions import View, has_started
from tabapp.tui.chrome.zoom import ZOOMED, panel_around, unzoom, zoom
from tabapp.tui.parts.lines import Header, KeyBar, ReplayBar, StatusLine, Tabs
from tabapp.tui.parts.panel_files import as_tsv, row_under_cursor
from tabapp.tui.parts.table import Table
from tabapp.tui.session.host import Host
from tabapp.tui.viewmodels.texts import Snapshot

NO_MODEL = "There is no model under the cursor; rows appear when the run has started."
NO_TRIAL = "There is no trial under the cursor; rows appear when the first fit has started."


BROAD = 160
"""Columns from which screens have three columns of panels."""


class RunView(Screen[None]):
    """A screen of a run. Subclasses compose the body and draw snapshots into it."""

    VIEW: View
    MAIN = ""
    """Selector of the widget that is focused first."""
    FILTER_HINT = "filter · enter keeps it · ↑ earlier ones · esc clears"
    BY_TARGET: ClassVar[bool] = False
    """Whether the rows of its tables belong to the shown target, so that each target has cursors of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn_target: int | None = None
        self._cursors: dict[tuple[int | None, str | None], str | None] = {}
        """Keys under the cursors of tables that are not shown, by target and table."""

    @property
    def tabapp(self) -> Host:
        """The app, typed."""
        return cast(Host, self.app)  # pyright: ignore[reportUnknownMemberType]

    @property
    def snapshot(self) -> Snapshot:
        """The data to draw now."""
        return self.tabapp.snapshot()

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield Header(id="header")
        yield Tabs(self.VIEW)
        with Container(id="body"):
            yield from self.compose_body()
        yield Input(placeholder=self.FILTER_HINT, id="filter", compact=True)
        yield ReplayBar(id="replay")
        yield KeyBar(self.VIEW)

    def compose_body(self) -> ComposeResult:
        """The panels of this screen."""
        raise NotImplementedError

    def draw(self, snapshot: Snapshot) -> None:
        """Pass the parts of a snapshot to the panels."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.query_one(self.MAIN, Widget).focus()
        known = self.tabapp.preferences.values
        for table in self.query(Table):
            sort = known.sorts.get(table.id or "")
            if sort in table.ORDERS:
                table.sort = sort
        if known.charts.get(self.VIEW):
            self.add_class("-charts")

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self.redraw)

    @on(Resize)
    def _resized(self) -> None:
        self.set_class(self.size.width >= BROAD, "-broad")
        self.call_after_refresh(self.redraw)

    def redraw(self) -> None:
        """Draw the current snapshot."""
        if not self.is_mounted or not self.query(KeyBar):
            return
        snapshot = self.snapshot
        self.query_one(StatusLine).show(snapshot)
        if self.has_class("-tiny") or self.has_class("-flat"):
            return
        self._remember()
        self.query_one(Header).show(snapshot)
        self.query_one(KeyBar).show(snapshot.phase, several_targets=len(snapshot.state.targets) > 1)
        for bar in self.query(ReplayBar):
            bar.show(snapshot.replay)
        target = snapshot.state.target_index
        if self.BY_TARGET and target != self._drawn_target:
            self._turn_to(target, snapshot)
        else:
            self.draw(snapshot)

    def _remember(self) -> None:
        """Keep the orders of tables and the panels shown for the next start."""
        kept = self.tabapp.preferences
        kept.values.sorts.update({table.id: table.sort for table in self.query(Table) if table.ORDERS and table.id})
        if self.has_class("-charts") != kept.values.charts.get(self.VIEW, False):
            kept.values.charts[self.VIEW] = self.has_class("-charts")
        kept.save()

    def _turn_to(self, target: int | None, snapshot: Snapshot) -> None:
        """Draw another target, with the cursors that it had."""
        left, self._drawn_target = self._drawn_target, target
        tables = list(self.query(Table))
        for table in tables:
            self._cursors[left, table.id] = table.key
        self.leave_target(left, target)
        self.draw(snapshot)
        for table in tables:
            key = self._cursors.get((target, table.id))
            if key is not None:
                table.move_to_key(key)
            elif left is not None:
                table.action_move_to(0)

    def leave_target(self, left: int | None, target: int | None) -> None:
        """Called before another target is drawn, to exchange what the user has chosen in the one that was shown."""

    def warn(self, message: str) -> None:
        """Show why an action is not available."""
        self.notify(message, severity="warning", markup=False)

    def is_unstarted(self) -> bool:
        """Whether the run can still be started; warns if not."""
        if has_started(self.snapshot.state):
            self.warn("The plan cannot be changed after the run has started. Start a new run to use another plan.")
            return False
        return True

    def toggle_charts(self) -> None:
        """Switch between two groups of panels on a narrow terminal; a wide terminal shows both."""
        if self.has_class("-wide"):
            self.warn("All panels are shown already. Below 100 columns, this key switches between them.")
        else:
            self.toggle_class("-charts")
            self.call_after_refresh(self.redraw)

    def flash(self) -> None:
        """Highlight a new best score for a second."""

    def panel_in_focus(self) -> Widget:
        """The panel that has the focus, with the box around it; the main one if none has."""
        focused = self.focused
        inside = focused is not None and self.query_one("#body") in focused.ancestors
        return panel_around(focused if inside and focused is not None else self.query_one(self.MAIN, Widget))

    def table_in_focus(self) -> Table | None:
        """The table that has the focus, or the main one; None on a screen without."""
        main = self.query_one(self.MAIN, Widget)
        chosen = self.focused if isinstance(self.focused, Table) else main
        return chosen if isinstance(chosen, Table) else None

    def toggle_zoom(self) -> None:
        """Fill the screen with the panel in focus, or show all panels again."""
        if not unzoom(self):
            zoom(self, self.panel_in_focus())
        self.call_after_refresh(self.redraw)

    def action_copy_row(self) -> None:
        table = self.table_in_focus()
        rows = row_under_cursor(table) if table is not None else []
        if rows:
            self.tabapp.copy(as_tsv(rows[1:]))
        else:
            self.warn("There is no row under the cursor.")

    def set_filter(self, text: str) -> None:
        """Show only rows that contain a text."""

    def action_filter(self) -> None:
        self.add_class("-filtering")
        self.query_one("#filter", Input).focus()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self.set_filter(event.value)
        self.redraw()

    @on(Input.Submitted, "#filter")
    def _filter_kept(self, event: Input.Submitted) -> None:
        self.tabapp.preferences.add_filter(self.VIEW, event.value)
        self._close_filter()

    def _recall_filter(self, step: int) -> None:
        """Put an earlier or later text that was typed into the filter into it."""
        line, texts = self.query_one("#filter", Input), self.tabapp.preferences.values.filters.get(self.VIEW, [])
        place = (texts.index(line.value) if line.value in texts else -1) + step
        line.value = texts[place] if 0 <= place < len(texts) else "" if place < 0 else line.value
        line.cursor_position = len(line.value)

    def on_key(self, event: Key) -> None:
        if event.key == "escape" and self.has_class("-filtering"):
            event.stop()
            self.query_one("#filter", Input).value = ""
            self._close_filter()
        elif event.key in ("up", "down") and self.has_class("-filtering"):
            event.stop()
            self._recall_filter(1 if event.key == "up" else -1)
        elif event.key == "escape" and self.has_class(ZOOMED):
            event.stop()
            self.toggle_zoom()

    def _close_filter(self) -> None:
        self.remove_class("-filtering")
        self.query_one(self.MAIN, Widget).focus()
