"""The table of all runs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tabapp import charts
from tabapp.run.lists.description import RunDescription
from tabapp.run.options.units import format_duration
from tabapp.run.record.state import format_score
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.query import parse
from tabapp.tui.viewmodels.run_list import (
    FIELDS,
    SORTS,
    STATUSES,
    about_status,
    fits,
    in_order,
    status_words,
    when_text,
)
from tabapp.tui.viewmodels.texts import MUTED, count

HISTORY_WIDTH = 10
LONGEST_FILE, LONGEST_TARGET, LONGEST_TAGS = 22, 16, 20
NARROW, SHORT_FILE, SHORT_TARGET = 79, 14, 10
"""Below so many cells, files and targets leave room for names."""
ID = re.compile(r"-[0-9a-f]{4}$")
"""The end of an id, by which runs of the same table differ."""


def _shorter_name(name: Content, width: int) -> Content:
    """A name cut before the end of its id: "titan…-b3f9"."""
    end = ID.search(name.plain)
    if end is None or width < len(end[0]) + 2:
        return name
    return name[: width - len(end[0]) - 1] + Content.assemble(("…", MUTED)) + name[end.start() :]


COLUMNS = (
    Column("", width=1),
    Column("", width=1),
    Column("Name", flexible=True, least=12, width=24, shorten=_shorter_name),
    Column("File"),
    Column("Target"),
    Column("Best", "right", width=9),
    Column("When", width=12),
    Column("Status", width=13, priority=1),
    Column("Tags", priority=2),
    Column("Metric", priority=3),
    Column("Took", "right", width=7, priority=4),
    Column("Bests", width=HISTORY_WIDTH, priority=5),
    Column("Run", priority=6),
)
TITLES = {"When": "newest", "Run": "newest", "Best": "best", "Status": "status", "File": "file"}


class Runs(Table):
    """The runs read so far; the open run is marked."""

    ORDERS: ClassVar = tuple(dict(SORTS))

    def __init__(self, current: str) -> None:
        super().__init__(COLUMNS, id="runs", empty="Reading the runs…")
        self._current = current
        self.sort = "newest"
        self.filter = ""
        self._runs: dict[str, RunDescription] = {}
        self.marked: list[str] = []
        """Ids of the marked runs, the oldest mark first."""
        self.comparing: tuple[str, ...] = ()
        """Titles of the two runs that are being compared, which takes seconds; empty if none are."""

    def about_row(self) -> Sequence[Content]:
        run = self._runs.get(self.key or "")
        if run is None:
            return ()
        what = Path(run.data).name or "no table"
        lines = [Content.assemble((run.title, "bold"), (": ", MUTED), f"{what} › {run.target}. {about_status(run)}")]
        return lines + ([Content.assemble(("Note: ", MUTED), run.labels.note)] if run.labels.note else [])

    def next_sort(self) -> None:
        """Sort by the next column."""
        names = list(SORTS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]

    def mark(self, run: str) -> None:
        """Mark a run, or clear its mark."""
        self.marked = [each for each in self.marked if each != run] if run in self.marked else [*self.marked, run]

    def show_runs(self, runs: list[RunDescription], unread: int) -> None:
        """Draw runs; `unread` more are being read."""
        self._runs = {run.run: run for run in runs}
        query = parse(self.filter, FIELDS)
        if runs and self.filter:
            self.set_empty(f"No run fits “{self.filter}”.")
        now = time.time()
        self.show([self._row(run, now) for run in in_order(runs, self.sort) if fits(run, query)], COLUMNS)
        details = [f"sorted by {self.sort}"] if self.sort != "newest" else []
        details += [f"“{self.filter}”"] if self.filter else []
        words = [count(len(runs), "run")]
        running = sum(run.status == "running" for run in runs)
        words += [f"{running} running"] if running else []
        words += [f"{unread} being read"] if unread else []
        if self.comparing:
            words = [f"comparing {' with '.join(self.comparing)}…"]
        elif self.marked:
            which = (
                ["c compares them"] if len(self.marked) == 2 else ["c compares the last two"] if self.marked[2:] else []
            )
            words += [f"{len(self.marked)} marked", *which]
        set_titles(self, " · ".join(["Runs", *details]), query.problem or " · ".join(words))

    def _row(self, run: RunDescription, now: float) -> Row:
        glyph, _, style = STATUSES[run.status]
        is_current = run.run == self._current
        narrow = self.size.width < NARROW
        file, target = (SHORT_FILE, SHORT_TARGET) if narrow else (LONGEST_FILE, LONGEST_TARGET)
        mark = "●" if run.run in self.marked else "▸" if is_current else "*" if run.labels.pinned else ""
        partial = run.partial and run.best is not None
        return Row(
            run.run,
            (
                Content.styled(mark, "bold $accent"),
                Content.styled(glyph, style),
                Content.styled(run.title, "bold $accent" if is_current else ""),
                Content(_cut(Path(run.data).name, file)),
                Content(_cut(run.target, target)),
                Content.styled(f"◔ {format_score(run.best)}", MUTED) if partial else Content(format_score(run.best)),
                Content.styled(when_text(run.started, now), MUTED),
                Content.styled(status_words(run), style),
                Content.styled(_cut(" ".join(f"#{tag}" for tag in run.labels.tags), LONGEST_TAGS), "$secondary"),
                Content.styled(run.metric_title, MUTED),
                Content.styled(format_duration(run.seconds), MUTED),
                Content.styled(charts.sparkline(run.history, HISTORY_WIDTH), "$primary"),
                Content.styled(run.run, MUTED),
            ),
        )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
