"""Runs screen: all runs of the runs folder, to open, compare, resume or delete."""

from __future__ import annotations

import asyncio
import shutil
from typing import ClassVar

from textual import on
from textual.app import ComposeResult

from tabapp.errors import TabappError
from tabapp.run.lists.description import RunDescription, describe_run, version_of
from tabapp.run.protocol.analyses import Compare, analyze_in_background
from tabapp.run.protocol.comparing import Comparison
from tabapp.run.record.folder import RunFolder, list_runs
from tabapp.run.record.resuming import resumed_config, save_resumed
from tabapp.run.record.state import format_score
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Decision, Option, Reading
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import RunView
from tabapp.tui.viewmodels.comparison import comparison_content
from tabapp.tui.viewmodels.query import HINT
from tabapp.tui.viewmodels.texts import Snapshot
from tabapp.tui.widgets.run_table import TITLES, Runs

READ_AGAIN_SECONDS = 2.0
DRAW_EVERY = 8


class RunsView(RunView):
    """The table of runs, which are read in the background, newest first."""

    VIEW: View = "runs"
    MAIN = "#runs"
    FILTER_HINT = HINT
    BINDINGS: ClassVar = bindings_for("runs")

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[str, tuple[tuple[float, int, bool], RunDescription]] = {}
        self._unread = 0
        self._reading = False

    def compose_body(self) -> ComposeResult:
        yield Runs(self.tabapp.folder.run)

    def on_mount(self) -> None:
        self.set_interval(READ_AGAIN_SECONDS, self._refresh)

    def on_screen_resume(self) -> None:
        self._refresh()

    def draw(self, snapshot: Snapshot) -> None:
        table = self.query_one(Runs)
        table.show_runs([facts for _, facts in self._runs.values()], self._unread)
        if not self._runs and not self._reading:
            table.set_empty(f"No runs in {self.tabapp.runs_dir} yet.")

    def action_refresh(self) -> None:
        self.notify(f"Reading the runs in {self.tabapp.runs_dir}.", markup=False, timeout=2)
        self._refresh()

    def _refresh(self) -> None:
        if not self._reading and self.is_current:
            self._reading = True
            self.run_worker(self._read(), exit_on_error=False)

    async def _read(self) -> None:
        try:
            folders = await asyncio.to_thread(list_runs, self.tabapp.runs_dir)
            here = {folder.run for folder in folders}
            self._runs = {run: known for run, known in self._runs.items() if run in here}
            self._unread = sum(folder.run not in self._runs for folder in folders)
            for index, folder in enumerate(folders):
                known = self._runs.get(folder.run)
                version = await asyncio.to_thread(version_of, folder)
                if known is None or known[0] != version:
                    self._runs[folder.run] = (version, await asyncio.to_thread(describe_run, folder))
                    self._unread -= known is None
                    if index % DRAW_EVERY == 0:
                        self.redraw()
        finally:
            self._reading = False
            self._unread = 0
        self.redraw()

    def _selected_run(self) -> RunDescription | None:
        """The run under the cursor; warns where there is none."""
        known = self._runs.get(self.query_one(Runs).key or "")
        if known is None:
            self.warn("There is no run under the cursor.")
            return None
        return known[1]

    @on(Table.HeaderClicked)
    def _header_clicked(self, event: Table.HeaderClicked) -> None:
        table = self.query_one(Runs)
        table.sort = TITLES.get(event.title, table.sort)
        self.redraw()

    @on(Table.Selected, "#runs")
    async def action_open(self) -> None:
        run = self._selected_run()
        if run is None:
            return
        if run.run == self.tabapp.folder.run:
            await self.tabapp.action_view("run")
        elif run.status == "unreadable":
            self.notify(run.reason, severity="error")
        else:
            self.tabapp.open_run(run.folder, start_engine=False)

    def action_resume(self) -> None:
        run = self._selected_run()
        if run is None:
            return
        if run.folder.is_running():
            self.notify(f"{run.run} is running. Press enter to open it.", severity="warning")
        elif run.status == "ok":
            self.notify(
                f"{run.run} is complete. Use `tabapp resume {run.folder.argument} --budget 5m` to give it more time.",
                severity="warning",
                markup=False,
                timeout=8,
            )
        elif run.status == "unreadable":
            self.notify(run.reason, severity="error")
        else:
            self._resume(run.folder)

    def _resume(self, folder: RunFolder) -> None:
        try:
            save_resumed(folder, resumed_config(folder, None, None, warn=self.warn))
        except TabappError as error:
            self.notify(f"The run cannot be resumed: {error}", severity="error", markup=False)
            return
        self.tabapp.open_run(folder, start_engine=True)

    def action_delete(self) -> None:
        run = self._selected_run()
        if run is None:
            return
        if run.run == self.tabapp.folder.run:
            self.notify("This run is open; open another run to delete it.", severity="warning")
        elif run.folder.is_running():
            self.notify(f"{run.run} is running; finish it before you delete it.", severity="warning")
        else:
            folds = f" on {run.partial}" if run.partial else ""
            best = f", best {run.metric} {format_score(run.best)}{folds}" if run.best is not None else ""
            bundle = " Its bundle goes too." if run.folder.bundle.is_file() else ""
            dialog = Decision(
                f"Delete {run.run}?",
                f"{run.data or 'Unknown data'}{best}.{bundle} This cannot be undone.",
                [Option("delete", "Delete it", str(run.folder.path), "y", dangerous=True)],
            )
            self.tabapp.push_screen(dialog, lambda answer: self._delete(run) if answer else None)

    def _delete(self, run: RunDescription) -> None:
        async def delete() -> None:
            # Checked again: the run may have been resumed while the dialog was open.
            if run.folder.is_running():
                self.notify(f"{run.run} has been resumed, so it is not deleted.", severity="warning")
                return
            try:
                await asyncio.to_thread(shutil.rmtree, run.folder.path)
                self.notify(f"{run.run} was deleted.")
            except OSError as error:
                self.notify(f"{run.run} could not be deleted: {error.strerror}.", severity="error")
            self._runs.pop(run.run, None)
            self.redraw()
            self._refresh()

        self.run_worker(delete(), exit_on_error=False)

    def action_mark(self) -> None:
        run = self._selected_run()
        if run is not None:
            self.query_one(Runs).mark(run.run)
            self.redraw()

    def action_compare(self) -> None:
        table = self.query_one(Runs)
        names = [run for run in table.marked if run in self._runs]
        if len(names) == 1 and table.key and table.key not in names:
            names.append(table.key)
        if len(names) < 2:
            self.warn("Mark two runs with space, or mark one and move the cursor to another.")
            return
        folders = [self._runs[run][1].folder for run in names]
        self.run_worker(self._compare(folders), group="compare", exclusive=True, exit_on_error=False)

    async def _compare(self, folders: list[RunFolder]) -> None:
        # Seconds may pass: what is in progress stays on the screen. A later comparison ends this one, and shows its own runs.
        self._show_progress(tuple(folder.run for folder in folders))
        try:
            paths = [folder.path for folder in folders]
            text = comparison_content(await analyze_in_background(Comparison, Compare(), *paths))
        except (TabappError, OSError) as error:
            text = Content(f"The runs cannot be compared: {error}")
        self._show_progress(())
        self.tabapp.push_screen(Reading("Comparison", text))

    def action_copy_command(self) -> None:
        run = self._selected_run()
        if run is not None:
            self.tabapp.copy(f"tabapp attach {run.folder.argument}")

    def action_sort(self) -> None:
        self.query_one(Runs).next_sort()
        self.redraw()

    def set_filter(self, text: str) -> None:
        self.query_one(Runs).filter = text

    def _show_progress(self, runs: tuple[str, ...]) -> None:
        self.query_one(Runs).comparing = runs
        self.redraw()
