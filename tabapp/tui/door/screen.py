"""The front door: the runs, and the tables of the working folder, to open either."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import ModalScreen
from textual.widgets import Input

from tabapp import __version__
from tabapp.run.lists.description import RunDescription
from tabapp.run.record.state import RunState
from tabapp.tui.chrome.actions import actions_for, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.content import Content
from tabapp.tui.dialogs.file_choice import FileChoice
from tabapp.tui.door.files_here import FilesHere, files_here, recent_files
from tabapp.tui.parts.lines import ClickableLine
from tabapp.tui.parts.table import Table
from tabapp.tui.session import labeling, next_run
from tabapp.tui.session.next_run import Opener
from tabapp.tui.session.run_reader import RunReader
from tabapp.tui.viewmodels.texts import MUTED, gibibytes, short_path
from tabapp.tui.widgets.run_table import Runs

READ_AGAIN_SECONDS = 2.0
OWN = actions_for("door")
PANEL_NAMES = {"runs": "door", "files": "files"}
"""The help texts of its lists."""
ON_RUNS = ("door.resume", "door.more", "door.clone", "door.rename")
"""Those that need a run under the cursor."""
ALL_KEYS = 91
"""Columns that show all keys; f2 is left out below."""
TIPS = (
    "y on Data copies the command that starts the plan without a screen.",
    "q can leave a run in the background; tabapp attach returns to it.",
    "o opens another file or run from every screen.",
    "? explains the panels and numbers of every screen.",
    "n on a run that ended opens its plan again; + gives it more time.",
)


def _key(key: str, label: str) -> Content:
    return Content.assemble((f" {key}", "bold $primary"), (f" {label}", MUTED))


class DoorKeys(ClickableLine):
    """The keys of the door."""


class Door(ModalScreen[None]):
    """Runs and files to open.

    Args:
        current: id of the run that is shown below; "" at the start of the program.
    """

    CSS_PATH = sheet("door")
    VIEW: ClassVar = "door"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("door")]

    def __init__(self, current: str = "") -> None:
        super().__init__()
        self._current = current
        self._tip = TIPS[int(time.time()) % len(TIPS)]
        self._is_first_reading = True

    @property
    def _opener(self) -> Opener:
        return cast(Opener, self.app)  # pyright: ignore[reportUnknownMemberType]

    def compose(self) -> ComposeResult:
        self._reader = RunReader(self._opener.runs_dir)
        yield ClickableLine(id="door-title")
        with Container(id="door-body"):
            yield Runs(self._current)
            yield FilesHere()
        yield Input(placeholder="find runs and files · enter keeps it · esc clears", id="filter", compact=True)
        yield ClickableLine(id="door-tip")
        yield DoorKeys(id="door-keys")

    def on_mount(self) -> None:
        self._draw_lines()
        self.query_one(Runs).focus()
        self._draw()
        # The first picture does not wait for the runs.
        self.call_after_refresh(self._refresh)
        self.set_interval(READ_AGAIN_SECONDS, self._refresh)

    def on_resize(self) -> None:
        self._draw_lines()

    def on_descendant_focus(self) -> None:
        self._draw_lines()

    def _draw_lines(self) -> None:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        machine = f"{len(os.sched_getaffinity(0))} cores · {gibibytes(memory)} GiB"
        name = Content.assemble((" tabapp", "bold $primary"), (f" {__version__} · {short_path(Path.cwd())}", MUTED))
        gap = max(1, self.size.width - name.cell_length - len(machine) - 1)
        self.query_one("#door-title", ClickableLine).set_parts(
            [(name, None), (Content.styled(" " * gap + machine, MUTED), None)]
        )
        self.query_one("#door-tip", ClickableLine).set_parts([(Content.styled(f" Tip: {self._tip}", MUTED), None)])
        parts: list[tuple[Content, str | None]] = []
        on_files = isinstance(self.focused, FilesHere)
        tables = {"Runs": self.query_one(Runs).rows, "Files": self.query_one(FilesHere).rows}
        for action in OWN:
            if action.id in ON_RUNS and (on_files or not tables["Runs"]):
                continue
            if action.id == "door.rename" and self.size.width < ALL_KEYS:
                continue
            if action.id == "door.find" and all(tables.values()):
                other = "Runs" if on_files else "Files"
                parts.append((_key("tab", other), "app.focus_next"))
            label = "Quit" if action.id == "door.leave" and not self._current else action.label
            parts.append((_key(action.shown_key, label), action.action))
        between: tuple[Content, str | None] = (Content(" "), None)
        self.query_one(DoorKeys).set_parts([each for part in parts for each in (part, between)][:-1])

    def _refresh(self) -> None:
        if self.is_current and not self._reader.is_reading:
            self.run_worker(self._reader.read(self._draw), exit_on_error=False)

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        table = self.query_one(Runs)
        runs = self._reader.runs
        table.show_runs(runs, self._reader.unread)
        if not runs and not self._reader.is_reading:
            table.set_empty("No runs yet. Choose a file and press enter.")
        files = self.query_one(FilesHere)
        files.show_files(files_here(runs))
        if self._is_first_reading and not self._reader.is_reading and not self._reader.unread:
            self._is_first_reading = False
            if not runs and files.rows:
                files.focus()
        self._draw_lines()

    def _run(self) -> RunDescription | None:
        """The run under the cursor; warns if there is none, or it cannot be read."""
        run = None if isinstance(self.focused, FilesHere) else self._reader.get(self.query_one(Runs).key)
        if run is None:
            self.notify("There is no run under the cursor.", severity="warning")
        elif run.status == "unreadable":
            self.notify(run.reason, severity="error", markup=False)
            return None
        return run

    @on(Table.Selected, "#runs")
    def _run_chosen(self) -> None:
        run = self._run()
        if run is not None and run.run == self._current:
            self.dismiss(None)
        elif run is not None:
            self._opener.open_run(run.folder, start_engine=False)

    @on(Table.Selected, "#files")
    def _file_chosen(self, event: Table.Selected) -> None:
        next_run.open_file(self._opener, Path(event.key))

    def action_open(self) -> None:
        table = self.focused
        if isinstance(table, Table) and table.key is not None:
            table.action_select()
        else:
            self.notify("There is nothing to open under the cursor. Press o to choose a file.", severity="warning")

    def action_file(self) -> None:
        dialog = FileChoice("The table to open", recent_files(self._reader.runs))
        self.app.push_screen(dialog, lambda path: next_run.open_file(self._opener, Path(path)) if path else None)

    def action_resume(self) -> None:
        run = self._run()
        if run is not None and run.status == "ok":
            next_run.ask_for_more(self._opener, run.folder)
        elif run is not None:
            next_run.resume(self._opener, run.folder)

    def action_more(self) -> None:
        run = self._run()
        if run is not None and run.folder.is_running():
            self.notify(run.folder.busy_sentence, severity="warning", markup=False)
        elif run is not None:
            next_run.ask_for_more(self._opener, run.folder)

    def action_clone(self) -> None:
        run = self._run()
        if run is not None:
            next_run.clone(self._opener, run.folder)

    def action_rename(self) -> None:
        run = self._run()
        if run is not None:
            labeling.rename(self._opener, run, self._refresh)

    def action_filter(self) -> None:
        self.add_class("-filtering")
        self.query_one("#filter", Input).focus()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self.query_one(Runs).filter = self.query_one(FilesHere).filter = event.value
        self._draw()

    @on(Input.Submitted, "#filter")
    def _filter_kept(self) -> None:
        self.remove_class("-filtering")
        tables: list[Table] = [self.query_one(Runs), self.query_one(FilesHere)]
        next((table for table in tables if table.rows), tables[0]).focus()

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and self.has_class("-filtering"):
            event.stop()
            event.prevent_default()
            self.query_one("#filter", Input).value = ""
            self._filter_kept()

    def action_help(self) -> None:
        from tabapp.tui.screens.help import Help, help_sections

        table = self.focused if isinstance(self.focused, Table) else self.query_one(Runs)
        self.app.push_screen(Help(help_sections("door", PANEL_NAMES[table.id or ""], RunState(), "ready", table)))

    def action_leave(self) -> None:
        """Return to the run, or to the shell."""
        if self._current:
            self.dismiss(None)
        else:
            self.app.exit()
