"""The log as a table that follows its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tabapp.run.record.state import RunState
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.log_lines import LEVELS, LogLine, LogLines
from tabapp.tui.viewmodels.texts import MUTED, count
from tabapp.tui.widgets.feed import STYLES

COLUMNS = (Column("time", width=8), Column("kind", width=8), Column("text", width=40, flexible=True))


class LogTable(Table):
    """Lines of a level, oldest first. A cursor on the last line follows new lines."""

    def __init__(self, log: Path) -> None:
        super().__init__(COLUMNS, header=False, id="log", empty="The log is empty.")
        self._lines = LogLines(log)
        self._drawn: tuple[str, str] | None = None
        self.level = LEVELS[0]
        self.search = ""

    @property
    def line(self) -> LogLine | None:
        """The line under the cursor."""
        key = self.key
        return next((line for line in self._lines.lines if str(line.number) == key), None)

    def about_row(self) -> Sequence[Content]:
        line = self.line
        if line is None:
            return ()
        return [Content.assemble((line.kind, STYLES.get(line.kind, "$foreground")), (": ", MUTED), line.text)]

    @property
    def is_at_end(self) -> bool:
        """Whether the cursor is on the last line."""
        return not self.rows or self.key == self.rows[-1].key

    def next_level(self) -> None:
        """Show the lines of the next level."""
        self.level = LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)]

    def show_state(self, state: RunState) -> None:
        """Add and draw new lines."""
        fresh, drawn = self._lines.take(state.feed), (self.level, self.search)
        follows = self.is_at_end
        if fresh or drawn != self._drawn:
            self._drawn = drawn
            shown = [line for line in self._lines.lines if line.is_of(self.level)]
            self.set_empty("The log is empty." if self.level == LEVELS[0] else f"No lines: {self.level}.")
            self.show([self._row(line) for line in shown])
            if follows and self.rows:
                self.action_move_to(-1)
        self.show_titles()

    def show_titles(self) -> None:
        """Write the level and the search on the border."""
        found = sum(self._has(row) for row in self.rows) if self.search else 0
        details = [self.level, *([f"“{self.search}” {count(found, 'line')}"] if self.search else [])]
        set_titles(self, " · ".join(["Log", *details]), "following" if self.is_at_end else "f follows")

    def find(self, direction: int) -> bool:
        """Move the cursor to the next or previous line that contains the search text, wrapping around."""
        keys = [row.key for row in self.rows]
        if not self.search or self.key is None:
            return False
        start = keys.index(self.key)
        for step in range(1, len(keys) + 1):
            row = self.rows[(start + direction * step) % len(keys)]
            if self._has(row):
                self.move_to_key(row.key)
                return True
        return False

    def _has(self, row: Row) -> bool:
        return self.search.casefold() in row.cells[-1].plain.casefold()

    def _row(self, line: LogLine) -> Row:
        clock = time.strftime("%H:%M:%S", time.localtime(line.t)) if line.t is not None else ""
        text = Content.styled(line.text, MUTED if line.kind in ("fit", "engine") else "")
        at = line.text.casefold().find(self.search.casefold()) if self.search else -1
        if at >= 0:
            text = text.stylize("bold $background on $accent", at, at + len(self.search))
        style = STYLES.get(line.kind, "$foreground")
        return Row(str(line.number), (Content.styled(clock, MUTED), Content.styled(line.kind, style), text))
