"""Runs screen: all runs of the runs folder, to open, compare, resume or delete."""

from __future__ import annotations

import asyncio
import math
import shutil
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from tabapp.errors import TabappError
from tabapp.run.lists.description import RunDescription
from tabapp.run.protocol.analyses import Compare, analyze_in_background
from tabapp.run.protocol.comparing import Comparison
from tabapp.run.record.state import format_score
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Decision, Option, Reading
from tabapp.tui.parts.table import Table
from tabapp.tui.screens.base import RunView
from tabapp.tui.session import labeling, next_run
from tabapp.tui.session.run_reader import RunReader
from tabapp.tui.viewmodels.comparison import comparison_content
from tabapp.tui.viewmodels.query import HINT
from tabapp.tui.viewmodels.texts import Snapshot
from tabapp.tui.widgets.run_preview import MOST_CURVES, PreviewFacts, RunPreview
from tabapp.tui.widgets.run_table import TITLES, Runs

READ_AGAIN_SECONDS = 2.0
REPLAY_SECONDS = 30.0
BESIDE = 120
"""Columns from which the run under the cursor is shown beside the list."""


def replay_speed(seconds: float) -> float:
    """The speed, a power of two, at which a run of so many seconds is replayed in about half a minute."""
    return float(2 ** max(0, round(math.log2(max(seconds, REPLAY_SECONDS) / REPLAY_SECONDS))))


class RunsView(RunView):
    """The table of runs, which are read in the background, and the run under the cursor or the curves of the marked runs."""

    CSS_PATH = sheet("runs")
    VIEW: View = "runs"
    MAIN = "#runs"
    FILTER_HINT = HINT
    BINDINGS: ClassVar = bindings_for("runs")

    def compose_body(self) -> ComposeResult:
        self._reader = RunReader(self.tabapp.runs_dir)
        with Container(id="runs-body"):
            yield Runs(self.tabapp.folder.run)
            yield RunPreview()

    def on_mount(self) -> None:
        self.set_interval(READ_AGAIN_SECONDS, self._refresh)

    def on_screen_resume(self) -> None:
        self._refresh()

    def draw(self, snapshot: Snapshot) -> None:
        table = self.query_one(Runs)
        table.show_runs(self._reader.runs, self._reader.unread)
        if not self._reader.runs and not self._reader.is_reading:
            table.set_empty(f"No runs in {self.tabapp.runs_dir} yet.")
        self.set_class(self.size.width >= BESIDE, "-beside")
        self.set_class(len(table.marked) > 1, "-overlay")
        self._preview()

    @on(Table.Moved, "#runs")
    def _preview(self) -> None:
        """Show the marked runs, or the one under the cursor, in detail."""
        table = self.query_one(Runs)
        known = [run for run in map(self._reader.get, table.marked) if run is not None]
        if len(known) < 2:
            under = self._reader.get(table.key)
            known = [under] if under is not None else []
        self.query_one(RunPreview).show(PreviewFacts(tuple(known[-MOST_CURVES:])))

    def action_refresh(self) -> None:
        self.notify(f"Reading the runs in {self.tabapp.runs_dir}.", markup=False, timeout=2)
        self._refresh()

    def _refresh(self) -> None:
        if self.is_current and not self._reader.is_reading:
            self.run_worker(self._reader.read(self.redraw), exit_on_error=False)

    def _selected_run(self) -> RunDescription | None:
        """The run under the cursor; warns where there is none."""
        run = self._reader.get(self.query_one(Runs).key)
        if run is None:
            self.warn("There is no run under the cursor.")
        return run

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
        if run.run == self.tabapp.folder.run and self.snapshot.replay is None:
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
            self.warn(run.folder.busy_sentence)
        elif run.status == "unreadable":
            self.notify(run.reason, severity="error")
        elif run.status == "ok":
            next_run.ask_for_more(self.tabapp, run.folder)
        else:
            next_run.resume(self.tabapp, run.folder)

    def action_more(self) -> None:
        run = self._selected_run()
        if run is None:
            return
        if run.folder.is_running():
            self.warn(run.folder.busy_sentence)
        else:
            next_run.ask_for_more(self.tabapp, run.folder)

    def action_clone(self) -> None:
        run = self._selected_run()
        if run is not None:
            next_run.clone(self.tabapp, run.folder)

    def action_replay(self) -> None:
        run = self._selected_run()
        if run is None:
            return
        if run.status == "unreadable":
            self.notify(run.reason, severity="error")
        elif run.started is None:
            self.warn(f"{run.title} has no events to replay.")
        else:
            self.tabapp.open_replay(run.folder, replay_speed(run.seconds))

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
            self._reader.forget(run.run)
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
        runs = [run for run in map(self._reader.get, table.marked) if run is not None][-2:]
        under = self._reader.get(table.key)
        if len(runs) == 1 and under is not None and under is not runs[0]:
            runs.append(under)
        if len(runs) < 2:
            self.warn("Mark two runs with space, or mark one and move the cursor to another.")
            return
        empty = next((run for run in runs if run.best is None), None)
        if empty is not None:
            how = "Wait for its first score." if empty.status == "running" else "Move to it and press r to resume it."
            self.warn(f"{empty.title} has no score to compare yet. {how}")
            return
        self.run_worker(self._compare(runs), group="compare", exclusive=True, exit_on_error=False)

    async def _compare(self, runs: list[RunDescription]) -> None:
        # Seconds may pass: what is in progress stays on the screen. A later comparison ends this one, and shows its own runs.
        a, b = titles = [run.title for run in runs]
        if a == b:
            a, b = (run.folder.short_id for run in runs)
        self._show_progress(tuple(titles))
        try:
            paths = [run.folder.path for run in runs]
            text = comparison_content(await analyze_in_background(Comparison, Compare(), *paths), a, b)
        except (TabappError, OSError) as error:
            text = Content(f"The runs cannot be compared: {error}")
        self._show_progress(())
        self.tabapp.push_screen(Reading("Comparison", text))

    def action_copy_command(self) -> None:
        run = self._selected_run()
        if run is not None:
            self.tabapp.copy(f"tabapp attach {run.folder.argument}")

    def action_unmark(self) -> None:
        self.query_one(Runs).marked.clear()
        self.redraw()

    def action_rename(self) -> None:
        run = self._selected_run()
        if run is not None:
            labeling.rename(self.tabapp, run, self._refresh)

    def action_note(self) -> None:
        run = self._selected_run()
        if run is not None:
            labeling.write_note(self.tabapp, run, self._refresh)

    def action_tags(self) -> None:
        run = self._selected_run()
        if run is not None:
            labeling.write_tags(self.tabapp, run, self._refresh)

    def action_pin(self) -> None:
        run = self._selected_run()
        if run is not None:
            labeling.pin(self.tabapp, run, self._refresh)

    def action_sort(self) -> None:
        self.query_one(Runs).next_sort()
        self.redraw()

    def set_filter(self, text: str) -> None:
        self.query_one(Runs).filter = text

    def _show_progress(self, runs: tuple[str, ...]) -> None:
        self.query_one(Runs).comparing = runs
        self.redraw()
