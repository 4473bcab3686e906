"""The column under the cursor in full, beside the list of columns of a broad terminal."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp import charts
from tabapp.run.record import events as ev
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.column_facts import about_column, warnings_of
from tabapp.tui.viewmodels.texts import MUTED

TALLEST = 10
"""Lines of the histogram at most."""


@dataclass(frozen=True)
class ColumnFacts:
    """A column with its reason and its warnings; `n_rows` are those of the table."""

    column: ev.ColumnView
    reason: str
    warnings: tuple[ev.WarningView, ...]
    n_rows: int


class ColumnPanel(Panel[ColumnFacts]):
    """Kind with its reason, missing and distinct cells, a histogram, and the warnings of a column."""

    def on_facts(self, facts: ColumnFacts) -> None:
        set_titles(self, f"Column · {facts.column.name}", "enter compares it with the target")

    def draw(self, facts: ColumnFacts, width: int, height: int) -> list[Content]:
        column = facts.column
        above = [line for text in about_column(column, facts.reason, facts.n_rows) for line in text.wrap(width)]
        below = [line for text in warnings_of(column, facts.warnings) for line in text.wrap(width)]
        tall = min(TALLEST, height - len(above) - len(below) - 4)
        if tall < 2 or not column.histogram:
            return [*above, Content(""), *below]
        across = max(1, width // len(column.histogram)) * len(column.histogram)
        bars = [Content.styled(line, "$primary") for line in charts.bars(column.histogram, across, tall)]
        return [*above, Content(""), *bars, _axis(column.summary, across), Content(""), *below]

    def numbers(self) -> list[tuple[object, ...]]:
        return [] if self._facts is None else [("bin", "rows"), *enumerate(self._facts.column.histogram, 1)]


def _axis(summary: str, width: int) -> Content:
    """Both ends of a range below its bins, or the most frequent value, whose bin is the first."""
    low, dots, high = summary.partition(" … ")
    return Content.styled(f"{low}{high:>{max(0, width - len(low))}}" if dots else summary, MUTED)
