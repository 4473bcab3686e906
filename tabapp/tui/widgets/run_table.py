"""The table of all runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from tabapp import charts
from tabapp.run.lists.description import RunDescription
from tabapp.run.record.state import format_score
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.query import parse
from tabapp.tui.viewmodels.run_list import FIELDS, filter_fields
from tabapp.tui.viewmodels.texts import MUTED, clock_time, count

HISTORY_WIDTH = 10
COLUMNS = (
    Column("", width=1),
    Column("Run", flexible=True, least=27, width=34),
    Column("Status", width=13),
    Column("Data", priority=2),
    Column("Target", priority=3),
    Column("Metric", priority=4),
    Column("Best", "right", width=8),
    Column("Bests", width=HISTORY_WIDTH, priority=5),
    Column("Took", "right", width=7, priority=1),
    Column("Started", width=12, priority=6),
)
STATUSES = {
    "running": ("● running", "$primary"),
    "ok": ("✓ ok", "$success"),
    "interrupted": ("■ interrupted", "$warning"),
    "failed": ("✗ failed", "$error"),
    "stopped": ("■ stopped", "$warning"),
    "unreadable": ("✗ unreadable", "$error"),
}
SORTS: tuple[tuple[str, Callable[[RunDescription], tuple[object, ...]]], ...] = (
    ("newest", lambda run: (-(run.started or 0.0),)),
    (
        "best",
        lambda run: (run.metric_title, run.best is None, (-1 if run.greater_is_better else 1) * (run.best or 0.0)),
    ),
    ("status", lambda run: (run.status,)),
    ("file", lambda run: (Path(run.data).name.casefold(), run.target)),
)
TITLES = {"Run": "newest", "Started": "newest", "Best": "best", "Status": "status", "Data": "file"}


class Runs(Table):
    """The runs read so far; the open run is marked."""

    ORDERS: ClassVar = tuple(dict(SORTS))

    def __init__(self, current: str) -> None:
        super().__init__(COLUMNS, id="runs", empty="Reading the runs…")
        self._current = current
        self.sort = "newest"
        self.filter = ""
        self.marked: list[str] = []
        """Ids of at most two runs to compare, the older mark first."""
        self.comparing: tuple[str, ...] = ()
        """Ids of the two runs that are being compared, which takes seconds; empty if none are."""

    def next_sort(self) -> None:
        """Sort by the next column."""
        names = [name for name, _ in SORTS]
        self.sort = names[(names.index(self.sort) + 1) % len(names)]

    def mark(self, run: str) -> None:
        """Mark a run, or clear its mark; a third mark replaces the oldest one."""
        self.marked = [each for each in self.marked if each != run] if run in self.marked else [*self.marked, run][-2:]

    def show_runs(self, runs: list[RunDescription], unread: int) -> None:
        """Draw runs; `unread` more are being read."""
        query = parse(self.filter, FIELDS)
        ordered = sorted(runs, key=dict(SORTS)[self.sort])  # pyright: ignore[reportArgumentType]
        fitting = [
            run
            for run in ordered
            if query.fits(fields := filter_fields(run), " ".join(str(value) for value in fields.values()))
        ]
        if runs and self.filter:
            self.set_empty(f"No run fits “{self.filter}”.")
        self.show([self._row(run) for run in fitting], COLUMNS)
        details = [f"sorted by {self.sort}"] if self.sort != "newest" else []
        details += [f"“{self.filter}”"] if self.filter else []
        words = [count(len(runs), "run")]
        running = sum(run.status == "running" for run in runs)
        words += [f"{running} running"] if running else []
        words += [f"{unread} being read"] if unread else []
        if self.comparing:
            words = [f"comparing {' with '.join(self.comparing)}…"]
        elif len(self.marked) == 2:
            words += ["c compares the marked runs"]
        set_titles(self, " · ".join(["Runs", *details]), query.problem or " · ".join(words))

    def _row(self, run: RunDescription) -> Row:
        word, style = STATUSES[run.status]
        is_current = run.run == self._current
        started = time.strftime("%d %b %H:%M", time.localtime(run.started)) if run.started is not None else "—"
        return Row(
            run.run,
            (
                Content.styled("●" if run.run in self.marked else "▸" if is_current else "", "bold $accent"),
                Content.styled(run.name or run.run, "bold $accent" if is_current else ""),
                Content.styled(word, style),
                Content(Path(run.data).name),
                Content(run.target),
                Content.styled(run.metric_title, MUTED),
                Content.styled(f"◔ {format_score(run.best)}", MUTED)
                if run.partial
                else Content(format_score(run.best)),
                Content.styled(charts.sparkline(run.history, HISTORY_WIDTH), "$primary"),
                Content.styled(clock_time(run.seconds), MUTED),
                Content.styled(started, MUTED),
            ),
        )
